use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use lockwright_core::backend_util::lock;
use tokio::runtime::Handle;

use crate::fleet::Fleet;

/// One request per node, polled together by the caller. If dropped, unfinished ones continue in
/// tasks.
pub(crate) struct Requests<T> {
    runtime: Handle,
    unfinished: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    replies: Arc<Replies<T>>,
}

#[derive(Debug)]
pub(crate) struct Replies<T>(Mutex<VecDeque<(usize, T)>>);

impl<T> Replies<T> {
    pub(crate) fn add(&self, at: usize, reply: T) {
        lock(&self.0).push_back((at, reply));
    }
}

impl<T: Send + 'static> Requests<T> {
    pub(crate) fn new<F>(fleet: &Fleet, request: impl Fn(usize) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        Self::reporting(fleet, |at, replies| {
            let request = request(at);
            async move { replies.add(at, request.await) }
        })
    }

    pub(crate) fn reporting<F>(fleet: &Fleet, request: impl Fn(usize, Arc<Replies<T>>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let nodes = 0..fleet.nodes.len();
        let replies = Arc::new(Replies(Mutex::new(VecDeque::with_capacity(nodes.len()))));
        let unfinished = nodes.map(|at| Box::pin(request(at, Arc::clone(&replies))) as _).collect();
        Self { runtime: fleet.runtime.clone(), unfinished, replies }
    }
}

impl<T> Requests<T> {
    pub(crate) async fn next(&mut self) -> Option<(usize, T)> {
        poll_fn(|cx| {
            if lock(&self.replies.0).is_empty() {
                self.poll(cx);
            }
            match lock(&self.replies.0).pop_front() {
                None if !self.unfinished.is_empty() => Poll::Pending,
                reply => Poll::Ready(reply),
            }
        })
        .await
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        // Timers must belong to the client's runtime, because the caller's may end first.
        let _runtime = self.runtime.enter();
        self.unfinished.retain_mut(|request| request.as_mut().poll(cx).is_pending());
    }
}

impl<T> Drop for Requests<T> {
    fn drop(&mut self) {
        for request in self.unfinished.drain(..) {
            self.runtime.spawn(request);
        }
    }
}
