use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::routing::get;
use axum::{Extension, Router};
use lockwright_core::fencing::{Fenced, Gate, HEADER, Inside};
use lockwright_core::{ErrorKind, Fence, LockName, Reason};
use lockwright_tower::FenceLayer;
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::{kind, request, status};

fn fenced(name: &str, fence: u64) -> String {
    Fenced { name: LockName::new(name).unwrap(), fence: Fence::new(fence) }.to_string()
}

fn with_header(value: &str) -> Request {
    let mut request = request("/write");
    request.headers_mut().insert(HEADER, HeaderValue::from_str(value).unwrap());
    request
}

fn layer() -> FenceLayer<fn(&Request) -> Option<String>> {
    let lock = |request: &Request| (request.uri().path() != "/read").then(|| "shop/x".to_owned());
    FenceLayer::new(Gate::new(), lock as _)
}

#[tokio::test]
async fn only_current_fences_enter() {
    let app = Router::new().fallback(async || {}).layer(layer());
    for (header, expected) in [
        (fenced("shop/x", 2), 200),
        (fenced("shop/x", 1), 412),
        (fenced("shop/x", 2), 200),
        (fenced("shop/x", 3), 200),
        (fenced("shop/y", 4), 400),
        ("3".to_owned(), 400),
        ("größer".to_owned(), 400),
    ] {
        let response = app.clone().oneshot(with_header(&header)).await.unwrap();
        assert_eq!(response.status(), expected, "{header}");
        match expected {
            412 => assert_eq!(kind(&response), ErrorKind::Lost(Reason::Superseded)),
            400 => assert_eq!(kind(&response), ErrorKind::InvalidInput),
            _ => {}
        }
    }
    assert_eq!(status(&app, "/write").await, 428);
    assert_eq!(status(&app, "/read").await, 200);
}

#[tokio::test]
async fn next_request_waits_until_the_write_is_done() {
    for outlives_its_request in [false, true] {
        let (slow, writes) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let (proceed, written) = (Arc::clone(&slow), Arc::clone(&writes));
        let write = async move |Extension(inside): Extension<Arc<Inside>>| {
            let fence = inside.highest();
            let inside = outlives_its_request.then_some(inside);
            let write = async move {
                if fence == Fence::new(1) {
                    proceed.notified().await;
                }
                written.lock().unwrap().push(fence.get());
                drop(inside);
            };
            if outlives_its_request { tokio::spawn(write).await.unwrap() } else { write.await }
        };
        let app = Router::new().route("/write", get(write)).layer(layer());
        let send = |fence| tokio::spawn(app.clone().oneshot(with_header(&fenced("shop/x", fence))));
        let (earlier, later) = (send(1), send(2));
        run_ready_tasks().await;
        assert!(!later.is_finished());
        if outlives_its_request {
            earlier.abort();
            run_ready_tasks().await;
            assert!(earlier.is_finished() && !later.is_finished());
        }
        slow.notify_one();
        assert_eq!(later.await.unwrap().unwrap().status(), 200);
        assert_eq!(*writes.lock().unwrap(), [1, 2]);
    }
}

async fn run_ready_tasks() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
