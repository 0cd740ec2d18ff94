use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Clock, Error, ErrorKind, Locks, Mode, Result};
use tokio::sync::Notify;

use crate::failure::Failure;
use crate::history::journal::{Event, Journal};

use super::held::{Held, Holding};
use super::plan::Plan;
use super::store::Store;

#[derive(Clone)]
pub(super) struct Client {
    pub(super) locks: Locks,
    is_closed: Arc<AtomicBool>,
}

pub(super) struct Process {
    pub(super) plan: Plan,
    pub(super) clock: Clock,
    pub(super) journal: Journal,
    pub(super) store: Arc<dyn Store>,
    pub(super) until: BootInstant,
    pub(super) reopen: Notify,
    /// True from a close until the next client is open, so that no second close begins.
    is_reopening: AtomicBool,
    client: Mutex<Client>,
    requests: AtomicU64,
    numbers: AtomicU64,
}

#[derive(Debug, Clone)]
pub(super) struct Asked<'a> {
    pub(super) name: &'a str,
    pub(super) mode: Mode,
    pub(super) waits: bool,
    pub(super) owner: Option<u64>,
}

impl Client {
    pub(super) fn new(locks: Locks) -> Self {
        Self { locks, is_closed: Arc::default() }
    }

    pub(super) async fn close(&self) {
        self.locks.close().await;
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// A grant after `close()` has returned is a failure.
    async fn drive<T>(
        &self,
        request: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Result<Option<T>>, Failure> {
        let mut request = pin!(request);
        std::future::poll_fn(|context| {
            let was_closed = self.is_closed.load(Ordering::SeqCst);
            let Poll::Ready(answer) = request.as_mut().poll(context) else { return Poll::Pending };
            let is_granted_late = was_closed && matches!(answer, Ok(Some(_)));
            let late = || Failure::new("a request was granted after close() had returned");
            Poll::Ready(if is_granted_late { Err(late()) } else { Ok(answer) })
        })
        .await
    }
}

impl Process {
    pub(super) fn new(
        plan: &Plan,
        clock: &Clock,
        journal: &Journal,
        store: Arc<dyn Store>,
        until: BootInstant,
        client: Client,
    ) -> Self {
        Self {
            plan: plan.clone(),
            clock: clock.clone(),
            journal: journal.clone(),
            store,
            until,
            reopen: Notify::new(),
            is_reopening: AtomicBool::new(false),
            client: Mutex::new(client),
            requests: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
        }
    }

    pub(super) fn client(&self) -> Client {
        lock(&self.client).clone()
    }

    pub(super) fn replace(&self, client: Client) {
        *lock(&self.client) = client;
        self.is_reopening.store(false, Ordering::Relaxed);
    }

    pub(super) fn close_and_reopen(&self) {
        if !self.is_reopening.swap(true, Ordering::Relaxed) {
            self.reopen.notify_one();
        }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.clock.now() >= self.until
    }

    pub(super) async fn sleep(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    pub(super) async fn request(
        &self,
        client: &Client,
        asked: Asked<'_>,
        request: impl Future<Output = Result<Option<Held>>>,
    ) -> Result<Option<Holding>, Failure> {
        let request = async { Ok(request.await?.map(|held| vec![held])) };
        let holdings = self.request_all(client, &[asked], request).await?;
        Ok(holdings.and_then(|holdings| holdings.into_iter().next()))
    }

    /// `request` returns the holds of `asked` in the same order.
    pub(super) async fn request_all(
        &self,
        client: &Client,
        asked: &[Asked<'_>],
        request: impl Future<Output = Result<Option<Vec<Held>>>>,
    ) -> Result<Option<Vec<Holding>>, Failure> {
        let (journal, watches) = (&self.journal, self.plan.watches);
        let mut open = OpenRequests { journal, watches, requests: Vec::new() };
        for asked in asked {
            let request = self.requests.fetch_add(1, Ordering::Relaxed);
            let (name, mode) = (asked.name.to_owned(), asked.mode);
            let Asked { waits, owner, .. } = *asked;
            self.journal.write(Event::Asked { request, name, mode, waits, owner });
            open.requests.push(request);
        }
        match client.drive(request).await? {
            Ok(Some(held)) => Ok(Some(open.granted(held))),
            Ok(None) => {
                open.failed("it is held");
                Ok(None)
            }
            Err(error) => {
                open.failed(&error.to_string());
                if is_refused(&error) { Err(error.into()) } else { Ok(None) }
            }
        }
    }
}

struct OpenRequests<'a> {
    journal: &'a Journal,
    watches: bool,
    requests: Vec<u64>,
}

impl OpenRequests<'_> {
    fn granted(mut self, held: Vec<Held>) -> Vec<Holding> {
        let requests = std::mem::take(&mut self.requests);
        let granted = |(request, held)| Holding::granted(held, request, self.journal, self.watches);
        requests.into_iter().zip(held).map(granted).collect()
    }

    fn failed(&mut self, error: &str) {
        for request in self.requests.drain(..) {
            self.journal.write(Event::Failed { request, error: error.to_owned() });
        }
    }
}

impl Drop for OpenRequests<'_> {
    fn drop(&mut self) {
        self.failed("its future was dropped");
    }
}

fn is_refused(error: &Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::Unsupported | ErrorKind::InvalidInput | ErrorKind::InvalidConfig)
}
