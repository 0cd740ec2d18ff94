//! Tests of the layers, with axum, on the memory backend and a paused clock.
#![forbid(unsafe_code)]

mod fence;
mod idempotency;
mod lock;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use lockwright_core::{Error, ErrorKind};
use tower::ServiceExt;

fn request(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

async fn status(app: &Router, path: &str) -> u16 {
    app.clone().oneshot(request(path)).await.unwrap().status().as_u16()
}

fn kind(response: &Response) -> ErrorKind {
    response.extensions().get::<Arc<Error>>().expect("the layer refused the request").kind()
}
