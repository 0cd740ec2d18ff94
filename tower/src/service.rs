use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use lockwright_core::fencing::Gate;
use lockwright_core::{Error, Locks};
use tower_service::Service;

use crate::{fence, lock};

/// The service of a [`LockLayer`](crate::LockLayer) or a [`FenceLayer`](crate::FenceLayer).
#[derive(Debug, Clone)]
pub struct Protected<S, N> {
    pub(crate) inner: S,
    pub(crate) name: N,
    pub(crate) rule: Rule,
}

#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Lock { locks: Locks, wait: Option<Duration> },
    Fence(Gate),
}

pub(crate) type Outcome<T> = Result<T, (StatusCode, Error)>;

impl<S, N, B, R> Service<Request<B>> for Protected<S, N>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send,
    S::Future: Send,
    N: Fn(&Request<B>) -> Option<String>,
    B: Send + 'static,
    R: Default + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let name = (self.name)(&request);
        let rule = self.rule.clone();
        let mut inner = take_ready(&mut self.inner);
        Box::pin(async move {
            let Some(name) = name else { return inner.call(request).await };
            let outcome = match rule {
                Rule::Lock { locks, wait } => lock::run(&locks, wait, &name, inner, request).await,
                Rule::Fence(gate) => fence::run(&gate, &name, inner, request).await,
            };
            outcome.unwrap_or_else(|(status, error)| Ok(refusal(status, error)))
        })
    }
}

/// Leaves a clone: only the service that `poll_ready` was called on is ready.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let clone = service.clone();
    std::mem::replace(service, clone)
}

pub(crate) fn refusal<R: Default>(status: StatusCode, error: Error) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() = status;
    response.extensions_mut().insert(Arc::new(error));
    response
}
