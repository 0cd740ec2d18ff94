use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use lockwright_conformance::connector;
use lockwright_conformance::faults::{Faulty, Op};
use lockwright_conformance::workload::Work;
use lockwright_conformance::workload::simulation::{Target, Trouble};
use lockwright_core::{Clock, DistributedLock, Order, Profile, WakeUp};

use crate::fixtures::{Flaw, Flawed, MajorityFlaw, majority_of};
use crate::{Bug, TTL, shared};

type AtTheClient = fn(Faulty, &Clock) -> Arc<dyn DistributedLock>;

/// The [`Bug::longest_wait`] of bugs that lose no hold.
const SOON: Duration = Duration::from_millis(150);

fn memory(clock: &Clock) -> Target {
    flawed(Flaw::None, clock, usual)
}

fn flawed(flaw: Flaw, clock: &Clock, change: fn(&mut Profile)) -> Target {
    Target::new(shared(Flawed::new(flaw, clock).with_profile(change)))
}

fn usual(_: &mut Profile) {}

fn blocking(profile: &mut Profile) {
    profile.blocks = true;
}

/// Without a queue, a release wakes all waiters.
fn unordered(profile: &mut Profile) {
    profile.order = Order::None;
}

fn polled(profile: &mut Profile) {
    unordered(profile);
    (profile.wake_up, profile.slow_poll) = (WakeUp::Poll, Duration::from_millis(20));
}

/// The poll interval is short, because a vanished waiter keeps its place for five intervals.
fn queue(profile: &mut Profile) {
    profile.slow_poll = Duration::from_millis(20);
}

fn nodes(nodes: usize, flaw: MajorityFlaw, clock: &Clock) -> Target {
    Target::new(majority_of(nodes, flaw, clock))
}

fn none() -> Trouble {
    Trouble::default()
}

fn of_renewals() -> Trouble {
    Trouble { only: Some(Op::Renew), ..none() }
}

/// Declares tests of flawed backends: flaw, profile, the bug's name and description, the run's
/// settings.
macro_rules! flaws {
    ($($test:ident: $flaw:ident $profile:ident $name:literal $how:literal
        {$($field:ident: $value:expr),*};)*) => {$(
        #[test]
        fn $test() {
            let bug = Bug { $($field: $value,)* ..Bug::new($name, $how) };
            bug.is_found(
                |clock| flawed(Flaw::$flaw, clock, $profile),
                |clock| flawed(Flaw::None, clock, $profile),
            );
        }
    )*};
}

flaws! {
    a_fence_in_a_rolled_back_transaction: FenceRolledBack usual
        "a fence in a rolled-back transaction"
        "the server rolls back the transaction that counts the fence up, after each fourth grant"
        {};
    a_fence_read_from_an_old_snapshot: FenceFromAnOldSnapshot blocking
        "a fence read from an old snapshot"
        "the server reads the fence before it waits for the lock"
        {};
    a_fence_formatted_with_fourteen_digits: ImpreciseFence usual
        "a fence formatted as `1.79e+15`"
        "the server formats the fence with 14 digits"
        {};
    a_renewal_that_revives: RenewRevives unordered
        "a renewal that revives an expired hold"
        "a renewal writes the hold if the name is free"
        { trouble: Trouble { repeated: 1_000, ..of_renewals() }, longest_wait: Some(SOON) };
    a_lost_wake_up: LostWakeUp usual
        "a lost wake-up"
        "a release wakes no waiter"
        { longest_wait: Some(SOON) };
    an_offer_with_the_full_ttl: OffersTheFullTtl queue
        "an offer with the full TTL to a stopped waiter"
        "an expired lock is given to the next waiter for its whole TTL"
        { trouble: Trouble { kills: true, ..none() }, longest_wait: Some(TTL * 3 / 4) };
    an_offer_published_before_it_is_written: PublishesBeforeWriting queue
        "an offer published before it is written"
        "the next waiter is notified of its grant, and each fourth write fails"
        {};
    a_blocked_grant_on_an_abandoned_connection: GrantsToTheAbandoned queue
        "a blocked grant left on an abandoned connection"
        "the server grants the lock to a waiter that gave up, whose connection stays open"
        { work: &[Work::Mutex, Work::DroppedFutures], longest_wait: Some(SOON) };
    a_connection_pooled_with_its_lock: PooledWithItsLock usual
        "a connection pooled with its lock"
        "each fourth release returns the connection to its pool and frees nothing"
        { longest_wait: Some(SOON) };
    a_start_later_than_the_grant: StartAfterTheGrant usual
        "a start later than the server's grant"
        "the answer says that the hold began a quarter of the TTL after the server's grant"
        { trouble: Trouble { lost: 1_000, ..of_renewals() } };
    a_deadline_anchored_at_the_start_of_a_blocked_wait: ExpiryFromTheWait blocking
        "a deadline anchored at the start of a blocked wait"
        "the server adds the TTL to the instant at which the blocked request arrived"
        {};
    a_ticket_that_is_good_twice: TicketsAreGoodForever queue
        "a ticket resumed twice"
        "a used ticket takes the hold from the present holder"
        { work: &[Work::Mutex, Work::Ticket] };
    // Clients poll: a notification of the break would stop the wrong holder in time, and hide the
    // bug.
    a_break_of_the_next_holder: BreakHitsTheNext polled
        "a break that hits the next holder"
        "a break ends the present hold instead of the one that was seen"
        { work: &[Work::Mutex, Work::Break] };
    // The backend is unordered: in a queue, a late request of the first waiter would keep the
    // others waiting.
    a_late_duplicate_of_an_acquire: NoTombstones unordered
        "a late duplicate of an acquire"
        "the server forgets that the client gave up the request, and grants it when it arrives"
        {
            trouble: Trouble { late_requests: 200, only: Some(Op::Acquire), ..none() },
            longest_wait: Some(TTL * 9 / 10)
        };
    a_ttl_that_is_rounded_down: TtlInSeconds usual
        "a TTL rounded down"
        "the server keeps a TTL of 1.5 s for 1 s"
        { ttl: Duration::from_millis(1_500), duration: Duration::from_secs(8) };
}

#[test]
fn a_repair_of_a_node_without_the_token() {
    let trouble = Trouble { late_requests: 1_000, ..of_renewals() };
    let how = "a renewal writes the hold to a node on which another token holds";
    let bug = Bug::new("Redlock's write-back without the token", how);
    Bug { trouble, fences: false, duration: Duration::from_secs(6), ..bug }.is_found(
        |clock| nodes(3, MajorityFlaw::RepairsWithoutCompare, clock),
        |clock| nodes(3, MajorityFlaw::None, clock),
    );
}

#[test]
fn a_deadline_anchored_at_the_reply() {
    fn anchoring(clock: &Clock) -> Target {
        let at_the_client: AtTheClient = |faulty, clock| {
            Arc::new(Flawed::around(Flaw::AnchorsAtTheReply, Arc::new(faulty), clock))
        };
        Target { at_the_client, ..memory(clock) }
    }
    let trouble = Trouble { late_answers: 300, only: Some(Op::Acquire), ..none() };
    let how = "the client adds the TTL to the instant of the answer";
    let bug = Bug::new("a deadline anchored at the reply", how);
    Bug { trouble, ..bug }.is_found(anchoring, memory);
}

#[test]
fn a_ping_taken_as_a_renewal() {
    fn pinging(clock: &Clock) -> Target {
        let at_the_client: AtTheClient = |faulty, clock| {
            Arc::new(Flawed::around(Flaw::PingsInsteadOfRenewing, Arc::new(faulty), clock))
        };
        Target { at_the_client, ..memory(clock) }
    }
    let how = "the client takes the answer to a ping for a renewal of its holds";
    Bug::new("a ZooKeeper ping taken as a renewal", how).is_found(pinging, memory);
}

#[test]
fn a_key_that_clients_share() {
    /// Returns a target whose connections share sessions in pairs, like clients with one etcd
    /// lease, and so one key of etcd's own lock.
    fn in_pairs(clock: &Clock) -> Target {
        let (backend, clients) = (
            Flawed::new(Flaw::OneTokenForTwo, clock).with_profile(kept_by_session),
            AtomicU8::new(0),
        );
        Target::new(connector(move || {
            let session = clients.fetch_add(1, Ordering::SeqCst) / 2;
            std::future::ready(Ok(backend.of_session(session)))
        }))
    }
    fn kept_by_session(profile: &mut Profile) {
        profile.tombstones = false;
    }
    let how = "two clients share a session, and the key is that of the session";
    Bug::new("a shared etcd key", how).is_found(in_pairs, memory);
}

#[test]
fn a_break_that_forgets_the_block() {
    fn with_blocks(flaw: Flaw, clock: &Clock) -> Target {
        let at_the_client: AtTheClient =
            |faulty, clock| Arc::new(Flawed::around(Flaw::UsesItsBlock, Arc::new(faulty), clock));
        Target { at_the_client, ..flawed(flaw, clock, usual) }
    }
    let how = "after a break, fences go on behind the first of a reserved block";
    let bug = Bug::new("a reserved block that a break doesn't pass", how);
    Bug { work: &[Work::Mutex, Work::Break], ..bug }.is_found(
        |clock| with_blocks(Flaw::BreakForgetsTheBlock, clock),
        |clock| with_blocks(Flaw::None, clock),
    );
}

#[test]
fn a_loss_timer_that_stops_during_a_suspend() {
    let trouble = Trouble { suspends: true, ..none() };
    let how = "the client's clock stops while the machine is suspended";
    let bug = Bug::new("a loss timer that stops during a suspend", how);
    Bug { trouble, ..bug }
        .is_found(|clock| Target { clients_clock: Some(Clock::tokio()), ..memory(clock) }, memory);
}

#[test]
fn a_loss_timer_that_does_not_fire() {
    let trouble = Trouble { lost: 1_000, ..of_renewals() };
    let how = "the client notices that its hold has expired only at its next check";
    let bug = Bug::new("a loss timer that doesn't fire", how);
    Bug { trouble, ..bug }
        .is_found(|clock| Target { reports_losses: false, ..memory(clock) }, memory);
}

#[test]
fn a_semaphore_of_a_majority() {
    let how = "permits are counted by each of five nodes, and three nodes are enough";
    let bug = Bug::new("a semaphore by majority", how);
    Bug { work: &[Work::Permits], processes: 8, names: 1, fences: false, ..bug }.is_found(
        |clock| nodes(5, MajorityFlaw::None, clock),
        |clock| nodes(1, MajorityFlaw::None, clock),
    );
}
