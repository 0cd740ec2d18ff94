//! The trait that a backend author writes.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::claim::{Attempt, Claim, Ended, Renew, Renewal, Settle, Wait};
use crate::error::{Error, Result};
use crate::event::Events;
use crate::name::LockName;
use crate::operator::{BreakHow, Broken, Cursor, Finding, Inspection, Page, Seen, Swept};
use crate::profile::Profile;
use crate::token::Token;

/// A place where locks are kept: acquire, try, renew and release, and what an operator needs.
///
/// Everything else lives in the [client](crate::Locks), once, for every backend: waiting, limits,
/// deadlines, renewal, loss, settling, reentrancy, the in-process queue. A backend keeps what only
/// it can: answering its own token's repeat, tombstones, rounding and enforcing the TTL, fences.
///
/// # What holds for every method
///
/// - It may be dropped at any await point, and the request may then still take effect.
/// - It says honestly what it knows: [`Unavailable`](crate::ErrorKind::Unavailable) means that the
///   request certainly had no effect and never will; when it may have had one, or may have one
///   later, the answer is [`Indeterminate`](crate::ErrorKind::Indeterminate).
/// - It answers within a time of its own, so that a silent server becomes an error. (The client
///   gives up on an answer that could no longer be of use, as a last resort.)
/// - It never sends an [`Event`](crate::Event) while it holds a lock of its own.
#[async_trait]
pub trait DistributedLock: Debug + Send + Sync + 'static {
    /// What this backend promises. The same for as long as the backend lives.
    fn profile(&self) -> &Profile;

    /// Takes the channel on which the client hears of wake-ups, hand-overs and losses.
    ///
    /// - Called once by each client.
    /// - Events about a hold go by its token; wake-ups go to every client that is attached.
    /// - By default it is dropped: then the client learns everything by asking.
    fn attach(&self, events: Events) {
        drop(events);
    }

    /// Asks for a hold.
    ///
    /// - Atomic: the hold and its expiry come into being together, or not at all.
    /// - With [`Wait::No`], one attempt; a claim that isn't granted leaves nothing behind.
    /// - With [`Wait::Until`], a server that can block may block; others queue the claim, if they
    ///   have a queue, and answer [`Attempt::Busy`].
    /// - A repeat with the same token answers the same hold with its original first fence, and
    ///   either re-arms the full TTL or says in [`Granted::valid`](crate::Granted::valid) for how
    ///   long it still is.
    /// - A token that was ended and left a tombstone is refused as
    ///   [`Lost`](crate::ErrorKind::Lost): it is never granted again, and the client goes on with a
    ///   new one.
    /// - The server's TTL is the claim's, rounded up to the server's unit.
    /// - Every grant's fence is above that of every earlier grant of the name, where the profile
    ///   has fences.
    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<Attempt>;

    /// The same as [`acquire`](Self::acquire) with [`Wait::No`], from a backend that lives in this
    /// process and answers at once: it saves the future, which is an allocation. `None`, the
    /// default, has the client ask by `acquire`.
    fn acquire_at_once(&self, claim: &Claim) -> Option<Result<Attempt>> {
        let _ = claim;
        None
    }

    /// Asks once, without waiting.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.acquire(claim, Wait::No).await
    }

    /// Re-arms holds to their full TTL: one batch of at most
    /// [`Profile::renew_batch`], one round trip where the server allows.
    ///
    /// - Answers one [`Renewal`] for each hold, in their order. An error, or a short answer, means
    ///   indeterminate for the rest.
    /// - Compares the token and the expiry on the server, in one atomic step with the re-arming.
    /// - Never revives a hold that expired, and never a broken one.
    /// - Answers within the least [`Renew::patience`] of the batch what it knows by then, also where one of
    ///   several servers is silent: nobody waits for more.
    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>>;

    /// Ends a hold, or a claim that was never answered.
    ///
    /// - By claim, not by grant: an unanswered acquire has no grant.
    /// - Compares the token and deletes in one atomic step; never touches another's hold.
    /// - Covers what is held, queued, offered, and what nobody knows.
    /// - With [`Settle::Unanswered`] it leaves a tombstone where the profile has them.
    /// - Wakes those who wait, where the profile says [`Push`](crate::WakeUp::Push).
    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended>;

    /// The same as [`release`](Self::release), as [`acquire_at_once`](Self::acquire_at_once) is.
    fn release_at_once(&self, claim: &Claim, settle: Settle) -> Option<Result<Ended>> {
        let _ = (claim, settle);
        None
    }

    /// Takes over the hold of the token `from` with a new token and a new fence, for tickets. A reader keeps
    /// the fence that it shares with others.
    async fn swap(&self, from: Token, to: &Claim) -> Result<Attempt> {
        let _ = from;
        Err(Error::unsupported("moving a hold to another process", self.profile())
            .with_name(&to.name))
    }

    /// Who holds `name`.
    ///
    /// - A name that was never locked is free, not an error.
    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    /// The held names that begin with `prefix`, page by page.
    ///
    /// - A name that is held during the whole listing is in it, exactly once.
    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// An operator's forced release.
    ///
    /// - Breaks only the hold that was seen, never the next one.
    /// - With [`BreakHow::RunOut`] the hold can't be renewed any more and frees the name when it
    ///   runs out; with [`BreakHow::Now`] at once.
    /// - The holder's next renewal answers [`Reason::Broken`](crate::Reason::Broken) while the
    ///   server still knows.
    /// - `by` and `reason` stand on the server for as long as the broken hold does.
    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let _ = (seen, how, by, reason);
        Err(Error::unsupported("breaking a lock", self.profile()).with_name(name))
    }

    /// Clears away, in one small step, what holds left behind that have been over for `idle`: for
    /// servers that keep something of every name that was ever locked.
    ///
    /// - It never delays an acquire by more than one short statement would.
    /// - A name that comes back gets a fence above its old one all the same.
    /// - [`Swept::more`] asks for another step. Several may sweep at once.
    async fn sweep(&self, idle: Duration) -> Result<Swept> {
        let _ = idle;
        Err(Error::unsupported("sweeping: it leaves nothing behind", self.profile()))
    }

    /// Looks at the live server for what would make its locks less safe than they seem.
    ///
    /// - An empty answer means that nothing was found, and everything could be looked at: what
    ///   couldn't is a finding of its own.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}

type Answer<'f, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'f>>;

#[async_trait]
impl<T: DistributedLock + ?Sized> DistributedLock for Arc<T> {
    fn profile(&self) -> &Profile {
        (**self).profile()
    }

    fn attach(&self, events: Events) {
        (**self).attach(events);
    }

    fn acquire_at_once(&self, claim: &Claim) -> Option<Result<Attempt>> {
        (**self).acquire_at_once(claim)
    }

    fn release_at_once(&self, claim: &Claim, settle: Settle) -> Option<Result<Ended>> {
        (**self).release_at_once(claim, settle)
    }

    // What every acquire and release goes through is passed on without a future of its own around
    // it, which would be one more allocation: so these four are written out.

    fn acquire<'s, 'c, 'f>(&'s self, claim: &'c Claim, wait: Wait) -> Answer<'f, Attempt>
    where
        's: 'f,
        'c: 'f,
        Self: 'f,
    {
        (**self).acquire(claim, wait)
    }

    fn try_acquire<'s, 'c, 'f>(&'s self, claim: &'c Claim) -> Answer<'f, Attempt>
    where
        's: 'f,
        'c: 'f,
        Self: 'f,
    {
        (**self).try_acquire(claim)
    }

    fn renew<'s, 'h, 'r, 'f>(&'s self, holds: &'h [Renew<'r>]) -> Answer<'f, Vec<Renewal>>
    where
        's: 'f,
        'h: 'f,
        'r: 'f,
        Self: 'f,
    {
        (**self).renew(holds)
    }

    fn release<'s, 'c, 'f>(&'s self, claim: &'c Claim, settle: Settle) -> Answer<'f, Ended>
    where
        's: 'f,
        'c: 'f,
        Self: 'f,
    {
        (**self).release(claim, settle)
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<Attempt> {
        (**self).swap(from, to).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        (**self).inspect(name).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        (**self).list(prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        (**self).break_lock(name, seen, how, by, reason).await
    }

    async fn sweep(&self, idle: Duration) -> Result<Swept> {
        (**self).sweep(idle).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        (**self).doctor().await
    }
}
