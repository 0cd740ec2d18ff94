//! A backend in memory that can be broken in one chosen way, and is sound otherwise.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::{
    Attempt, BootInstant, BreakHow, Broken, Busy, Claim, Clock, Cursor, DistributedLock, Ended,
    Error, Event, Events, Fence, Fencing, Finding, Granted, Holder, Inspection, LockName, Page,
    Profile, Reason, Renew, Renewal, RenewalOutcome, Result, Seen, Settle, Token, Wait, WakeUp,
    async_trait,
};

use crate::flaws::Flaw;

/// How many names a page of its listing has.
const PAGE: usize = 100;

/// The backend. Clones are connections to one store.
#[derive(Clone)]
pub(crate) struct Shop {
    flaw: Flaw,
    profile: Profile,
    clock: Clock,
    store: Arc<Mutex<Store>>,
    clients: Arc<Mutex<Vec<Events>>>,
}

#[derive(Default)]
struct Store {
    rows: BTreeMap<String, Row>,
    fences: HashMap<String, u64>,
    tombstones: HashSet<Token>,
    /// Who stands first in the queue that only flaws have.
    next: HashMap<String, Token>,
}

#[derive(Clone)]
struct Row {
    claim: Claim,
    fence: u64,
    fences: u32,
    expires: Option<BootInstant>,
    broken: Option<String>,
    /// How often it was asked for; only a flaw looks at it.
    times: u32,
}

impl Shop {
    pub(crate) fn new(flaw: Flaw, clock: Clock) -> Self {
        let mut profile = Profile::new("shop");
        profile.fencing = Fencing::Strict;
        profile.wake_up = WakeUp::Push;
        profile.tombstones = true;
        profile.breakable = true;
        profile.slow_poll = Duration::from_secs(1);
        Self { flaw, profile, clock, store: Arc::default(), clients: Arc::default() }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// The key that a name has on the "server".
    fn key(&self, name: &LockName) -> String {
        let name = name.as_str();
        // The root of the case, which has to survive a flaw that is about what follows.
        let (root, local) = name.split_once('/').map_or(("", name), |(root, local)| (root, local));
        let local = match self.flaw {
            Flaw::PrefixConfusion => local.split('/').next().unwrap_or_default().to_owned(),
            Flaw::FoldsCase => local.to_lowercase(),
            Flaw::SquashesSpaces => local.split_whitespace().collect::<Vec<_>>().join(" "),
            Flaw::CutsLongNames => local.chars().take(64).collect(),
            Flaw::HashTags => match (local.find('{'), local.find('}')) {
                (Some(from), Some(to)) if from < to => local[from + 1..to].to_owned(),
                _ => local.to_owned(),
            },
            _ => local.to_owned(),
        };
        format!("{root}/{local}")
    }

    fn until(&self, ttl: Duration) -> BootInstant {
        let ttl = match self.flaw {
            Flaw::TtlRoundedDown => Duration::from_millis(ttl.as_millis() as u64),
            Flaw::TtlInSeconds => Duration::from_secs(ttl.as_secs()),
            Flaw::OneTtlForAll => Duration::from_secs(10),
            _ => ttl,
        };
        self.clock.now() + ttl
    }

    fn live(&self, row: &Row) -> bool {
        row.expires.is_none_or(|expires| self.clock.now() < expires) || self.has(Flaw::NeverExpires)
    }

    fn tell(&self, event: &Event) {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for client in clients {
            client.send(event.clone());
        }
    }

    fn wake(&self, name: &LockName) {
        if !self.has(Flaw::LostWakeUp) {
            self.tell(&Event::Wake(name.clone()));
        }
    }

    fn granted(&self, row: &Row) -> Granted {
        let mut fence = row.fence;
        if self.has(Flaw::ImpreciseFence) {
            // What a script language makes of 1.795e15 that prints 14 digits.
            fence = (fence + 1_795_000_000_000_000) / 100 * 100;
        }
        let mut granted = Granted::new(Fence::new(fence));
        granted.fences = row.fences;
        granted
    }

    /// The answer, unless the name is free.
    fn look(&self, key: &str, claim: &Claim, wait: Wait) -> Result<Option<Attempt>> {
        let mut store = self.store();
        if store.tombstones.contains(&claim.token) && !self.has(Flaw::NoTombstones) {
            let ended = lockwright_core::ErrorKind::Lost(Reason::Gone);
            return Err(Error::new(ended, "this token was settled"));
        }
        let Some(row) = store.rows.get(key).filter(|row| self.live(row)) else {
            let anothers = store.next.get(key).is_some_and(|next| *next != claim.token);
            return Ok(anothers.then(|| Attempt::Busy(Busy::default())));
        };
        if row.claim.token == claim.token && !self.has(Flaw::RepeatIsBusy) {
            return Ok(Some(Attempt::Granted(self.repeat(&mut store, key, claim))));
        }
        let retry_after = row.expires.map(|expires| expires.saturating_since(self.clock.now()));
        let queues = self.has(Flaw::QueuesTheUnwilling) && wait == Wait::No
            || self.has(Flaw::ForgetsWithdrawals) && wait != Wait::No;
        if queues {
            store.next.insert(key.to_owned(), claim.token);
        }
        Ok(Some(Attempt::Busy(Busy { retry_after, ..Busy::default() })))
    }

    fn repeat(&self, store: &mut Store, key: &str, claim: &Claim) -> Granted {
        let until = self.until(claim.ttl);
        let now = self.clock.now();
        let new_fence = self.has(Flaw::RepeatGetsANewFence).then(|| self.next_fence(store, key, 1));
        let row = store.rows.get_mut(key).expect("it was there");
        row.times += 1;
        let mut valid = None;
        if row.broken.is_some() && !self.has(Flaw::RepeatRearmsABrokenHold) {
            valid = row.expires.map(|expires| expires.saturating_since(now));
        } else if !self.has(Flaw::RepeatWithoutRearming) {
            row.expires = Some(until);
        }
        if let Some(fence) = new_fence {
            row.fence = fence;
        }
        let row = row.clone();
        let mut granted = self.granted(&row);
        granted.valid = valid;
        granted
    }

    fn next_fence(&self, store: &mut Store, key: &str, count: u32) -> u64 {
        let last = store.fences.entry(key.to_owned()).or_default();
        let fence = *last + 1;
        *last += if self.has(Flaw::BlockNotReserved) { 1 } else { u64::from(count) };
        fence
    }

    fn shown(&self, row: &Row) -> Holder {
        let mut holder = Holder::new(Some(row.claim.token));
        holder.identity = Some((*row.claim.identity).clone());
        holder.fence = Some(self.granted(row).fence);
        holder.remaining = row.expires.map(|expires| expires.saturating_since(self.clock.now()));
        holder.broken.clone_from(&row.broken);
        holder
    }

    /// What a renewal of a hold says that isn't there any more.
    fn gone(&self) -> Renewal {
        if self.has(Flaw::FreedIsRenewed) {
            Renewal::RENEWED
        } else {
            Renewal::not_held(Reason::Gone)
        }
    }

    fn renew_one(&self, renew: &Renew<'_>) -> Renewal {
        let claim = renew.claim;
        let key = self.key(&claim.name);
        let until = self.until(claim.ttl);
        let mut store = self.store();
        let Some(row) = store.rows.get_mut(&key) else {
            return self.gone();
        };
        if row.claim.token != claim.token && self.has(Flaw::FreedIsRenewed) {
            return self.gone();
        }
        if row.claim.token != claim.token && !self.has(Flaw::RenewWithoutCompare) {
            return Renewal::not_held(Reason::Gone);
        }
        if !self.live(row) && !self.has(Flaw::RenewRevives) {
            return Renewal::not_held(Reason::Expired);
        }
        if row.broken.is_some() && !self.has(Flaw::BrokenIsRenewed) {
            return Renewal::not_held(Reason::Broken);
        }
        if !self.has(Flaw::RenewDoesNothing) {
            row.expires = Some(until);
        }
        Renewal::RENEWED
    }
}

impl std::fmt::Debug for Shop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shop({:?})", self.flaw)
    }
}

#[async_trait]
impl DistributedLock for Shop {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        let key = self.key(&claim.name);
        let snapshot = self.store().fences.get(&key).copied().unwrap_or_default();
        if self.has(Flaw::FenceFromAnOldSnapshot) {
            // The wait for the row, between reading the fence and taking it.
            self.clock.sleep(Duration::from_millis(2)).await;
        }
        while let Some(answer) = self.look(&key, claim, wait)? {
            if !self.has(Flaw::BlocksAlways) || matches!(answer, Attempt::Granted(_)) {
                return Ok(answer);
            }
            self.clock.sleep(Duration::from_millis(50)).await;
        }
        if self.has(Flaw::LooksThenTakes) {
            tokio::task::yield_now().await;
        }
        let first = !self.store().fences.contains_key(&key);
        let row = {
            let mut store = self.store();
            if let Some(expired) = store.rows.remove(&key) {
                if self.has(Flaw::FenceResetByExpiry) {
                    store.fences.remove(&key);
                }
                drop(expired);
            }
            let fences = claim.fences.max(1);
            if self.has(Flaw::FenceFromAnOldSnapshot) {
                store.fences.insert(key.clone(), snapshot);
            }
            let fence = self.next_fence(&mut store, &key, fences);
            let claim = claim.clone();
            let row = Row { claim, fence, fences, expires: None, broken: None, times: 1 };
            store.rows.insert(key.clone(), row.clone());
            row
        };
        if self.has(Flaw::TwoStepExpiry) {
            tokio::task::yield_now().await;
        }
        let until = self.until(claim.ttl);
        if let Some(row) = self.store().rows.get_mut(&key) {
            row.expires = Some(until);
        }
        let mut granted = self.granted(&row);
        if self.has(Flaw::StartAfterTheGrant) && first {
            self.clock.sleep(claim.ttl / 4).await;
            granted.start = Some(self.clock.now());
        }
        Ok(Attempt::Granted(granted))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let mut answers: Vec<_> = holds.iter().map(|hold| self.renew_one(hold)).collect();
        if self.has(Flaw::BatchOutOfOrder) {
            answers.sort_by_key(|answer| matches!(answer.outcome, RenewalOutcome::NotHeld(_)));
        }
        if self.has(Flaw::ShortBatch) {
            answers.truncate(10);
        }
        Ok(answers)
    }

    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        let key = self.key(&claim.name);
        {
            let mut store = self.store();
            if settle == Settle::Unanswered {
                store.tombstones.insert(claim.token);
            }
            let Some(row) = store.rows.get_mut(&key) else { return Ok(Ended::NotHeld) };
            let mine = row.claim.token == claim.token && self.live(row);
            let settles_blindly =
                self.has(Flaw::SettlingDeletesBlindly) && settle == Settle::Unanswered;
            if !mine && !self.has(Flaw::DeleteWithoutCompare) && !settles_blindly {
                return Ok(Ended::NotHeld);
            }
            row.times -= 1;
            if self.has(Flaw::CountsRepeats) && row.times > 0 {
                return Ok(Ended::Released);
            }
            store.rows.remove(&key);
            if self.has(Flaw::FenceResetByRelease) {
                store.fences.remove(&key);
            }
        }
        self.wake(&claim.name);
        Ok(Ended::Released)
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let mut inspection = Inspection::free(name.clone());
        let store = self.store();
        let row = store.rows.get(&self.key(name));
        let shown = row.filter(|row| self.live(row) || self.has(Flaw::ShowsWhatExpired));
        inspection.holders.extend(shown.map(|row| self.shown(row)));
        Ok(inspection)
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        let store = self.store();
        let matches = |name: &str| {
            if self.has(Flaw::WildcardsInPrefix) {
                let pattern = prefix.trim_end_matches(['%', '*']).replace('_', "?");
                name.len() >= pattern.len()
                    && pattern.chars().zip(name.chars()).all(|(p, n)| p == '?' || p == n)
            } else {
                name.starts_with(prefix)
            }
        };
        let after = from.map(|cursor| cursor.0);
        let mut names: Vec<&Row> = store
            .rows
            .values()
            .filter(|row| matches(row.claim.name.as_str()) && self.live(row))
            .filter(|row| match &after {
                Some(after) if self.has(Flaw::ListRepeats) => {
                    row.claim.name.as_str() >= after.as_str()
                }
                Some(after) => row.claim.name.as_str() > after.as_str(),
                None => true,
            })
            .collect();
        names.sort_by_key(|row| row.claim.name.clone());
        let more = names.len() > PAGE && !self.has(Flaw::ListStopsEarly);
        names.truncate(PAGE);
        let next = names.last().filter(|_| more).map(|row| Cursor(row.claim.name.to_string()));
        let shown = |row: &&Row| {
            let mut inspection = Inspection::free(row.claim.name.clone());
            inspection.holders.push(self.shown(row));
            inspection
        };
        Ok(Page { names: names.iter().map(shown).collect(), next })
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let key = self.key(name);
        let (token, answer) = {
            let mut store = self.store();
            let now = self.clock.now();
            let Some(row) = store.rows.get_mut(&key).filter(|row| self.live(row)) else {
                return Ok(Broken::NotHeld);
            };
            let another = matches!(seen, Seen::Token(token) if token != row.claim.token);
            if another && !self.has(Flaw::BreakHitsTheNext) {
                return Ok(Broken::NotHeld);
            }
            let token = row.claim.token;
            let left = row.expires.map_or(Duration::ZERO, |at| at.saturating_since(now));
            let is_final = self.has(Flaw::BreakIsFinal) && row.broken.is_some();
            match how {
                _ if is_final => (token, Broken::RunsOut(left)),
                BreakHow::RunOut => {
                    let note = if self.has(Flaw::BreakForgetsWhy) { by } else { reason };
                    row.broken = Some(format!("{by}: {note}"));
                    (token, Broken::RunsOut(left))
                }
                BreakHow::Now => {
                    let fence = row.fence;
                    store.rows.remove(&key);
                    if self.has(Flaw::BreakForgetsTheBlock) {
                        store.fences.insert(key, fence);
                    }
                    let admitted =
                        if self.has(Flaw::BreakAdmitsNoOverlap) { Duration::ZERO } else { left };
                    (token, Broken::Freed(admitted))
                }
            }
        };
        if !self.has(Flaw::FreedIsRenewed) {
            self.tell(&Event::Lost(token, Reason::Broken));
        }
        if how == BreakHow::Now {
            self.wake(name);
        }
        Ok(answer)
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
