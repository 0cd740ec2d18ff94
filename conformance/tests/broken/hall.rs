//! A backend of readers and permits in memory that can be broken in one chosen way, and is sound
//! otherwise. The [shop](crate::store::Shop) is for what is exclusive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::{
    Attempt, BootInstant, BreakHow, Broken, Busy, Claim, Clock, Cursor, DistributedLock, Ended,
    Error, Event, Events, Fence, Fencing, Finding, Granted, Holder, Inspection, LockName, Mode,
    Modes, Order, Page, Profile, Reason, Renew, Renewal, Result, Seen, Settle, Token, Wait, WakeUp,
    async_trait,
};

use crate::flaws::HallFlaw as Flaw;

/// The backend. Clones are connections to one store.
#[derive(Clone)]
pub(crate) struct Hall {
    flaw: Flaw,
    profile: Profile,
    clock: Clock,
    store: Arc<Mutex<Store>>,
    clients: Arc<Mutex<Vec<Events>>>,
}

#[derive(Default)]
struct Store {
    rooms: BTreeMap<LockName, Room>,
    last_fence: u64,
}

#[derive(Default)]
struct Room {
    holds: Vec<Held>,
    queue: Vec<Waiting>,
}

struct Held {
    claim: Claim,
    fence: u64,
    expires: BootInstant,
    is_broken: bool,
    /// The token that it had before it moved; only a flaw looks at it.
    was: Option<Token>,
}

struct Waiting {
    claim: Claim,
    token: Token,
    mode: Mode,
    live_until: BootInstant,
}

impl Hall {
    pub(crate) fn new(flaw: Flaw, clock: Clock) -> Self {
        let mut profile = Profile::new("hall");
        profile.modes = Modes { exclusive: true, shared: true, permits: true };
        profile.fencing = Fencing::Strict;
        profile.order = Order::Fifo;
        profile.wake_up = WakeUp::Push;
        profile.breakable = true;
        profile.tickets = true;
        profile.slow_poll = Duration::from_secs(1);
        Self { flaw, profile, clock, store: Arc::default(), clients: Arc::default() }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn expire(&self, room: &mut Room) {
        let now = self.clock.now();
        let is_over = |hold: &Held| now >= hold.expires;
        if self.has(Flaw::OneExpiryForAll) {
            if room.holds.iter().all(is_over) {
                room.holds.clear();
            }
        } else if self.has(Flaw::ExpireTogether) && room.holds.iter().any(is_over) {
            room.holds.clear();
        } else {
            room.holds.retain(|hold| !is_over(hold));
        }
        if self.has(Flaw::OffersTheFullTtl) {
            // To whoever is next, and for all it asked for.
            if room.holds.is_empty() && !room.queue.is_empty() {
                let claim = room.queue.remove(0).claim;
                let expires = now + claim.ttl;
                room.holds.push(Held { claim, fence: 0, expires, is_broken: false, was: None });
            }
        } else if !self.has(Flaw::VanishedStayInTheQueue) {
            room.queue.retain(|waiting| now < waiting.live_until);
        }
    }

    /// Whether one who isn't among the holders can be.
    fn lets_in(&self, room: &Room, token: Token, mode: Mode) -> bool {
        let goes_beside = |present: Mode| match (mode, present) {
            (Mode::Shared, Mode::Shared) | (Mode::Permits { .. }, Mode::Permits { .. }) => true,
            (Mode::Shared, Mode::Exclusive) => self.has(Flaw::ReaderBesideAWriter),
            (Mode::Exclusive, Mode::Shared) => self.has(Flaw::WriterBesideReaders),
            _ => false,
        };
        let weight = |mode| match mode {
            Mode::Permits { count, .. } if !self.has(Flaw::WeightsDontCount) => count,
            _ => 1,
        };
        let taken: u32 = room.holds.iter().map(|hold| weight(hold.claim.mode)).sum();
        let fits = match mode {
            Mode::Permits { of, .. } => {
                taken + weight(mode) <= of + u32::from(self.has(Flaw::OneMoreThanThereAre))
            }
            _ => true,
        };
        let passes = match mode {
            Mode::Shared => self.has(Flaw::ReadersPassTheWriter),
            Mode::Permits { .. } => self.has(Flaw::SmallOnesPass),
            _ => self.has(Flaw::NewcomersOvertake),
        };
        let mut before = room.queue.iter().take_while(|waiting| waiting.token != token);
        let is_next = before.all(|waiting| mode == Mode::Shared && waiting.mode == Mode::Shared);
        fits && (passes || is_next) && room.holds.iter().all(|hold| goes_beside(hold.claim.mode))
    }

    /// Whether the next one is to be told that it can get in.
    fn wakes(&self, room: &Room) -> bool {
        let Some(next) = room.queue.first() else { return false };
        let is_forgotten = match next.mode {
            Mode::Shared => self.has(Flaw::ReadersArentWoken),
            Mode::Exclusive => self.has(Flaw::WritersArentWoken),
            _ => self.has(Flaw::PermitsWakeNobody),
        };
        !is_forgotten && self.lets_in(room, next.token, next.mode)
    }

    /// Whether a name may be asked for as this, though it is in use as another kind of lock.
    fn mixes(&self, present: Mode, wanted: Mode) -> bool {
        match (present, wanted) {
            (Mode::Permits { .. }, Mode::Permits { .. }) => self.has(Flaw::SizesMix),
            _ => self.has(Flaw::KindsMix),
        }
    }

    fn fence(&self, store: &mut Store, claim: &Claim) -> u64 {
        let holds = store.rooms.get(&claim.name).map_or(&[][..], |room| &room.holds);
        let reader = holds.iter().find(|hold| hold.claim.mode == Mode::Shared);
        match (claim.mode, reader) {
            (Mode::Shared, Some(reader)) if !self.has(Flaw::EachReaderHasAFence) => reader.fence,
            (Mode::Permits { .. }, _) if self.has(Flaw::IdsAreNumbers) => holds.len() as u64 + 1,
            _ => {
                store.last_fence += 1;
                store.last_fence
            }
        }
    }

    fn wake(&self, name: &LockName) {
        self.tell(&Event::Wake(name.clone()));
    }

    fn tell(&self, event: &Event) {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for client in clients {
            client.send(event.clone());
        }
    }

    fn renew_one(&self, claim: &Claim) -> Renewal {
        let now = self.clock.now();
        let mut store = self.store();
        let Some(room) = store.rooms.get_mut(&claim.name) else {
            return Renewal::not_held(Reason::Gone);
        };
        self.expire(room);
        let Some(hold) = room.holds.iter_mut().find(|hold| hold.claim.token == claim.token) else {
            return Renewal::not_held(Reason::Gone);
        };
        if hold.is_broken {
            return Renewal::not_held(Reason::Broken);
        }
        hold.expires = now + claim.ttl;
        Renewal::RENEWED
    }

    fn shown(&self, name: &LockName, room: &Room) -> Inspection {
        let now = self.clock.now();
        let mut inspection = Inspection::free(name.clone());
        for hold in &room.holds {
            let mut holder = Holder::new(Some(hold.claim.token));
            if self.has(Flaw::ShowsNoTokens) {
                holder.token = None;
            }
            let mut identity = (*hold.claim.identity).clone();
            if self.has(Flaw::ForgetsValues) {
                identity.value = None;
            }
            holder.identity = Some(identity);
            holder.mode = hold.claim.mode;
            let has_fence = !matches!(holder.mode, Mode::Permits { .. });
            holder.fence = has_fence.then(|| Fence::new(hold.fence));
            holder.remaining = Some(hold.expires.saturating_since(now));
            holder.broken = hold.is_broken.then(|| "broken".to_owned());
            inspection.holders.push(holder);
        }
        let live = |waiting: &&Waiting| now < waiting.live_until;
        inspection.waiters = Some(room.queue.iter().filter(live).count() as u64);
        if self.has(Flaw::ShowsOneHolder) {
            inspection.holders.truncate(1);
        }
        inspection
    }
}

impl std::fmt::Debug for Hall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hall({:?})", self.flaw)
    }
}

#[async_trait]
impl DistributedLock for Hall {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        let now = self.clock.now();
        let (granted, wakes) = {
            let mut store = self.store();
            let room = store.rooms.entry(claim.name.clone()).or_default();
            self.expire(room);
            let own = room.holds.iter_mut().find(|hold| hold.claim.token == claim.token);
            if let Some(hold) = own.filter(|_| !self.has(Flaw::RepeatIsASecondHold)) {
                hold.expires = now + claim.ttl;
                return Ok(Attempt::Granted(Granted::new(Fence::new(hold.fence))));
            }
            if let Some(present) = room.holds.first().map(|hold| hold.claim.mode)
                && !present.is_of_the_kind_of(claim.mode)
                && !self.mixes(present, claim.mode)
            {
                return Err(Error::other_kind(present, claim.mode));
            }
            if !self.lets_in(room, claim.token, claim.mode) {
                let queued = wait != Wait::No;
                if queued {
                    let live_until = now + self.profile.slow_poll * 5;
                    let known = room.queue.iter_mut().find(|known| known.token == claim.token);
                    match known {
                        Some(known) => known.live_until = live_until,
                        None => {
                            let (token, mode) = (claim.token, claim.mode);
                            let claim = claim.clone();
                            let is_first = self.has(Flaw::LastComeFirstServed);
                            let at = if is_first { 0 } else { room.queue.len() };
                            room.queue.insert(at, Waiting { claim, token, mode, live_until });
                        }
                    }
                }
                return Ok(Attempt::Busy(Busy { queued, ..Busy::default() }));
            }
            let fence = self.fence(&mut store, claim);
            let room = store.rooms.get_mut(&claim.name).expect("it was there");
            let before = room.queue.len();
            room.queue.retain(|waiting| waiting.token != claim.token);
            let has_waited = room.queue.len() < before;
            let (claim, expires) = (claim.clone(), now + claim.ttl);
            room.holds.push(Held { claim, fence, expires, is_broken: false, was: None });
            let wakes = has_waited && self.wakes(room) && !self.has(Flaw::WakesOneOfMany);
            (Granted::new(Fence::new(fence)), wakes)
        };
        if wakes {
            self.wake(&claim.name);
        }
        Ok(Attempt::Granted(granted))
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<Attempt> {
        let now = self.clock.now();
        let mut store = self.store();
        let Store { rooms, last_fence } = &mut *store;
        let busy = Ok(Attempt::Busy(Busy::default()));
        let Some(room) = rooms.get_mut(&to.name) else { return busy };
        self.expire(room);
        let granted = |hold: &Held| Attempt::Granted(Granted::new(Fence::new(hold.fence)));
        let own = room.holds.iter_mut().find(|hold| hold.claim.token == to.token);
        if let Some(hold) = own.filter(|_| !self.has(Flaw::RepeatedSwapIsRefused)) {
            if !hold.is_broken || self.has(Flaw::RepeatedSwapRearms) {
                hold.expires = now + to.ttl;
            }
            return Ok(granted(hold));
        }
        let any = self.has(Flaw::TicketsAreGoodForever) && !room.holds.is_empty();
        let at = room.holds.iter().position(|hold| hold.claim.token == from);
        let Some(at) = at.or(any.then_some(0)) else { return busy };
        let hold = &mut room.holds[at];
        if hold.is_broken && !self.has(Flaw::BrokenMoves) {
            return busy;
        }
        *last_fence += 1;
        let fence = if self.has(Flaw::SwapKeepsTheFence) { hold.fence } else { *last_fence };
        let new = Held {
            claim: to.clone(),
            fence,
            expires: now + to.ttl,
            is_broken: false,
            was: Some(from),
        };
        let answer = granted(&new);
        if self.has(Flaw::OldTokensStayGood) {
            room.holds.push(new);
        } else {
            *hold = new;
        }
        Ok(answer)
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        Ok(holds.iter().map(|renew| self.renew_one(renew.claim)).collect())
    }

    async fn release(&self, claim: &Claim, _settle: Settle) -> Result<Ended> {
        let (ended, wakes) = {
            let mut store = self.store();
            let Some(room) = store.rooms.get_mut(&claim.name) else { return Ok(Ended::NotHeld) };
            self.expire(room);
            let own = room.holds.iter().position(|hold| hold.claim.token == claim.token);
            let counted = self.has(Flaw::CountsHolders) && !room.holds.is_empty();
            let ended = match own.or(counted.then_some(0)) {
                Some(_) if self.has(Flaw::ReleaseEndsAll) => {
                    room.holds.clear();
                    Ended::Released
                }
                Some(at) => {
                    room.holds.remove(at);
                    Ended::Released
                }
                None => Ended::NotHeld,
            };
            let before = room.queue.len();
            if !self.has(Flaw::WithdrawnAreServed) {
                room.queue.retain(|waiting| waiting.token != claim.token);
            }
            let has_left = room.queue.len() < before;
            (if has_left { Ended::Released } else { ended }, self.wakes(room))
        };
        if wakes {
            self.wake(&claim.name);
        }
        Ok(ended)
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let mut store = self.store();
        let room = store.rooms.entry(name.clone()).or_default();
        self.expire(room);
        Ok(self.shown(name, room))
    }

    async fn list(&self, prefix: &str, _from: Option<Cursor>) -> Result<Page> {
        let mut store = self.store();
        let mut names = Vec::new();
        for (name, room) in &mut store.rooms {
            self.expire(room);
            if name.as_str().starts_with(prefix) && !room.holds.is_empty() {
                names.push(self.shown(name, room));
            }
        }
        Ok(Page { names, next: None })
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        _by: &str,
        _reason: &str,
    ) -> Result<Broken> {
        let now = self.clock.now();
        let mut store = self.store();
        let Some(room) = store.rooms.get_mut(name) else { return Ok(Broken::NotHeld) };
        self.expire(room);
        let is_meant = |hold: &Held| {
            self.has(Flaw::BreakHitsAll)
                || self.has(Flaw::BreakHitsTheMoved) && hold.was.map(Seen::Token) == Some(seen)
                || !matches!(seen, Seen::Token(token) if token != hold.claim.token)
        };
        let meant = room.holds.iter().filter(|hold| is_meant(hold));
        let Some(left) = meant.map(|hold| hold.expires.saturating_since(now)).max() else {
            return Ok(Broken::NotHeld);
        };
        match how {
            BreakHow::RunOut => {
                let meant = room.holds.iter_mut().filter(|hold| is_meant(hold));
                meant.for_each(|hold| hold.is_broken = true);
                Ok(Broken::RunsOut(left))
            }
            BreakHow::Now => {
                room.holds.retain(|hold| !is_meant(hold));
                Ok(Broken::Freed(left))
            }
        }
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
