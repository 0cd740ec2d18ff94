//! Middleware for services of [tower](https://docs.rs/tower) with HTTP requests, such as those of
//! axum and tonic.
//!
//! - [`LockLayer`] runs a service while it holds a lock.
//! - [`FenceLayer`] protects a resource: it rejects requests of late holders.
//!
//! A function of each layer returns the lock's name for a request. For `None`, the service runs
//! without the layer.
//!
//! ```
//! use axum::extract::Request;
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use lockwright_core::Locks;
//! use lockwright_core::fencing::Fenced;
//! use lockwright_tower::LockLayer;
//!
//! fn shop(locks: Locks) -> Router {
//!     let pay = async |Extension(fenced): Extension<Fenced>| {
//!         // … send `fenced` with each write, over HTTP in the header `fencing::HEADER` …
//!     };
//!     let order = |request: &Request| {
//!         let order = request.uri().path().strip_prefix("/orders/")?;
//!         Some(format!("orders/{order}"))
//!     };
//!     Router::new().route("/orders/{order}", post(pay)).layer(LockLayer::new(locks, order))
//! }
//! # let _ = shop;
//! ```
//!
//! # Errors
//!
//! A layer's own response has an empty body, and the [`Error`](lockwright_core::Error) in an
//! [`Arc`](std::sync::Arc) among its extensions, so that another layer can render it.
//!
//! # Cancel safety
//!
//! Dropping a response future, as servers do when the client disconnects, drops the inner future.
//! Then the lock is released in the background, or the gate opens. A write already sent isn't
//! stopped: see [`LockLayer`] and [`FenceLayer`].
#![forbid(unsafe_code)]

mod fence;
mod lock;
mod service;

pub use fence::FenceLayer;
pub use lock::LockLayer;
pub use service::Protected;
