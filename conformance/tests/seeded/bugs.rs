use std::time::Duration;

use lockwright_conformance::faults::Op;
use lockwright_conformance::workload::Work;
use lockwright_conformance::workload::simulation::{Target, Trouble};
use lockwright_core::Clock;
use lockwright_memory::Memory;

use crate::clients::{ClientFlaw, FlawedClient};
use crate::fixtures::{Flaw, MajorityFlaw, MutexBackend, QueueBackend, QueueFlaw, majority_of};
use crate::sessions::shared_key;
use crate::{Bug, TTL, shared};

/// The [`Bug::longest_wait`] if no hold is lost.
const SOON: Duration = Duration::from_millis(150);

fn memory(clock: &Clock) -> Target {
    Target::new(shared(Memory::with_clock(clock.clone())))
}

fn mutex(flaw: Flaw, clock: &Clock) -> Target {
    Target::new(shared(MutexBackend::new(flaw, clock.clone())))
}

fn blocking(flaw: Flaw, clock: &Clock) -> Target {
    Target::new(shared(MutexBackend::that_blocks(flaw, clock.clone())))
}

fn queue(flaw: QueueFlaw, clock: &Clock) -> Target {
    Target::new(shared(QueueBackend::new(flaw, clock.clone()).slow_poll(Duration::from_millis(20))))
}

fn nodes(nodes: usize, flaw: MajorityFlaw, clock: &Clock) -> Target {
    Target::new(majority_of(nodes, flaw, clock))
}

impl Bug {
    fn in_mutex(&self, flaw: Flaw) {
        self.is_found(|clock| mutex(flaw, clock), |clock| mutex(Flaw::None, clock));
    }

    fn in_blocking(&self, flaw: Flaw) {
        self.is_found(|clock| blocking(flaw, clock), |clock| blocking(Flaw::None, clock));
    }

    fn in_queue(&self, flaw: QueueFlaw) {
        self.is_found(|clock| queue(flaw, clock), |clock| queue(QueueFlaw::None, clock));
    }
}

fn none() -> Trouble {
    Trouble::default()
}

#[test]
fn a_fence_in_a_rolled_back_transaction() {
    let bug = Bug::new(
        "a fence in a rolled-back transaction",
        "the server rolls back the transaction that counts the fence up, after each fourth grant",
    );
    bug.in_mutex(Flaw::FenceRolledBack);
}

#[test]
fn a_fence_read_from_an_old_snapshot() {
    let how = "the server reads the fence before it waits for the lock";
    Bug::new("a fence read from an old snapshot", how).in_blocking(Flaw::FenceFromAnOldSnapshot);
}

#[test]
fn a_fence_formatted_with_fourteen_digits() {
    Bug::new("a fence formatted as `1.79e+15`", "the server formats the fence with 14 digits")
        .in_mutex(Flaw::ImpreciseFence);
}

#[test]
fn a_repair_of_a_node_without_the_token() {
    let trouble = Trouble { late_requests: 1_000, only: Some(Op::Renew), ..none() };
    let how = "a renewal writes the hold to a node on which another token holds";
    let bug = Bug::new("Redlock's write-back without the token", how);
    Bug { trouble, fences: false, duration: Duration::from_secs(6), ..bug }.is_found(
        |clock| nodes(3, MajorityFlaw::RepairsWithoutCompare, clock),
        |clock| nodes(3, MajorityFlaw::None, clock),
    );
}

#[test]
fn a_renewal_that_revives() {
    let trouble = Trouble { repeated: 1_000, only: Some(Op::Renew), ..none() };
    let how = "a renewal writes the hold if the name is free";
    let bug = Bug::new("a renewal that revives an expired hold", how);
    Bug { trouble, longest_wait: Some(SOON), ..bug }.in_mutex(Flaw::RenewRevives);
}

#[test]
fn a_lost_wake_up() {
    let bug = Bug::new("a lost wake-up", "a release wakes no waiter");
    Bug { longest_wait: Some(SOON), ..bug }.in_mutex(Flaw::LostWakeUp);
}

#[test]
fn an_offer_with_the_full_ttl() {
    let how = "an expired lock is given to the next waiter for its whole TTL";
    let bug = Bug::new("an offer with the full TTL to a stopped waiter", how);
    let trouble = Trouble { kills: true, ..none() };
    Bug { trouble, longest_wait: Some(TTL * 3 / 4), ..bug }.in_queue(QueueFlaw::OffersTheFullTtl);
}

#[test]
fn an_offer_published_before_it_is_written() {
    let how = "the next waiter is notified of its grant, and each fourth write fails";
    Bug::new("an offer published before it is written", how)
        .in_queue(QueueFlaw::PublishesBeforeWriting);
}

#[test]
fn a_blocked_grant_on_an_abandoned_connection() {
    let work = &[Work::Mutex, Work::DroppedFutures];
    let how = "the server grants the lock to a waiter that gave up, whose connection stays open";
    let bug = Bug::new("a blocked grant left on an abandoned connection", how);
    Bug { work, longest_wait: Some(SOON), ..bug }.in_queue(QueueFlaw::GrantsToTheAbandoned);
}

#[test]
fn a_connection_pooled_with_its_lock() {
    let how = "each fourth release returns the connection to its pool and frees nothing";
    let bug = Bug::new("a connection pooled with its lock", how);
    Bug { longest_wait: Some(SOON), ..bug }.in_mutex(Flaw::PooledWithItsLock);
}

#[test]
fn a_start_later_than_the_grant() {
    let trouble = Trouble { lost: 1_000, only: Some(Op::Renew), ..none() };
    let how = "the answer says that the hold began a quarter of the TTL after the server's grant";
    let bug = Bug::new("a start later than the server's grant", how);
    Bug { trouble, ..bug }.in_mutex(Flaw::StartAfterTheGrant);
}

#[test]
fn a_deadline_anchored_at_the_reply() {
    fn anchoring(clock: &Clock) -> Target {
        let at_the_client =
            |faulty, clock: &_| FlawedClient::around(ClientFlaw::AnchorsAtTheReply, faulty, clock);
        Target { at_the_client, ..memory(clock) }
    }
    let trouble = Trouble { late_answers: 300, only: Some(Op::Acquire), ..none() };
    let how = "the client adds the TTL to the instant of the answer";
    let bug = Bug::new("a deadline anchored at the reply", how);
    Bug { trouble, ..bug }.is_found(anchoring, memory);
}

#[test]
fn a_deadline_anchored_at_the_start_of_a_blocked_wait() {
    let how = "the server adds the TTL to the instant at which the blocked request arrived";
    Bug::new("a deadline anchored at the start of a blocked wait", how)
        .in_blocking(Flaw::ExpiryFromTheWait);
}

#[test]
fn a_ping_taken_as_a_renewal() {
    fn pinging(clock: &Clock) -> Target {
        let at_the_client = |faulty, clock: &_| {
            FlawedClient::around(ClientFlaw::PingsInsteadOfRenewing, faulty, clock)
        };
        Target { at_the_client, ..memory(clock) }
    }
    let how = "the client takes the answer to a ping for a renewal of its holds";
    Bug::new("a ZooKeeper ping taken as a renewal", how).is_found(pinging, memory);
}

#[test]
fn a_key_that_clients_share() {
    let how = "two clients share a session, and the key is that of the session";
    Bug::new("a shared etcd key", how).is_found(|clock| Target::new(shared_key(clock)), memory);
}

#[test]
fn a_break_that_forgets_the_block() {
    fn with_blocks(flaw: Flaw, clock: &Clock) -> Target {
        let at_the_client =
            |faulty, clock: &_| FlawedClient::around(ClientFlaw::UsesItsBlock, faulty, clock);
        Target { at_the_client, ..mutex(flaw, clock) }
    }
    let how = "after a break, fences go on behind the first of a reserved block";
    let bug = Bug::new("a reserved block that a break doesn't pass", how);
    Bug { work: &[Work::Mutex, Work::Break], ..bug }.is_found(
        |clock| with_blocks(Flaw::BreakForgetsTheBlock, clock),
        |clock| with_blocks(Flaw::None, clock),
    );
}

#[test]
fn a_ticket_that_is_good_twice() {
    let how = "a used ticket takes the hold from the present holder";
    let bug = Bug::new("a ticket resumed twice", how);
    Bug { work: &[Work::Mutex, Work::Ticket], ..bug }.in_queue(QueueFlaw::TicketsAreGoodForever);
}

#[test]
fn a_break_of_the_next_holder() {
    // The clients poll: a notification would end the wrongly broken hold before the next grant, and
    // hide the bug.
    fn polled(flaw: Flaw, clock: &Clock) -> Target {
        Target::new(shared(MutexBackend::that_is_polled(flaw, clock.clone())))
    }
    let how = "a break ends the present hold instead of the one that was seen";
    let bug = Bug::new("a break that hits the next holder", how);
    Bug { work: &[Work::Mutex, Work::Break], ..bug }
        .is_found(|clock| polled(Flaw::BreakHitsTheNext, clock), |clock| polled(Flaw::None, clock));
}

#[test]
fn a_late_duplicate_of_an_acquire() {
    let trouble = Trouble { late_requests: 200, only: Some(Op::Acquire), ..none() };
    let bug = Bug::new(
        "a late duplicate of an acquire",
        "the server forgets that the client gave up the request, and grants it when it arrives",
    );
    Bug { trouble, longest_wait: Some(TTL * 9 / 10), ..bug }.in_mutex(Flaw::NoTombstones);
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
    let trouble = Trouble { lost: 1_000, only: Some(Op::Renew), ..none() };
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

#[test]
fn a_ttl_that_is_rounded_down() {
    let bug = Bug::new("a TTL rounded down", "the server keeps a TTL of 1.5 s for 1 s");
    Bug { ttl: Duration::from_millis(1_500), duration: Duration::from_secs(8), ..bug }
        .in_mutex(Flaw::TtlInSeconds);
}
