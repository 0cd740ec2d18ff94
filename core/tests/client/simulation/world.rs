use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lockwright_core::{Clock, Locks, Owner, Result, Ticket};
use tokio::task::JoinSet;

use super::chance::Chance;
use super::holders::Holders;
use super::link;
use super::server::{Manner, Server};
use crate::support::{secs, settle_down};

pub(super) const LOCKS: [&str; 2] = ["a", "b"];
pub(super) const SEMAPHORE: &str = "p";
pub(super) const PERMITS: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) manner: Manner,
    pub(super) trouble: u64,
    pub(super) readers: bool,
    pub(super) permits: bool,
    pub(super) tickets: bool,
    pub(super) breaks: bool,
    pub(super) losses: bool,
    pub(super) suspends: bool,
    pub(super) closes: bool,
    pub(super) cuts: bool,
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let chance = Chance::from(seed ^ 0x706c_616e);
        let manner = Manner {
            hands_over: !chance.one_in(3),
            late_events: chance.of(&[0, 20, 60]),
            tombstones: !chance.one_in(3),
        };
        let one_in_two = || chance.one_in(2);
        Self {
            seed,
            manner,
            readers: one_in_two(),
            permits: one_in_two(),
            tickets: one_in_two(),
            breaks: one_in_two(),
            losses: one_in_two(),
            suspends: one_in_two(),
            closes: one_in_two(),
            cuts: one_in_two(),
            trouble: chance.of(&[0, 5, 30]),
        }
    }

    /// Returns whether the server must be empty once the clients have released all guards.
    pub(super) fn leaves_nothing(&self) -> bool {
        // The hold of an unresumed ticket stays until it expires. Without tombstones, so does a
        // hold whose acquire arrives after the release.
        !self.tickets && ((self.trouble == 0 && !self.cuts) || self.manner.tombstones)
    }
}

#[derive(Clone)]
pub(super) struct Client {
    pub(super) locks: Locks,
    is_closed: Arc<AtomicBool>,
    pub(super) is_cut: Arc<AtomicBool>,
    under_way: Arc<()>,
}

impl Client {
    pub(super) async fn admits<T>(
        &self,
        request: impl Future<Output = Result<T>>,
        is_grant: impl FnOnce(&T) -> bool,
    ) -> Result<T> {
        let _under_way = Arc::clone(&self.under_way);
        let answer = request.await;
        let is_granted = answer.as_ref().is_ok_and(is_grant);
        let is_closed = self.is_closed.load(Ordering::SeqCst);
        assert!(!(is_granted && is_closed), "a grant after close() returned");
        answer
    }

    pub(super) async fn close(&self) {
        self.locks.close().await;
        self.is_closed.store(true, Ordering::SeqCst);
        settle_down().await;
        assert_eq!(self.requests(), 0, "a request waits after close() returned");
    }

    fn requests(&self) -> usize {
        // Each clone of the client holds both `Arc`s, and each request holds only `under_way`.
        Arc::strong_count(&self.under_way) - Arc::strong_count(&self.is_closed)
    }
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) clock: Clock,
    pub(super) chance: Arc<Chance>,
    pub(super) server: Arc<Server>,
    pub(super) holders: Holders,
    pub(super) owners: [Owner; 2],
    pub(super) tickets: Mutex<Vec<(&'static str, Ticket)>>,
    pub(super) seen: Arc<Seen>,
    clients: Mutex<Vec<Client>>,
    /// Closed clients, which may still have holds.
    retired: Mutex<Vec<Client>>,
    pub(super) closing: Mutex<JoinSet<()>>,
    made: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) grants: AtomicU64,
    /// Grants that the server sent as an event.
    pub(super) offers: AtomicU64,
    /// Grants that a client received only by an event.
    pub(super) handed: AtomicU64,
    pub(super) resumed: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) turned_away: AtomicU64,
}

impl Seen {
    pub(super) fn all(&self) -> [&AtomicU64; 7] {
        let Self { grants, offers, handed, resumed, broken, ended, turned_away } = self;
        [grants, offers, handed, resumed, broken, ended, turned_away]
    }
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        let (clock, chance) = (Clock::tokio(), Arc::new(Chance::from(plan.seed)));
        let seen = Arc::new(Seen::default());
        let server = Server::new(&clock, &chance, &seen, plan.manner);
        let world = Self {
            plan,
            clock,
            chance,
            holders: Holders::new(&server),
            server,
            owners: [Owner::new(), Owner::new()],
            tickets: Mutex::default(),
            seen: Arc::clone(&seen),
            clients: Mutex::default(),
            retired: Mutex::default(),
            closing: Mutex::default(),
            made: AtomicU64::new(0),
        };
        let two = [world.make_client(), world.make_client()];
        world.clients.lock().unwrap().extend(two);
        world
    }

    fn make_client(&self) -> Client {
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        let seed = self.plan.seed.wrapping_mul(64) + number;
        let answers_at_once = number == 0 || self.plan.seed.is_multiple_of(2);
        let is_cut = Arc::default();
        let trouble = self.plan.trouble;
        let link = link::connect(&self.server, &self.chance, &self.clock, trouble, &is_cut);
        link.answers_at_once(answers_at_once);
        let locks = Locks::builder(link)
            .ttl(secs(2))
            .clock(self.clock.clone())
            .tokens(Chance::tokens(seed))
            .jitter_seed(seed | 1)
            .build()
            .unwrap();
        Client { locks, is_closed: Arc::default(), is_cut, under_way: Arc::default() }
    }

    pub(super) fn client(&self) -> Client {
        let which = self.chance.below(2) as usize;
        self.clients.lock().unwrap()[which].clone()
    }

    pub(super) fn replace_client(&self) -> Client {
        let new = self.make_client();
        let which = self.chance.below(2) as usize;
        let old = std::mem::replace(&mut self.clients.lock().unwrap()[which], new);
        self.retired.lock().unwrap().push(old.clone());
        old
    }

    pub(super) fn present(&self) -> Vec<Client> {
        self.clients.lock().unwrap().clone()
    }

    pub(super) fn all_clients(&self) -> Vec<Client> {
        let mut all = self.present();
        all.extend(self.retired.lock().unwrap().iter().cloned());
        all
    }

    pub(super) fn owner(&self) -> &Owner {
        &self.owners[self.chance.below(2) as usize]
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}
