//! Middleware for [tower](https://docs.rs/tower) services with HTTP requests, such as those of axum.
//!
//! - [`LockLayer`] runs a service while it holds a lock.
//! - [`FenceLayer`] rejects requests to a resource with a fence below the highest accepted one.
//! - [`IdempotencyLayer`] runs a service once per idempotency key.
//!
//! Each layer calls your function for the lock's name. If it returns `None`, the request passes
//! unprotected. Derive the name from decoded parts of the request: `uri().path()` is still
//! percent-encoded, so `/orders/42` and `/orders/4%32` would be two locks.
//!
//! ```
//! use axum::extract::Request;
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use lockwright_core::Locks;
//! use lockwright_core::backend_util::percent;
//! use lockwright_core::fencing::Fenced;
//! use lockwright_tower::LockLayer;
//!
//! fn shop(locks: Locks) -> Router {
//!     let pay = async |Extension(fenced): Extension<Fenced>| {
//!         // … send `fenced` with each write, over HTTP in the header `fencing::HEADER` …
//!     };
//!     let order = |request: &Request| {
//!         let order = request.uri().path().strip_prefix("/orders/")?;
//!         Some(format!("orders/{}", percent::decode(order)?)) // as axum decodes it
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
//! Dropping a response future, as servers do when the client disconnects, drops the inner future,
//! except under an [`IdempotencyLayer`]. Then the lock is released in the background, or the next
//! request enters the gate. A write already sent isn't stopped.
#![forbid(unsafe_code)]

mod fence;
mod idempotency;
mod lock;
mod service;

pub use fence::FenceLayer;
pub use idempotency::{IdempotencyLayer, Idempotent, Responses};
pub use lock::LockLayer;
pub use service::Protected;
