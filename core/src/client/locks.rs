use std::sync::Arc;
use std::time::Duration;

use crate::identity::check_text;
use crate::{
    BreakMode, BreakTarget, Broken, DistributedLock, Error, Finding, Guard, Inspection,
    MetricsSnapshot, Mode, Permit, Profile, Request, Result, SweepReport, Ticket,
};

use super::acquire::admitted;
use super::{Shared, ticket};

/// A client. All clones are the same client. Guards stay valid after the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Locks(pub(super) Arc<Shared>);

impl Locks {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Returns a request for a mutex.
    pub fn mutex(&self, name: impl AsRef<str>) -> Request<Guard> {
        Request::new(self.shared(), name.as_ref(), Mode::Exclusive)
    }

    /// Returns a request for a shared lock.
    pub fn read(&self, name: impl AsRef<str>) -> Request<Guard> {
        Request::new(self.shared(), name.as_ref(), Mode::Shared)
    }

    /// Same as [`mutex`](Locks::mutex).
    pub fn write(&self, name: impl AsRef<str>) -> Request<Guard> {
        self.mutex(name)
    }

    /// Returns a request for permits of a semaphore of size `of`, which may differ between
    /// requests: see [`Mode::Permits`].
    pub fn semaphore(&self, name: impl AsRef<str>, of: u32) -> Request<Permit> {
        Request::new(self.shared(), name.as_ref(), Mode::Permits { count: 1, of })
    }

    /// Resumes a ticket's hold, with a new token and (except for a reader) a larger fence. The
    /// client renews the hold, unless its request was [`fixed`](crate::Request::fixed). If the
    /// server doesn't answer, the client retries for one TTL.
    ///
    /// # Errors
    /// - [`Lost`](crate::ErrorKind::Lost) if the hold expired, was broken, released or resumed, or
    ///   the answer arrived too late.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) without `tickets` in the profile.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) for another namespace's ticket, or a TTL
    ///   too short for this client's drift and margin settings. The ticket remains valid.
    /// - Server and connection errors. A hold that may have been resumed is released.
    ///
    /// # Cancel safety
    /// May be dropped. A hold that may have been resumed is released in the background.
    pub async fn resume(&self, ticket: &Ticket) -> Result<Guard> {
        let shared = self.check_ticket(ticket)?;
        let hold = shared.unless_closed(Box::pin(ticket::resume(Arc::clone(shared), ticket))).await;
        let hold = hold.map_err(|error| shared.with_context(error, ticket.name()))?;
        let hold = admitted(hold)?;
        #[cfg(feature = "metrics")]
        hold.uses.begin(&hold, "");
        Ok(Guard::new(hold))
    }

    /// Renews a ticket's hold, even a [`fixed`](crate::Request::fixed) one: the hold then lasts for
    /// a TTL from this call. The ticket and its fence stay valid.
    ///
    /// # Errors
    /// - [`Lost`](crate::ErrorKind::Lost) if the hold expired, or was broken, released or resumed.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) and
    ///   [`InvalidInput`](crate::ErrorKind::InvalidInput): see [`resume`](Self::resume).
    /// - Server and connection errors. The call may be repeated.
    ///
    /// # Cancel safety
    /// May be dropped. The server may still renew the hold.
    pub async fn renew_ticket(&self, ticket: &Ticket) -> Result<()> {
        let shared = self.check_ticket(ticket)?;
        let renewed = shared.unless_closed(ticket::renew(shared, ticket)).await;
        renewed.map_err(|error| shared.with_context(error, ticket.name()))
    }

    /// Releases a ticket's hold, without resuming it.
    ///
    /// # Errors
    /// - [`Lost`](crate::ErrorKind::Lost) if the hold had already ended or was resumed, so the last
    ///   work may have been unprotected. Also if an earlier call without an answer released it.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) and
    ///   [`InvalidInput`](crate::ErrorKind::InvalidInput): see [`resume`](Self::resume).
    /// - Server and connection errors. The call may be repeated.
    ///
    /// # Cancel safety
    /// May be dropped. The server may still release the hold.
    pub async fn release_ticket(&self, ticket: &Ticket) -> Result<()> {
        let shared = self.check_ticket(ticket)?;
        let released = shared.unless_closed(ticket::release(shared, ticket)).await;
        released.map_err(|error| shared.with_context(error, ticket.name()))
    }

    fn check_ticket(&self, ticket: &Ticket) -> Result<&Arc<Shared>> {
        let (shared, name) = (self.shared(), ticket.name());
        shared.ready().map_err(|error| shared.with_context(error, name))?;
        if !shared.backend.profile().tickets {
            let what = "moving a hold to another process";
            return Err(Error::unsupported(what, shared.backend.profile()).with_name(name));
        }
        if !name.as_str().starts_with(&shared.settings.namespace) {
            return Err(Error::invalid_input(format!(
                "this ticket is for {:?}, which isn't in the namespace {:?} of this client",
                name.as_str(),
                shared.settings.namespace
            )));
        }
        Ok(shared)
    }

    /// Returns the holders of `name`.
    ///
    /// # Errors
    /// Server and connection errors, and an invalid name.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection> {
        let shared = self.shared();
        let name = shared.full_name(name.as_ref())?;
        let inspecting = shared.backend.inspect(&name);
        let seen = shared.inside(inspecting).await.map_err(|e| shared.with_context(e, &name))?;
        Ok(self.in_namespace(seen))
    }

    /// Lists the held names that begin with `prefix`, in the client's namespace.
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

    /// Breaks the holds that match `seen`. The server stores `reason` and this client's identity.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a reason above 512 bytes or with
    /// control characters, [`Unsupported`](crate::ErrorKind::Unsupported), and server and
    /// connection errors.
    ///
    /// # Cancel safety
    /// May be dropped. The server may still break the hold.
    pub async fn break_lock(
        &self,
        name: impl AsRef<str>,
        seen: BreakTarget,
        how: BreakMode,
        reason: &str,
    ) -> Result<Broken> {
        let shared = self.shared();
        let name = shared.full_name(name.as_ref())?;
        check_text("reason", reason, 512)?;
        let by = shared.identity.to_string();
        let breaking = shared.backend.break_lock(&name, seen, how, &by, reason);
        shared.inside(breaking).await.map_err(|error| shared.with_context(error, &name))
    }

    /// Removes a batch of records of holds that ended at least `idle` ago. Repeat while there is
    /// [`more`](SweepReport::more).
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported), and server and connection errors.
    ///
    /// # Cancel safety
    /// May be dropped. The server may still remove the batch.
    pub async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        let shared = self.shared();
        shared.inside(shared.backend.sweep(idle)).await
    }

    /// Checks the live server for conditions that weaken its locks.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn doctor(&self) -> Result<Vec<Finding>> {
        let shared = self.shared();
        shared.inside(shared.backend.doctor()).await
    }

    /// Returns the backend's properties.
    pub fn profile(&self) -> &Profile {
        self.shared().backend.profile()
    }

    /// Returns the backend.
    pub fn backend(&self) -> &Arc<dyn DistributedLock> {
        &self.shared().backend
    }

    /// Returns this client's identity.
    pub fn identity(&self) -> &crate::Identity {
        &self.shared().identity
    }

    /// Returns this client's counters.
    pub fn metrics(&self) -> MetricsSnapshot {
        let shared = self.shared();
        let (totals, held) = {
            let table = shared.table();
            (table.holds.totals(), table.holds.len() as u64)
        };
        let held = held.saturating_sub(shared.ended_and_registered(totals));
        shared.metrics.snapshot(totals, held, shared.releasing())
    }

    /// Closes the client. New and waiting requests fail with [`Closed`](crate::ErrorKind::Closed).
    /// Guards stay valid and are renewed. Warm holds are released.
    /// [`Election::lead`](crate::Election::lead) drops its work and resigns.
    ///
    /// Waits for the releases in progress, which need the client's runtime. Waits at most 1 s for
    /// unpolled requests, and 6 s for unpolled `release` calls. If the client's runtime has ended,
    /// unreleased holds expire.
    ///
    /// # Cancel safety
    /// May be dropped and called again. The client is closed from the first call on.
    pub async fn close(&self) {
        self.shared().close().await;
    }

    fn in_namespace(&self, mut inspection: Inspection) -> Inspection {
        inspection.name = self.shared().user_name(&inspection.name);
        inspection
    }
}
