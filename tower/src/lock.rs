use std::time::Duration;

use http::{Request, StatusCode};
use lockwright_core::{Error, ErrorKind, Locks, Step};
use tower_layer::Layer;
use tower_service::Service;

use crate::service::{Outcome, Protected, Rule};

/// A layer that holds a mutex while the service runs. The request's extensions have the hold's
/// [`Fenced`](lockwright_core::fencing::Fenced).
///
/// The lock is released before the response is returned, so it doesn't cover a body that is
/// streamed afterwards. If the hold is lost, the inner future is dropped before the deadline, as by
/// [`Guard::run`](lockwright_core::Guard::run). Only the fence stops a write already sent.
///
/// The layer's own responses:
///
/// - 400: the name is invalid
/// - 409: another request or client held the lock until the wait limit
/// - 500: another error: access is denied, or the name is in use as another lock type
/// - 503: the server didn't answer, the hold was lost, or the client was closed
///
/// After 503, the inner service may have done its work or a part of it. If the release fails for
/// another reason than a loss, the client repeats it in the background, and the inner service's
/// response is returned.
#[derive(Debug, Clone)]
pub struct LockLayer<N> {
    locks: Locks,
    wait: Option<Duration>,
    name: N,
}

impl<N> LockLayer<N> {
    /// Creates a layer. `name` returns the name without the client's namespace.
    pub fn new<B>(locks: Locks, name: N) -> Self
    where
        N: Fn(&Request<B>) -> Option<String> + Clone,
    {
        Self { locks, wait: None, name }
    }

    /// Limits how long a request waits for the lock. The default is the client's
    /// [limit](lockwright_core::Builder::wait).
    pub fn wait_for(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }
}

impl<S, N: Clone> Layer<S> for LockLayer<N> {
    type Service = Protected<S, N>;

    fn layer(&self, inner: S) -> Self::Service {
        let rule = Rule::Lock { locks: self.locks.clone(), wait: self.wait };
        Protected { inner, name: self.name.clone(), rule }
    }
}

pub(crate) async fn run<S: Service<Request<B>>, B>(
    locks: &Locks,
    wait: Option<Duration>,
    name: &str,
    mut inner: S,
    request: Request<B>,
) -> Outcome<Result<S::Response, S::Error>> {
    hold(locks, wait, name, request, async move |request| inner.call(request).await).await
}

pub(crate) async fn hold<B, T>(
    locks: &Locks,
    wait: Option<Duration>,
    name: &str,
    mut request: Request<B>,
    work: impl AsyncFnOnce(Request<B>) -> T,
) -> Outcome<T> {
    let mutex = locks.mutex(name);
    let mutex = if let Some(limit) = wait { mutex.wait_for(limit) } else { mutex };
    let working = mutex.with(async move |guard| {
        request.extensions_mut().insert(guard.fenced());
        work(request).await
    });
    working.await.map_err(refused)
}

fn refused(error: Error) -> (StatusCode, Error) {
    let status = match error.kind() {
        ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
        ErrorKind::TimedOut(Step::Holder | Step::LocalTurn) => StatusCode::CONFLICT,
        ErrorKind::TimedOut(_)
        | ErrorKind::Unavailable
        | ErrorKind::Indeterminate
        | ErrorKind::Lost(_)
        | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error)
}
