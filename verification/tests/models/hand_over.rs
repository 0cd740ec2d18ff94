//! A model of the hand-over on Redis. A release *offers* the lock to the first waiter for a short
//! time, and notifies that waiter, which then considers the lock held. Anna holds the lock. Ben and
//! Cleo wait, and one of them may stop for good.
//!
//! Each process has its own clock: during one tick of the server's clock, a client's clock ticks
//! zero, one or two times.

use std::fmt::Write;

use lockwright_verification::{Protocol, Step};

use crate::wire::Wire;
use crate::{Model, explored, happens, holds, refuted};

const TTL: i8 = 3;

/// The TTL of an unconfirmed offer.
const OFFER: i8 = 2;

/// The ticks that clients deduct from a hold's validity for clock drift.
const ALLOWANCE: i8 = 1;

const NAMES: [&str; 3] = ["Anna", "Ben", "Cleo"];
const ALL: [u8; 3] = [0, 1, 2];

const NOBODY: u8 = 9;

/// The rules that the model lacks. Each missing rule breaks a promise.
#[derive(Clone, Copy, Default)]
struct Missing {
    /// An offered hold begins at the offer's receipt, or at the claim's sending plus the time in
    /// the queue that the server measured, if that is earlier. Without this rule, the hold always
    /// begins at the receipt.
    begins_by_the_servers_clock: bool,
    /// The times of sending and of queueing come from the same request.
    one_request_for_both: bool,
    /// A client considers an unconfirmed offer valid for `OFFER`, and without this rule for a TTL.
    uses_an_offer_briefly: bool,
    /// If an offer may have expired, its client requests the lock again, and gets the offer's
    /// fence. Without this rule, the client renews the offer.
    asks_again: bool,
    offers_briefly: bool,
    /// No new client is granted the lock while other clients wait.
    no_newcomer_overtakes: bool,
    leaves_the_queue: bool,
    a_fence_of_its_own: bool,
    allows_for_drift: bool,
}

/// The faults of the clocks. The promises are kept only if `drift` doesn't exceed `ALLOWANCE`.
#[derive(Clone, Copy)]
struct Clocks {
    /// The most ticks that a client's clock may be behind the server's.
    drift: i8,
    /// The ticks by which the server's clock steps ahead, once.
    step: i8,
    end: i8,
}

const DRIFTING: Clocks = Clocks { drift: ALLOWANCE, step: 0, end: 4 };

/// Clocks without drift, so that a model has fewer states.
const ONE_CLOCK: Clocks = Clocks { drift: 0, step: 0, end: 5 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    OneClientHolds,
    ALaterHoldHasALargerFence,
    FirstComeFirstServed,
    AStoppedClientDelaysOthersBriefly,
    NoClientWaitsAndHolds,
    // Events that must be possible, not promises.
    WasHandedOver,
    WasTooOldToUse,
    CameAfterAStoppedClient,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    // A request for the lock. A waiter repeats it as a poll.
    Ask,
    Renew,
    Release,
    // An answer: the claim was queued. `time` is the server's time of the queueing.
    Queued { time: i8 },
    Granted { fence: u8 },
    Renewed,
    Gone,
    // A notification: the server offered the lock at `time`.
    Offer { fence: u8, time: i8 },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Message {
    who: u8,
    kind: Kind,
    sent: i8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    // `asked` is true if the client has sent a request since the last tick of its clock. `queued`
    // is the client's time of sending the claim, minus the server's time of queueing it.
    Waiting { asked: bool, queued: Option<i8> },
    // The client renews an offer that was too old to use. `fence` is the offer's fence.
    Confirming { fence: u8 },
    Holding { until: i8 },
    Done,
    Stopped,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    now: i8,
    /// The ticks by which each client's clock is behind the server's.
    behind: [i8; 3],
    has_stepped: bool,
    holder: u8,
    expires: i8,
    is_offer: bool,
    fence: u8,
    queue: [u8; 2],
    /// The server's time when each client was first queued.
    since: [i8; 3],
    highest: u8,
    phases: [Phase; 3],
    wire: Wire<Message>,
}

impl State {
    fn is_held(&self) -> bool {
        self.holder != NOBODY && self.now < self.expires
    }

    fn clock(&self, who: u8) -> i8 {
        self.now - self.behind[who as usize]
    }

    /// Returns whether the client's clock can affect a later step.
    fn has_clock(&self, who: u8) -> bool {
        !matches!(self.phase(who), Phase::Idle | Phase::Done | Phase::Stopped)
    }

    fn phase(&self, who: u8) -> Phase {
        self.phases[who as usize]
    }

    fn waits(&self, who: u8) -> bool {
        self.queue.contains(&who)
    }

    fn leave(&mut self, who: u8) {
        let [first, second] = self.queue;
        if first == who {
            self.queue = [second, NOBODY];
        } else if second == who {
            self.queue[1] = NOBODY;
        }
    }

    fn join(&mut self, who: u8) {
        if !self.waits(who) {
            let free = usize::from(self.queue[0] != NOBODY);
            self.queue[free] = who;
            self.since[who as usize] = self.now;
        }
    }
}

#[derive(Clone, Copy)]
enum Action {
    Tick,
    Step,
    Stop(u8),
    Send(u8, Kind),
    Handle(Message),
    Hear(Message),
}

struct HandOver {
    without: Missing,
    clocks: Clocks,
    events: bool,
}

impl HandOver {
    fn on(clocks: Clocks) -> Self {
        Self { without: Missing::default(), clocks, events: false }
    }

    fn lacking(mut self, rule: fn(&mut Missing)) -> Self {
        rule(&mut self.without);
        self
    }

    /// Returns how long a client relies on a hold that lasts `life` on the server.
    fn validity(&self, life: i8) -> i8 {
        if self.without.allows_for_drift { life } else { life - ALLOWANCE }
    }

    fn advance(&self, state: &mut State) {
        let first = state.queue[0];
        if state.is_held() || first == NOBODY {
            return;
        }
        if !self.without.leaves_the_queue {
            state.leave(first);
        }
        state.holder = first;
        state.is_offer = true;
        state.expires = state.now + if self.without.offers_briefly { TTL } else { OFFER };
        state.fence += u8::from(!self.without.a_fence_of_its_own);
        let kind = Kind::Offer { fence: state.fence, time: state.now };
        // Without room on the wire, the notification is lost.
        if state.wire.has_room() {
            state.wire.send(Message { who: first, kind, sent: state.now });
        }
    }

    fn grant(&self, state: &mut State, who: u8) -> (Kind, Option<Promise>) {
        let overtakes = state.queue[0] != NOBODY && state.queue[0] != who;
        state.leave(who);
        state.holder = who;
        state.is_offer = false;
        state.expires = state.now + TTL;
        state.fence += 1;
        let broken = overtakes.then_some(Promise::FirstComeFirstServed);
        (Kind::Granted { fence: state.fence }, broken)
    }

    fn handle(&self, state: &mut State, message: Message) -> Option<Promise> {
        let Message { who, kind, sent } = message;
        state.wire.take(message);
        let has_it = state.is_held() && state.holder == who;
        let (answer, broken) = match kind {
            Kind::Release => {
                state.leave(who);
                if has_it {
                    state.holder = NOBODY;
                }
                self.advance(state);
                return None;
            }
            Kind::Renew => {
                if has_it {
                    state.holder = who;
                    state.is_offer = false;
                    state.expires = state.now + TTL;
                    (Kind::Renewed, None)
                } else {
                    (Kind::Gone, None)
                }
            }
            _ if has_it => {
                state.is_offer = false;
                state.expires = state.now + TTL;
                (Kind::Granted { fence: state.fence }, None)
            }
            _ if !state.is_held() && self.without.no_newcomer_overtakes => self.grant(state, who),
            _ => {
                if !state.is_held() && [NOBODY, who].contains(&state.queue[0]) {
                    self.grant(state, who)
                } else {
                    self.advance(state);
                    state.join(who);
                    let time = if self.without.one_request_for_both {
                        state.since[who as usize]
                    } else {
                        state.now
                    };
                    (Kind::Queued { time }, None)
                }
            }
        };
        if state.wire.has_room() {
            state.wire.send(Message { who, kind: answer, sent });
        }
        broken
    }

    fn begin_hold(&self, state: &mut State, who: u8, until: i8, fence: u8) -> Option<Promise> {
        state.phases[who as usize] = Phase::Holding { until };
        let is_larger = fence > state.highest;
        state.highest = state.highest.max(fence);
        (!is_larger).then_some(Promise::ALaterHoldHasALargerFence)
    }

    fn hear(&self, state: &mut State, message: Message) -> Option<Promise> {
        state.wire.take(message);
        let Message { who, kind, sent } = message;
        let until = sent + self.validity(TTL);
        let in_time = state.clock(who) < until;
        match (state.phase(who), kind) {
            (Phase::Waiting { asked, .. }, Kind::Queued { time }) => {
                let queued = Some(sent - time);
                state.phases[who as usize] = Phase::Waiting { asked, queued };
                None
            }
            (Phase::Waiting { .. }, Kind::Granted { fence }) if in_time => {
                self.begin_hold(state, who, until, fence)
            }
            (Phase::Waiting { queued, .. }, Kind::Offer { fence, time }) => {
                self.hear_of_offer(state, who, fence, queued.map(|ahead| time + ahead))
            }
            (Phase::Confirming { fence }, Kind::Renewed) if in_time => {
                self.begin_hold(state, who, until, fence)
            }
            (Phase::Holding { until: present }, Kind::Renewed) => {
                let until = until.max(present);
                state.phases[who as usize] = Phase::Holding { until };
                None
            }
            (Phase::Confirming { .. } | Phase::Holding { .. }, Kind::Gone) => {
                state.phases[who as usize] = Phase::Done;
                None
            }
            _ => None,
        }
    }

    /// Processes an offer. `began` is the time of the offer on the client's clock, if known.
    fn hear_of_offer(
        &self,
        state: &mut State,
        who: u8,
        fence: u8,
        began: Option<i8>,
    ) -> Option<Promise> {
        let clock = state.clock(who);
        let began = if self.without.begins_by_the_servers_clock { Some(clock) } else { began };
        let life = if self.without.uses_an_offer_briefly { TTL } else { OFFER };
        let until = began.map(|began| began.min(clock) + self.validity(life));
        if let Some(until) = until.filter(|until| clock < *until) {
            let broken = self.begin_hold(state, who, until, fence);
            let stopped = state.phases.contains(&Phase::Stopped);
            return match (self.events, stopped) {
                (true, true) => Some(Promise::CameAfterAStoppedClient),
                (true, false) => Some(Promise::WasHandedOver),
                (false, _) => broken,
            };
        }
        if self.without.asks_again {
            state.phases[who as usize] = Phase::Confirming { fence };
        }
        self.events.then_some(Promise::WasTooOldToUse)
    }

    /// Returns whether the arrival of `message` can change the state.
    fn matters(&self, state: &State, message: Message) -> bool {
        let Message { who, kind, sent } = message;
        let in_time = state.clock(who) < sent + self.validity(TTL);
        match (state.phase(who), kind) {
            (_, Kind::Ask | Kind::Renew | Kind::Release) => true,
            (Phase::Waiting { .. }, Kind::Granted { .. }) => in_time,
            (Phase::Waiting { .. }, Kind::Queued { .. } | Kind::Offer { .. }) => true,
            (Phase::Confirming { .. }, Kind::Renewed) => in_time,
            (Phase::Holding { until }, Kind::Renewed) => until < sent + self.validity(TTL),
            (Phase::Confirming { .. } | Phase::Holding { .. }, Kind::Gone) => true,
            _ => false,
        }
    }

    fn sends(&self, state: &State, who: u8) -> impl Iterator<Item = (Kind, Phase)> {
        let is_under_way =
            |kind: Kind| state.wire.messages().any(|it| (it.who, it.kind) == (who, kind));
        let phase = state.phase(who);
        let first = match phase {
            Phase::Idle => Some((Kind::Ask, Phase::Waiting { asked: true, queued: None })),
            Phase::Waiting { asked: false, queued } if !is_under_way(Kind::Ask) => {
                Some((Kind::Ask, Phase::Waiting { asked: true, queued }))
            }
            Phase::Confirming { .. } | Phase::Holding { .. } if !is_under_way(Kind::Renew) => {
                Some((Kind::Renew, phase))
            }
            _ => None,
        };
        let ends = matches!(phase, Phase::Waiting { .. } | Phase::Holding { .. });
        first.into_iter().chain(ends.then_some((Kind::Release, Phase::Done)))
    }

    /// Advances the server's clock by one tick, with every possible change of the clients' clocks.
    fn ticks(&self, state: &State, mut step: impl FnMut(State)) {
        let choices = self.clocks.drift + 1;
        for choice in 0..choices.pow(3) {
            let behind = [choice % choices, choice / choices % choices, choice / choices / choices];
            let is_possible = |who: u8| {
                let (new, old) = (behind[who as usize], state.behind[who as usize]);
                if state.has_clock(who) { new <= old + 1 } else { new == 0 }
            };
            if ALL.into_iter().all(is_possible) {
                step(later(state, 1, behind));
            }
        }
    }
}

/// Returns the state `time` later, with the new [`State::behind`].
fn later(state: &State, time: i8, behind: [i8; 3]) -> State {
    let mut next = *state;
    next.now += time;
    next.behind = behind;
    for who in ALL {
        if next.clock(who) == state.clock(who) {
            continue;
        }
        let phase = &mut next.phases[who as usize];
        match *phase {
            Phase::Holding { until } if next.now - behind[who as usize] >= until => {
                *phase = Phase::Done;
            }
            Phase::Waiting { queued, .. } => *phase = Phase::Waiting { asked: false, queued },
            _ => {}
        }
    }
    next
}

impl Protocol for HandOver {
    type State = State;
    type Action = Action;
    type Promise = Promise;

    fn initial(&self) -> State {
        State {
            now: 0,
            behind: [0; 3],
            has_stepped: false,
            holder: 0,
            expires: TTL,
            is_offer: false,
            fence: 1,
            queue: [NOBODY; 2],
            since: [0; 3],
            highest: 1,
            phases: [Phase::Holding { until: self.validity(TTL) }, Phase::Idle, Phase::Idle],
            wire: Wire::EMPTY,
        }
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step<Self>>) {
        // For a trace, `explore` calls `steps` with states that aren't canonical.
        let state = &self.canonical(state);
        let mut step = |action, next, broken| steps.push(Step { action, next, broken });
        if state.now < self.clocks.end {
            self.ticks(state, |next| step(Action::Tick, next, None));
        }
        if self.clocks.step > 0 && !state.has_stepped && state.now < self.clocks.end {
            let behind = ALL.map(|who| {
                state.behind[who as usize] + i8::from(state.has_clock(who)) * self.clocks.step
            });
            let mut next = later(state, self.clocks.step, behind);
            next.has_stepped = true;
            step(Action::Step, next, None);
        }
        for who in ALL {
            // At most one client stops, because a second stop shows nothing new.
            let nobody_stopped = !state.phases.contains(&Phase::Stopped);
            if nobody_stopped && matches!(state.phase(who), Phase::Waiting { .. }) {
                let mut next = *state;
                next.phases[who as usize] = Phase::Stopped;
                step(Action::Stop(who), next, None);
            }
            if !state.wire.has_room() {
                continue;
            }
            for (kind, phase) in self.sends(state, who) {
                let mut next = *state;
                next.phases[who as usize] = phase;
                next.wire.send(Message { who, kind, sent: state.clock(who) });
                step(Action::Send(who, kind), next, None);
            }
        }
        for message in state.wire.messages() {
            let mut next = *state;
            if matches!(message.kind, Kind::Ask | Kind::Renew | Kind::Release) {
                let broken = self.handle(&mut next, message);
                step(Action::Handle(message), next, broken.filter(|_| !self.events));
            } else {
                let broken = self.hear(&mut next, message);
                step(Action::Hear(message), next, broken);
            }
        }
    }

    fn judge(&self, state: &State, _: bool) -> Option<Promise> {
        if self.events {
            return None;
        }
        let holds_now = |who: &u8| matches!(state.phase(*who), Phase::Holding { .. });
        if ALL.iter().filter(|who| holds_now(who)).count() > 1 {
            return Some(Promise::OneClientHolds);
        }
        if !state.is_held() {
            return None;
        }
        if state.waits(state.holder) {
            return Some(Promise::NoClientWaitsAndHolds);
        }
        let stopped = state.is_offer && state.phase(state.holder) == Phase::Stopped;
        let too_long = stopped && state.expires > state.now + OFFER;
        too_long.then_some(Promise::AStoppedClientDelaysOthersBriefly)
    }

    /// Removes messages and times that can't affect later steps.
    fn canonical(&self, state: &State) -> State {
        let mut state = *state;
        let before = state;
        state.wire.retain(|message| self.matters(&before, message));
        for who in ALL {
            if !state.waits(who) || !self.without.one_request_for_both {
                state.since[who as usize] = 0;
            }
            if !state.has_clock(who) {
                state.behind[who as usize] = 0;
            }
        }
        if !state.is_held() {
            (state.holder, state.expires, state.is_offer) = (NOBODY, 0, false);
        }
        state
    }

    fn tell(&self, before: &State, step: &Step<Self>, text: &mut String) {
        let name = |who: u8| NAMES[who as usize];
        let request = |kind: Kind| match kind {
            Kind::Ask => "acquire",
            Kind::Renew => "renewal",
            _ => "release",
        };
        let told = match step.action {
            Action::Tick => tell_clocks(&step.next, "it is", text),
            Action::Step => tell_clocks(&step.next, "the server's clock steps ahead: it is", text),
            Action::Stop(who) => write!(text, "{} stops for good", name(who)),
            Action::Send(who, kind) => write!(text, "{} sends {}", name(who), request(kind)),
            Action::Handle(message) => {
                let State { holder, is_offer, .. } = step.next;
                let changed = (before.holder, before.is_offer) != (holder, is_offer);
                let what = match holder {
                    _ if !changed && step.next.waits(message.who) => " who waits".to_owned(),
                    _ if !changed => String::new(),
                    NOBODY => ", and the lock is free".to_owned(),
                    who if is_offer => format!(", and offers the lock to {}", name(who)),
                    who => format!(", and {} has the lock", name(who)),
                };
                let kind = request(message.kind);
                write!(text, "the server gets the {kind} of {}{what}", name(message.who))
            }
            Action::Hear(message) => {
                let who = name(message.who);
                match (message.kind, step.next.phase(message.who)) {
                    (_, Phase::Holding { until }) => {
                        write!(text, "{who} receives the message, and holds until {until}")
                    }
                    (Kind::Offer { .. }, _) => {
                        write!(text, "{who} receives an offer that may have expired")
                    }
                    (Kind::Queued { .. }, _) => write!(text, "{who} is notified that it waits"),
                    _ => write!(text, "{who} receives an answer"),
                }
            }
        };
        told.expect("writing to a String succeeds");
    }
}

impl Model for HandOver {}

fn tell_clocks(state: &State, begin: &str, text: &mut String) -> std::fmt::Result {
    write!(text, "{begin} {} o'clock", state.now)?;
    for who in ALL.into_iter().filter(|who| state.behind[*who as usize] != 0) {
        write!(text, ", {} for {}", state.clock(who), NAMES[who as usize])?;
    }
    Ok(())
}

#[test]
fn with_all_rules_it_holds() {
    holds("a hand-over", &HandOver::on(DRIFTING));
}

#[test]
fn a_lock_is_handed_over() {
    let watched = HandOver { events: true, ..HandOver::on(ONE_CLOCK) };
    happens("a lock is handed over", &watched, Promise::WasHandedOver);
    happens("an offer is too old", &watched, Promise::WasTooOldToUse);
    happens(
        "the next client is granted after a stopped one",
        &watched,
        Promise::CameAfterAStoppedClient,
    );
}

#[test]
fn only_clocks_that_drift_show_a_missing_allowance() {
    let model = HandOver::on(Clocks { end: DRIFTING.end, ..ONE_CLOCK });
    let model = model.lacking(|rules| rules.allows_for_drift = true);
    explored("a hand-over on one clock", &model);
}

refuted! {
    a_start_at_the_receipt: "A handed-over hold starts at the notification",
        &HandOver::on(ONE_CLOCK).lacking(|rules| rules.begins_by_the_servers_clock = true),
        Promise::OneClientHolds;
    two_requests_for_one_reckoning:
        "The deadline combines the last request with the first queueing time",
        &HandOver::on(ONE_CLOCK).lacking(|rules| rules.one_request_for_both = true),
        Promise::OneClientHolds;
    an_offer_used_for_a_ttl: "An offer is used for a TTL",
        &HandOver::on(DRIFTING).lacking(|rules| rules.uses_an_offer_briefly = true),
        Promise::OneClientHolds;
    an_offer_that_may_be_over_and_is_renewed: "An offer that may have expired is renewed",
        &HandOver::on(ONE_CLOCK).lacking(|rules| rules.asks_again = true),
        Promise::ALaterHoldHasALargerFence;
    an_offer_with_the_full_ttl: "An offer lasts for a TTL",
        &HandOver::on(ONE_CLOCK).lacking(|rules| rules.offers_briefly = true),
        Promise::AStoppedClientDelaysOthersBriefly;
    a_newcomer_that_overtakes: "A client that finds the lock free is granted",
        &HandOver::on(ONE_CLOCK).lacking(|rules| rules.no_newcomer_overtakes = true),
        Promise::FirstComeFirstServed;
    waiter_continues_after_an_offer: "A client that is offered the lock stays in the queue",
        &HandOver::on(ONE_CLOCK).lacking(|rules| rules.leaves_the_queue = true),
        Promise::NoClientWaitsAndHolds;
    an_offer_without_a_fence_of_its_own: "An offer has the previous hold's fence",
        &HandOver::on(ONE_CLOCK).lacking(|rules| rules.a_fence_of_its_own = true),
        Promise::ALaterHoldHasALargerFence;
    a_deadline_without_the_allowance_for_drift: "A deadline makes no allowance for drift",
        &HandOver::on(DRIFTING).lacking(|rules| rules.allows_for_drift = true),
        Promise::OneClientHolds;
    clocks_that_drift_by_more_than_the_allowance: "Clocks drift by more than the allowance",
        &HandOver::on(Clocks { drift: ALLOWANCE + 1, ..DRIFTING }), Promise::OneClientHolds;
    a_server_whose_clock_steps_ahead: "The server's clock steps ahead",
        &HandOver::on(Clocks { step: ALLOWANCE + 1, ..DRIFTING }), Promise::OneClientHolds;
}
