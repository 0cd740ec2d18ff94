use std::convert::identity;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use lockwright_core::{Error, Locks};
use tower_layer::Layer;
use tower_service::Service;

use crate::lock;
use crate::service::{Outcome, refusal, take_ready};

/// The header that marks a stored response.
const REPLAYED: &str = "idempotent-replayed";

/// A store of responses, such as a table in the application's database.
pub trait Responses: Clone + Send + Sync + 'static {
    /// If [`get`](Self::get) fails, the layer answers 503. It ignores a failure of
    /// [`put`](Self::put), so log it.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Returns the response that is stored under the key.
    fn get(
        &self,
        key: &str,
    ) -> impl Future<Output = Result<Option<Response<Bytes>>, Self::Error>> + Send;

    /// Stores a response, unless the key has one. Omit headers that must not be repeated, such as
    /// `set-cookie`. The application decides when to delete the response.
    fn put(
        &self,
        key: &str,
        response: Response<Bytes>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A layer that runs the service once per idempotency key. It answers a retry with the stored
/// response and the header `idempotent-replayed: true`.
///
/// The layer holds the key's mutex while it looks up the response, runs the service and stores its
/// response, so a retry waits for the first request, with which it isn't compared. The layer stores
/// no response with a status from 500, and none of a Lockwright layer inside, so a retry then runs
/// the service again. Put layers that answer 401, 408 or 429 outside of this one.
///
/// The service runs in its own tokio task, so it completes even if the client disconnects. The
/// request's extensions have the hold's [`Fenced`](lockwright_core::fencing::Fenced). The layer
/// collects the whole body in memory, and drops trailers, so don't use it for gRPC or for endless
/// bodies.
///
/// **The service may run again after it did its work** if it panicked, failed or answered with a
/// status from 500, or if the process ended, the lock was lost or [`Responses`] failed before the
/// response was stored. To exclude that, store the key in the transaction of the work.
///
/// The layer's own responses are those of [`LockLayer`](crate::LockLayer), and:
///
/// - 500: the service's response body failed
/// - 503: [`Responses::get`] failed
#[derive(Debug, Clone)]
pub struct IdempotencyLayer<R, K> {
    locks: Locks,
    wait: Option<Duration>,
    responses: R,
    key: K,
}

impl<R: Responses, K> IdempotencyLayer<R, K> {
    /// Creates a layer. `key` returns a request's key, which is also the lock's name, without the
    /// client's namespace. Build it from the operation, the user's number (or one user could read
    /// another's response) and, at the end, the header `idempotency-key`. If `key` returns `None`,
    /// the service runs unprotected.
    pub fn new<B>(locks: Locks, responses: R, key: K) -> Self
    where
        K: Fn(&Request<B>) -> Option<String> + Clone,
    {
        Self { locks, wait: None, responses, key }
    }

    /// As [`LockLayer::wait_for`]. A retry waits even after its client has disconnected.
    ///
    /// [`LockLayer::wait_for`]: crate::LockLayer::wait_for
    pub fn wait_for(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }
}

impl<S, R: Clone, K: Clone> Layer<S> for IdempotencyLayer<R, K> {
    type Service = Idempotent<S, R, K>;

    fn layer(&self, inner: S) -> Self::Service {
        Idempotent { inner, layer: self.clone() }
    }
}

/// The service of an [`IdempotencyLayer`].
#[derive(Debug, Clone)]
pub struct Idempotent<S, R, K> {
    inner: S,
    layer: IdempotencyLayer<R, K>,
}

impl<S, R, K, B, T> Service<Request<B>> for Idempotent<S, R, K>
where
    S: Service<Request<B>, Response = Response<T>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send,
    R: Responses,
    K: Fn(&Request<B>) -> Option<String>,
    B: Send + 'static,
    T: Body<Data: Send> + From<Bytes> + Default + Send + 'static,
{
    type Response = Response<T>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let key = (self.layer.key)(&request);
        let mut inner = take_ready(&mut self.inner);
        let Some(key) = key else { return Box::pin(inner.call(request)) };
        let IdempotencyLayer { locks, wait, responses, .. } = &self.layer;
        let (locks, wait, responses) = (locks.clone(), *wait, responses.clone());
        let work = async move {
            let once = async |request| once(&responses, &key, || inner.call(request)).await;
            lock::hold(&locks, wait, &key, request, once).await
        };
        Box::pin(async move {
            let outcome =
                tokio::spawn(work).await.unwrap_or_else(|end| match end.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(unavailable("the runtime is shutting down")),
                });
            outcome.and_then(identity).unwrap_or_else(|(status, error)| Ok(refusal(status, error)))
        })
    }
}

fn unavailable(message: &str) -> (StatusCode, Error) {
    (StatusCode::SERVICE_UNAVAILABLE, Error::unavailable(message))
}

async fn once<T, E, F>(
    responses: &impl Responses,
    key: &str,
    service: impl FnOnce() -> F,
) -> Outcome<Result<Response<T>, E>>
where
    T: Body + From<Bytes>,
    F: Future<Output = Result<Response<T>, E>>,
{
    let stored = responses.get(key).await.map_err(|cause| {
        let (status, error) = unavailable("the stored responses can't be read");
        (status, error.with_source(cause.to_string()))
    });
    if let Some(mut stored) = stored? {
        stored.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        return Ok(Ok(stored.map(T::from)));
    }
    let is_refusal = |response: &Response<T>| response.extensions().get::<Arc<Error>>().is_some();
    let response = match service().await {
        Ok(response) if !response.status().is_server_error() && !is_refusal(&response) => response,
        unstored => return Ok(unstored),
    };
    let (head, body) = response.into_parts();
    let Ok(body) = body.collect().await else {
        let error = Error::unavailable("the response's body failed");
        return Err((StatusCode::INTERNAL_SERVER_ERROR, error));
    };
    let response = Response::from_parts(head, body.to_bytes());
    // The service has done its work, so the client gets the response anyway.
    responses.put(key, response.clone()).await.ok();
    Ok(Ok(response.map(T::from)))
}
