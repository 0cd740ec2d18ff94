//! What a user makes requests with.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::DistributedLock;
use crate::error::Result;
use crate::identity::check_text;
use crate::mode::Mode;
use crate::operator::{BreakHow, Broken, Finding, Inspection, Seen, Swept};
use crate::profile::Profile;

use super::builder::Builder;
use super::election::Election;
use super::guard::{Guard, Permit};
use super::metrics::MetricsSnapshot;
use super::multi::MultiRequest;
use super::request::Request;
use super::shared::Shared;

/// A client: makes requests for locks, renews what it holds, and tells losses.
///
/// Cloning is cheap, and clones are one client. When the last clone is dropped, live guards go on;
/// [`close`](Locks::close) waits until everything else is done.
///
/// ```
/// # use lockwright_core::{DistributedLock, Locks, Result};
/// # async fn example(backend: impl DistributedLock) -> Result<()> {
/// let locks = Locks::new(backend)?;
/// let guard = locks.mutex("orders/42").acquire().await?;
/// println!("fence {}", guard.fence());
/// guard.release().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Locks(Arc<Shared>);

impl Locks {
    /// A client on `backend` with the default settings, on the present tokio runtime.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) outside of a runtime.
    pub fn new(backend: impl DistributedLock) -> Result<Self> {
        Self::builder(backend).build()
    }

    /// The settings of a client on `backend`.
    pub fn builder(backend: impl DistributedLock) -> Builder {
        Builder::new(shared_backend(backend))
    }

    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// A request for `name` as a mutex. A bad name is told when the request is sent.
    pub fn mutex(&self, name: impl AsRef<str>) -> Request<Guard> {
        Request::new(self, name.as_ref(), Mode::Exclusive)
    }

    /// The election of this name: who campaigns in it, leads or waits; who looks on sees the leader.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self, name.as_ref())
    }

    /// A request for many names at once, each as a mutex: all of them, or none.
    pub fn multi(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MultiRequest {
        MultiRequest::new(self, names)
    }

    /// A request to read under `name`, together with other readers.
    pub fn read(&self, name: impl AsRef<str>) -> Request<Guard> {
        Request::new(self, name.as_ref(), Mode::Shared)
    }

    /// A request to write under `name`, alone. The same as [`mutex`](Locks::mutex): a lock without
    /// readers is one.
    pub fn write(&self, name: impl AsRef<str>) -> Request<Guard> {
        self.mutex(name)
    }

    /// A request for one permit of the `of` that the semaphore `name` has.
    pub fn semaphore(&self, name: impl AsRef<str>, of: u32) -> Request<Permit> {
        Request::new(self, name.as_ref(), Mode::Permits { count: 1, of })
    }

    /// Who holds `name`.
    ///
    /// # Errors
    /// Those of reaching the server, and of a bad name.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection> {
        let shared = self.shared();
        let name = shared.full_name(name.as_ref())?;
        let inspection = shared
            .inside(shared.backend.inspect(&name))
            .await
            .map_err(|e| shared.tell(e, &name))?;
        Ok(self.in_namespace(inspection))
    }

    /// The held names that begin with `prefix`, in the client's namespace.
    ///
    /// # Errors
    /// Those of reaching the server.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Inspection>> {
        let shared = self.shared();
        let prefix = format!("{}{prefix}", shared.settings.namespace);
        let mut names = Vec::new();
        let mut from = None;
        loop {
            let page = shared.inside(shared.backend.list(&prefix, from)).await?;
            names.extend(page.names.into_iter().map(|inspection| self.in_namespace(inspection)));
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(names),
            }
        }
    }

    /// Breaks the hold that was seen. `reason` stands on the server beside this client's identity.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a reason of more than 512 bytes or with
    /// control characters, [`Unsupported`](crate::ErrorKind::Unsupported) where the backend can't,
    /// and those of reaching the server.
    ///
    /// # Cancel safety
    /// May be dropped; the hold may then be broken.
    pub async fn break_lock(
        &self,
        name: impl AsRef<str>,
        seen: Seen,
        how: BreakHow,
        reason: &str,
    ) -> Result<Broken> {
        let shared = self.shared();
        let name = shared.full_name(name.as_ref())?;
        check_text("reason", reason, 512)?;
        let by = shared.identity.to_string();
        shared
            .inside(shared.backend.break_lock(&name, seen, how, &by, reason))
            .await
            .map_err(|error| shared.tell(error, &name))
    }

    /// Clears away one batch of what holds left behind that have been over for `idle`, where the
    /// server keeps something of every name; call it again while it answers
    /// [`more`](Swept::more). Acquiring goes on meanwhile, and a name that comes back gets a fence
    /// above its old one.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where nothing is left behind, and those of
    /// reaching the server.
    ///
    /// # Cancel safety
    /// May be dropped; the batch may then be cleared away all the same.
    pub async fn sweep(&self, idle: Duration) -> Result<Swept> {
        let shared = self.shared();
        shared.inside(shared.backend.sweep(idle)).await
    }

    /// Looks at the live server for what would make its locks less safe than they seem.
    ///
    /// # Errors
    /// Those of reaching the server.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn doctor(&self) -> Result<Vec<Finding>> {
        let shared = self.shared();
        shared.inside(shared.backend.doctor()).await
    }

    /// What the backend promises.
    pub fn profile(&self) -> &Profile {
        self.shared().backend.profile()
    }

    /// The backend.
    pub fn backend(&self) -> &Arc<dyn DistributedLock> {
        &self.shared().backend
    }

    /// Who this client is to operators: what [`Holder::identity`](crate::Holder) shows.
    pub fn identity(&self) -> &crate::Identity {
        &self.shared().identity
    }

    /// What this client has counted.
    pub fn metrics(&self) -> MetricsSnapshot {
        let shared = self.shared();
        let (totals, held) = {
            let table = shared.table();
            (table.holds.totals(), table.holds.len() as u64)
        };
        let held = held.saturating_sub(shared.ended_and_registered(totals));
        shared.metrics.snapshot(totals, held, shared.releasing())
    }

    /// Closes the client. New requests are rejected and waiting requests are turned away, both with
    /// [`Closed`](crate::ErrorKind::Closed). No request is granted after this call: a grant that arrives
    /// late is released. Live guards stay valid and are renewed.
    ///
    /// Waits for the releases under way. A request whose task doesn't run can't give its claim back, and is
    /// waited for at most a second. If the client's runtime has ended, this returns, and unreleased holds
    /// run out on the server.
    ///
    /// # Cancel safety
    /// May be dropped and called again; the client is closed from the first call on.
    pub async fn close(&self) {
        let shared = self.shared();
        shared.inside(shared.close()).await;
    }

    fn in_namespace(&self, mut inspection: Inspection) -> Inspection {
        inspection.name = self.shared().user_name(&inspection.name);
        inspection
    }
}

/// A backend that is shared already stays as it is, instead of behind a pointer to its pointer.
fn shared_backend(backend: impl DistributedLock) -> Arc<dyn DistributedLock> {
    let mut backend = Some(backend);
    let shared = (&mut backend as &mut dyn Any).downcast_mut::<Option<Arc<dyn DistributedLock>>>();
    match shared.and_then(Option::take) {
        Some(shared) => shared,
        None => Arc::new(backend.expect("only a shared one was taken")),
    }
}
