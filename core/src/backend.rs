use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Claim, Cursor, Error, Events,
    Finding, Inspection, LockName, Page, Profile, ReleaseMode, ReleaseOutcome, Renew, Renewal,
    Result, SweepReport, Token, Wait,
};

/// An implementation of locks on one kind of server. The [client](crate::Locks) does everything
/// that needs no server.
///
/// # Contract of every method
///
/// - The caller may drop the future. A dropped request may still take effect.
/// - [`Unavailable`](crate::ErrorKind::Unavailable) means that the request never has an effect. If
///   an effect is possible, the error is [`Indeterminate`](crate::ErrorKind::Indeterminate).
/// - The backend limits its wait for the server, so a silent server causes an error.
/// - The backend never sends an [`Event`](crate::Event) while it holds an internal mutex.
#[async_trait]
pub trait DistributedLock: Debug + Send + Sync + 'static {
    /// Returns the backend's constant properties.
    fn profile(&self) -> &Profile;

    /// Registers a client's channel for events.
    ///
    /// - Each client calls this method once.
    /// - An event about a hold contains the hold's token. A wake-up goes to every attached client.
    /// - The default implementation drops the channel, so the client polls.
    fn attach(&self, events: Events) {
        drop(events);
    }

    /// Requests a hold.
    ///
    /// - The server creates the hold and its expiry in one atomic step.
    /// - A repeated acquire of a token returns the same hold with its original fence. The server
    ///   restarts the TTL, or returns the remaining time in
    ///   [`Granted::valid`](crate::Granted::valid).
    /// - A token with a [tombstone](ReleaseMode::Reconcile) is always rejected as
    ///   [`Lost`](crate::ErrorKind::Lost).
    /// - The server rounds the claim's TTL up to its time unit.
    /// - With [`fencing`](Profile::fencing), a grant's fence is above all that earlier grants of the
    ///   name reserved, except that concurrent readers share one.
    /// - With [`recalls`](Profile::recalls), a claim that isn't granted causes an
    ///   [`Event::Recall`](crate::Event::Recall) for a hold that has [`recall`](Claim::recall).
    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome>;

    /// Acquires like [`acquire`](Self::acquire) with [`Wait::No`], but without a future, for a
    /// backend inside this process. Returns `None` if the client must call `acquire`. `now` is the
    /// instant just before the call.
    fn acquire_at_once(&self, claim: &Claim, now: BootInstant) -> Option<Result<AcquireOutcome>> {
        let _ = (claim, now);
        None
    }

    /// Tries once to acquire the lock.
    async fn try_acquire(&self, claim: &Claim) -> Result<AcquireOutcome> {
        self.acquire(claim, Wait::No).await
    }

    /// Restarts the TTL of at most [`Profile::renew_batch`] holds.
    ///
    /// - Returns one [`Renewal`] per hold, in order. The client treats holds without a result as
    ///   indeterminate.
    /// - Checks a hold's token and expiry, and extends the hold, in one atomic step.
    /// - Never revives an expired or broken hold.
    /// - With [`keeps_after_release`](Profile::keeps_after_release), sets the TTL of the renewal's
    ///   claim, which may be longer or shorter than the hold's.
    /// - With [`tickets`](Profile::tickets), also renews a hold that another client acquired.
    /// - Returns the known results within the smallest [`Renew::patience`], even if a server is
    ///   silent.
    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>>;

    /// Releases a hold, or an unanswered claim.
    ///
    /// - Compares the token and deletes the hold in one atomic step.
    /// - Ends the claim in each state: held, queued, offered by an event, or unknown.
    /// - With [`ReleaseMode::Reconcile`], leaves a tombstone if the profile has
    ///   [`tombstones`](Profile::tombstones).
    /// - Wakes the waiters if the profile has [`Push`](crate::WakeUp::Push).
    /// - With [`tickets`](Profile::tickets), also releases a hold that another client acquired.
    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome>;

    /// Releases like [`release`](Self::release), but without a future. Returns `None` if the client
    /// must call `release`.
    fn release_at_once(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
        now: BootInstant,
    ) -> Option<Result<ReleaseOutcome>> {
        let _ = (claim, release_mode, now);
        None
    }

    /// Transfers the hold with the token `from` to the claim `to`. A reader's hold keeps its fence.
    /// Any other hold gets a new fence.
    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let _ = from;
        Err(Error::unsupported("moving a hold to another process", self.profile())
            .with_name(&to.name))
    }

    /// Returns the holders of `name`. An unknown name is free, not an error.
    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    /// Lists the held names that begin with `prefix`. A name that is held during the whole listing
    /// appears exactly once.
    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// Breaks the holds that match `seen`, never a later hold.
    ///
    /// - While the server stores the break, the holder's renewals return
    ///   [`Reason::Broken`](crate::Reason::Broken).
    /// - The server stores `by` and `reason` as long as it stores the broken hold.
    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let _ = (seen, how, by, reason);
        Err(Error::unsupported("breaking a lock", self.profile()).with_name(name))
    }

    /// Removes a batch of records of holds that ended at least `idle` ago.
    ///
    /// - A sweep delays an acquire by at most one short statement.
    /// - If a swept name is locked again, its fence is larger than all earlier ones.
    /// - Several sweeps may run in parallel.
    async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        let _ = idle;
        Err(Error::unsupported("sweeping: it leaves nothing behind", self.profile()))
    }

    /// Checks the server for conditions that weaken its locks. Reports a check that can't run as a
    /// finding.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}

/// Implements methods of [`DistributedLock`], in an `impl` block, by calls of another backend: for
/// example `delegate!(|this| this.0; inspect, list);`. Without a list, it implements all methods.
/// The methods return the other backend's boxed future, because an `async fn` would box it again.
#[macro_export]
macro_rules! delegate {
    (|$this:ident| $to:expr) => {
        $crate::delegate!(|$this| $to;
            profile, attach, acquire, acquire_at_once, try_acquire, renew, release, release_at_once,
            swap, inspect, list, break_lock, sweep, doctor
        );
    };
    (|$this:ident| $to:expr; $($method:ident),+) => {
        $($crate::delegate!(@$method |$this| $to);)+
    };
    (@profile $($to:tt)+) => {
        $crate::delegate!(@plain $($to)+; profile() -> &$crate::Profile);
    };
    (@attach |$this:ident| $to:expr) => {
        fn attach(&self, events: $crate::Events) {
            let $this = self;
            $to.attach(events);
        }
    };
    (@acquire_at_once $($to:tt)+) => {
        $crate::delegate!(@plain $($to)+;
            acquire_at_once(claim: &$crate::Claim, now: $crate::BootInstant)
                -> Option<$crate::Result<$crate::AcquireOutcome>>);
    };
    (@release_at_once $($to:tt)+) => {
        $crate::delegate!(@plain $($to)+;
            release_at_once(
                claim: &$crate::Claim, release_mode: $crate::ReleaseMode, now: $crate::BootInstant
            ) -> Option<$crate::Result<$crate::ReleaseOutcome>>);
    };
    (@plain |$this:ident| $to:expr;
        $name:ident($($argument:ident: $type:ty),*) -> $output:ty
    ) => {
        fn $name(&self, $($argument: $type),*) -> $output {
            let $this = self;
            $to.$name($($argument),*)
        }
    };
    (@acquire $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            acquire<'c>(claim: &'c $crate::Claim, wait: $crate::Wait) -> $crate::AcquireOutcome);
    };
    (@try_acquire $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            try_acquire<'c>(claim: &'c $crate::Claim) -> $crate::AcquireOutcome);
    };
    (@renew $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            renew<'h, 'r>(holds: &'h [$crate::Renew<'r>]) -> Vec<$crate::Renewal>);
    };
    (@release $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            release<'c>(claim: &'c $crate::Claim, release_mode: $crate::ReleaseMode)
                -> $crate::ReleaseOutcome);
    };
    (@swap $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            swap<'c>(from: $crate::Token, to: &'c $crate::Claim) -> $crate::AcquireOutcome);
    };
    (@inspect $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            inspect<'n>(name: &'n $crate::LockName) -> $crate::Inspection);
    };
    (@list $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            list<'p>(prefix: &'p str, from: Option<$crate::Cursor>) -> $crate::Page);
    };
    (@break_lock $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            break_lock<'n, 'b, 'r>(
                name: &'n $crate::LockName, seen: $crate::BreakTarget, how: $crate::BreakMode,
                by: &'b str, reason: &'r str
            ) -> $crate::Broken);
    };
    (@sweep $($to:tt)+) => {
        $crate::delegate!(@async $($to)+;
            sweep<>(idle: ::std::time::Duration) -> $crate::SweepReport);
    };
    (@doctor $($to:tt)+) => {
        $crate::delegate!(@async $($to)+; doctor<>() -> Vec<$crate::Finding>);
    };
    (@async |$this:ident| $to:expr;
        $name:ident<$($lifetime:lifetime),*>($($argument:ident: $type:ty),*) -> $output:ty
    ) => {
        fn $name<'s, $($lifetime,)* 'f>(
            &'s self,
            $($argument: $type),*
        ) -> ::std::pin::Pin<
            Box<dyn ::std::future::Future<Output = $crate::Result<$output>> + Send + 'f>,
        >
        where
            's: 'f,
            $($lifetime: 'f,)*
            Self: 'f,
        {
            let $this = self;
            $to.$name($($argument),*)
        }
    };
}

impl<T: DistributedLock + ?Sized> DistributedLock for Arc<T> {
    crate::delegate!(|this| **this);
}
