use std::sync::Arc;

use http::{Request, StatusCode};
use lockwright_core::fencing::{Fenced, Gate, HEADER};
use lockwright_core::{Error, LockName};
use tower_layer::Layer;
use tower_service::Service;

use crate::service::{Outcome, Protected, Rule};

/// A layer for the protected resource: checks each request's fence, in the header [`HEADER`], and
/// runs the service inside the [`Gate`], one request at a time per lock.
///
/// A gate is in the memory of one process. At its start, [restore](Gate::remember) the stored
/// fences. If several processes write to the resource, check the fence in its database instead: see
/// [`fencing`](lockwright_core::fencing).
///
/// The request's extensions have an `Arc` of [`Inside`](lockwright_core::fencing::Inside), whose
/// [`highest`](lockwright_core::fencing::Inside::highest) is the request's fence. If a write may
/// outlive the handler's future, as with `spawn_blocking`, move the `Arc` into it: the next request
/// enters only after the last clone is dropped.
///
/// The layer's own responses:
///
/// - 400: the header is unreadable or has another lock's name, or the name is invalid
/// - 412: a request with a larger fence was accepted before
/// - 428: the header is missing
#[derive(Debug, Clone)]
pub struct FenceLayer<N> {
    gate: Gate,
    name: N,
}

impl<N> FenceLayer<N> {
    /// Creates a layer. `name` returns the full name, with the namespace, of the lock that protects
    /// the resource: never a name that the sender chose (see [`Gate::enter`]).
    pub fn new<B>(gate: Gate, name: N) -> Self
    where
        N: Fn(&Request<B>) -> Option<String> + Clone,
    {
        Self { gate, name }
    }
}

impl<S, N: Clone> Layer<S> for FenceLayer<N> {
    type Service = Protected<S, N>;

    fn layer(&self, inner: S) -> Self::Service {
        Protected { inner, name: self.name.clone(), rule: Rule::Fence(self.gate.clone()) }
    }
}

pub(crate) async fn run<S: Service<Request<B>>, B>(
    gate: &Gate,
    name: &str,
    mut inner: S,
    mut request: Request<B>,
) -> Outcome<Result<S::Response, S::Error>> {
    let fenced = fenced(&request)?;
    let lock = LockName::new(name).map_err(refused)?;
    // Declared before the inner future, so that it is dropped after it.
    let inside = Arc::new(gate.enter(&lock, &fenced).await.map_err(refused)?);
    request.extensions_mut().insert(Arc::clone(&inside));
    Ok(inner.call(request).await)
}

fn fenced<B>(request: &Request<B>) -> Outcome<Fenced> {
    let Some(header) = request.headers().get(HEADER) else {
        let error = format!("the request has no header {HEADER}; send the hold's fence in it");
        return Err((StatusCode::PRECONDITION_REQUIRED, Error::invalid_input(error)));
    };
    String::from_utf8_lossy(header.as_bytes()).parse().map_err(refused)
}

fn refused(error: Error) -> (StatusCode, Error) {
    let is_late = error.lost_reason().is_some();
    let status = if is_late { StatusCode::PRECONDITION_FAILED } else { StatusCode::BAD_REQUEST };
    (status, error)
}
