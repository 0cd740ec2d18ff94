//! The in-process queue: requests of one client for one name take turns and share one remote
//! claim, so that they don't compete with each other on the server. First come, first served.
//!
//! Whoever has the turn may talk to the server about the name. It goes on to the next when the
//! hold has ended on the server too, or is known never to have begun. (Later a hold itself will be
//! passed on here, without a trip: that is what the reserved fences of a claim are for.)

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::claim::{Claim, Settle, Upkeep};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Result};
use crate::mode::Mode;
use crate::name::{LockName, NameMap};

use super::background::Job;
use super::hold::Hold;
use super::owner::Owner;
use super::shared::Shared;

#[derive(Default)]
pub(crate) struct Turns(Mutex<NameMap<Taken>>);

/// A name whose turn is taken.
#[derive(Default)]
struct Taken {
    /// Who has it, if it can be entered again.
    reentry: Option<Box<Reentry>>,
    #[expect(clippy::box_collection, reason = "mostly absent, and there may be 100,000 of them")]
    queue: Option<Box<VecDeque<Queued>>>,
}

struct Reentry {
    owner: Owner,
    mode: Mode,
    /// The hold, once there is one.
    hold: Option<Arc<Hold>>,
}

/// A request that waits for its turn.
struct Queued {
    want: Want,
    sender: oneshot::Sender<Passed>,
}

/// What the queue needs to know of a request.
#[derive(Clone)]
pub(crate) struct Want {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) upkeep: Upkeep,
    pub(crate) owner: Option<Owner>,
}

impl Want {
    /// Whether a request can go on with a claim that another one made.
    fn takes_over(&self, claim: &Claim) -> bool {
        self.mode == claim.mode && self.ttl == claim.ttl && self.upkeep == claim.upkeep
    }
}

/// What a queued request gets.
pub(crate) enum Passed {
    /// The turn, perhaps with the claim of the one before.
    Turn(Turn),
    /// A share in the hold of its own owner.
    Entered(Entered),
}

/// A share in a hold that is entered again; ends it when dropped unused and last.
pub(crate) struct Entered(Option<Arc<Hold>>);

impl Entered {
    pub(crate) fn into_hold(mut self) -> Arc<Hold> {
        self.0.take().expect("a share has its hold until it is taken")
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            super::guard::end_in_background(hold);
        }
    }
}

/// The answer to a request for the turn.
pub(crate) enum Entry {
    Turn(Turn),
    Entered(Entered),
    /// It stands in the queue.
    Queued(oneshot::Receiver<Passed>),
    /// It is taken, and the request didn't want to wait.
    Busy,
}

/// A claim that was sent and may stand on the server.
pub(crate) struct Pending {
    pub(crate) claim: Claim,
    pub(crate) settle: Settle,
    /// Whether something of it may stand on the server now.
    pub(crate) on_server: bool,
    pub(crate) last_sent: BootInstant,
}

/// The turn of one name, or of none, for claims that don't take turns. When dropped, the claim
/// that it holds is inherited or settled, and the turn goes on.
pub(crate) struct Turn {
    /// `None` once the turn went to a hold.
    shared: Option<Arc<Shared>>,
    /// Whether a local turn goes with it.
    taken: bool,
    /// The name, until a claim has it.
    name: Option<LockName>,
    pub(crate) pending: Option<Pending>,
}

impl Turn {
    /// For a claim that takes no turns: others of the same client may hold beside it.
    pub(crate) fn beside_others(shared: &Arc<Shared>, name: &LockName) -> Self {
        Self {
            shared: Some(Arc::clone(shared)),
            taken: false,
            name: Some(name.clone()),
            pending: None,
        }
    }

    /// The name, for a claim to take along.
    pub(crate) fn take_name(&mut self) -> LockName {
        self.name
            .take()
            .or_else(|| self.pending.as_ref().map(|pending| pending.claim.name.clone()))
            .expect("a turn has its name, or its claim does")
    }

    /// Takes the claim away from the turn, which goes on without one.
    pub(crate) fn take_pending(&mut self) -> Option<Pending> {
        let pending = self.pending.take()?;
        self.name = Some(pending.claim.name.clone());
        Some(pending)
    }

    /// The claim was granted: claim, settling and local turn go to the hold.
    pub(crate) fn into_parts(mut self) -> Option<(Arc<Shared>, Pending, bool)> {
        Some((self.shared.take()?, self.pending.take()?, self.taken))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        let name = self.take_name();
        let pending = self.pending.take().filter(|pending| pending.on_server);
        if self.taken {
            shared.turns.pass(&shared, &name, pending);
        } else if let Some(pending) = pending {
            shared.in_background(Job::settle(pending, false));
        }
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, NameMap<Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the turn of `name`.
    pub(crate) fn enter(
        &self,
        shared: &Arc<Shared>,
        name: &LockName,
        want: &Want,
        may_wait: bool,
    ) -> Result<Entry> {
        use hashbrown::hash_map::EntryRef as Place;

        let mut names = self.lock();
        let taken = match names.entry_ref(name) {
            Place::Vacant(place) => {
                place.insert(Taken { reentry: want.reentry(), queue: None });
                let shared = Some(Arc::clone(shared));
                return Ok(Entry::Turn(Turn {
                    shared,
                    taken: true,
                    name: Some(name.clone()),
                    pending: None,
                }));
            }
            Place::Occupied(place) => place.into_mut(),
        };
        if let Some(hold) = taken.enter_again(want)? {
            return Ok(Entry::Entered(hold));
        }
        if !may_wait {
            return Ok(Entry::Busy);
        }
        let (sender, receiver) = oneshot::channel();
        taken.queue.get_or_insert_default().push_back(Queued { want: want.clone(), sender });
        Ok(Entry::Queued(receiver))
    }

    /// The turn of the hold's name became a hold: those of the same owner get their share.
    pub(crate) fn granted(&self, hold: &Arc<Hold>) {
        let Some(owner) = &hold.owner else { return };
        let mut joined = Vec::new();
        if let Some(taken) = self.lock().get_mut(&hold.claim.name) {
            taken.reentry = Some(Box::new(Reentry {
                owner: owner.clone(),
                mode: hold.claim.mode,
                hold: Some(Arc::clone(hold)),
            }));
            let queue = taken.queue.take();
            let (mine, others): (VecDeque<_>, VecDeque<_>) =
                queue.map(|queue| *queue).unwrap_or_default().into_iter().partition(|queued| {
                    queued.want.owner.as_ref() == Some(owner) && queued.want.mode == hold.claim.mode
                });
            taken.queue = (!others.is_empty()).then(|| Box::new(others));
            hold.guards.fetch_add(mine.len() as u32, Ordering::AcqRel);
            joined.extend(mine.into_iter().map(|queued| (queued, Entered(Some(Arc::clone(hold))))));
        }
        for (queued, share) in joined {
            // Gone by now: the share is dropped, and counts itself out.
            let _ = queued.sender.send(Passed::Entered(share));
        }
    }

    /// One guard fewer. True when it was the last.
    pub(crate) fn leave(&self, hold: &Hold) -> bool {
        if hold.owner.is_none() {
            return true;
        }
        let mut names = self.lock();
        let last = hold.guards.fetch_sub(1, Ordering::AcqRel) == 1;
        if last
            && let Some(taken) = names.get_mut(&hold.claim.name)
            && taken
                .reentry
                .as_ref()
                .and_then(|reentry| reentry.hold.as_deref())
                .is_some_and(|h| std::ptr::eq(h, hold))
        {
            taken.reentry = None;
        }
        last
    }

    /// Passes the turn on, with what may stand on the server of the claim before.
    pub(crate) fn pass(&self, shared: &Arc<Shared>, name: &LockName, pending: Option<Pending>) {
        let mut pending = pending;
        loop {
            let mut names = self.lock();
            let hashbrown::hash_map::EntryRef::Occupied(mut entry) = names.entry_ref(name) else {
                return;
            };
            let taken = entry.get_mut();
            let next = taken.queue.as_mut().and_then(|queue| queue.pop_front());
            if taken.queue.as_ref().is_some_and(|queue| queue.is_empty()) {
                taken.queue = None;
            }
            taken.reentry = None;
            let Some(next) = next else {
                if pending.is_none() {
                    entry.remove();
                    return;
                }
                drop(names);
                break;
            };
            if pending.as_ref().is_some_and(|pending| !next.want.takes_over(&pending.claim)) {
                // Somebody else's claim stands in its way: it stays first until that is settled.
                taken.queue.get_or_insert_default().push_front(next);
                drop(names);
                break;
            }
            taken.reentry = next.want.reentry();
            drop(names);
            let turn = Turn {
                shared: Some(Arc::clone(shared)),
                taken: true,
                name: Some(name.clone()),
                pending: pending.take(),
            };
            match next.sender.send(Passed::Turn(turn)) {
                Ok(()) => return,
                Err(Passed::Turn(mut turn)) => {
                    // Gone by now. In a loop and not through its drop: there may be thousands.
                    turn.shared = None;
                    pending = turn.pending.take();
                }
                Err(Passed::Entered(_)) => unreachable!("a turn was sent"),
            }
        }
        if let Some(pending) = pending {
            shared.in_background(Job::settle(pending, true));
        }
    }

    /// Ends all waiting: the client is closing.
    pub(crate) fn turn_away_all(&self) {
        let mut away = Vec::new();
        for taken in self.lock().values_mut() {
            away.extend(taken.queue.take());
        }
        drop(away);
    }
}

impl Want {
    fn reentry(&self) -> Option<Box<Reentry>> {
        self.owner.clone().map(|owner| Box::new(Reentry { owner, mode: self.mode, hold: None }))
    }
}

impl Taken {
    /// A share in the hold, if it is the request's own owner's.
    fn enter_again(&self, want: &Want) -> Result<Option<Entered>> {
        let Some(reentry) = &self.reentry else { return Ok(None) };
        if want.owner.as_ref() != Some(&reentry.owner) {
            return Ok(None);
        }
        if reentry.mode != want.mode {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "this owner holds it or waits for it as {}, and a hold can't be changed to {}; \
                     release it first",
                    reentry.mode, want.mode
                ),
            ));
        }
        let Some(hold) = &reentry.hold else { return Ok(None) };
        if !hold.state().is_live() {
            return Ok(None);
        }
        hold.guards.fetch_add(1, Ordering::AcqRel);
        hold.shared.metrics.reentered.add(1);
        Ok(Some(Entered(Some(Arc::clone(hold)))))
    }
}
