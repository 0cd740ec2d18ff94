//! A model of tickets. Anna turns her hold into a ticket. Ben and Cleo both receive the ticket, and
//! try to take over the hold. Dora requests the lock.

use std::fmt::Write;

use lockwright_verification::{Protocol, Step};

use crate::wire::Wire;
use crate::{Model, happens, holds, refuted};

const TTL: u8 = 2;

const END: u8 = 4;

const NAMES: [&str; 4] = ["Anna", "Ben", "Cleo", "Dora"];
const ANNA: u8 = 0;
const DORA: u8 = 3;

const NOBODY: u8 = 9;

/// The rules that the model lacks. Each missing rule breaks a promise.
#[derive(Clone, Copy, Default)]
struct Missing {
    /// The maker of a ticket no longer considers its hold valid.
    a_ticket_ends_the_hold: bool,
    /// The server transfers only the hold with the ticket's token.
    compares_the_token: bool,
    /// The client that takes over a hold uses a new token.
    a_token_of_its_own: bool,
    /// A deadline counts from the sending of the request. Without this rule, it counts from the
    /// answer.
    anchored_at_the_send: bool,
    /// A replaced token is never granted again.
    leaves_a_tombstone: bool,
    a_fence_of_its_own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    OneClientHolds,
    ATicketIsTakenOverOnce,
    ALaterHoldHasALargerFence,
    AnEndedTokenIsNotGranted,
    // Events that must be possible, not promises.
    TheHoldMoved,
    DoraHadItAfterwards,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Acquire,
    Swap,
    Renew,
    Release,
    Granted { fence: u8 },
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Message {
    who: u8,
    kind: Kind,
    sent: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Asking(u8),
    /// The client holds the lock until this deadline.
    Holding(u8),
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    /// The client whose token is on the server. Its hold ends at `expires`.
    holder: u8,
    expires: u8,
    fence: u8,
    /// The tokens with a tombstone, one bit each.
    tombstones: u8,
    /// The tokens that must not be granted again, one bit each.
    ended: u8,
    ticket: bool,
    took_over: u8,
    /// The largest fence of a hold that a client considered valid.
    highest: u8,
    phases: [Phase; 4],
    wire: Wire<Message>,
}

impl State {
    fn holds(&self, who: u8) -> bool {
        matches!(self.phases[who as usize], Phase::Holding(deadline) if self.now < deadline)
    }

    fn send(&mut self, who: u8, kind: Kind) {
        self.wire.send(Message { who, kind, sent: self.now });
    }
}

#[derive(Clone, Copy)]
enum Action {
    Tick,
    MakeTicket,
    Send(u8, Kind),
    Handle(Message),
    Hear(Message),
    Lose(Message),
}

#[derive(Default)]
struct Tickets {
    without: Missing,
    /// True to look for events instead of broken promises.
    events: bool,
}

impl Tickets {
    fn lacking(mut self, rule: fn(&mut Missing)) -> Self {
        rule(&mut self.without);
        self
    }

    /// Returns the number of the token that `who` sends.
    fn token(&self, who: u8) -> u8 {
        let takes_over = who != ANNA && who != DORA;
        if takes_over && self.without.a_token_of_its_own { ANNA } else { who }
    }

    fn handle(&self, state: &mut State, message: Message) {
        let Message { who, kind, sent } = message;
        state.wire.take(message);
        let token = self.token(who);
        let is_held = state.holder != NOBODY && state.now < state.expires;
        let is_its_own = is_held && state.holder == token;
        let is_ended = state.tombstones & (1 << token) != 0;
        let granted = match kind {
            Kind::Renew => is_its_own,
            Kind::Release => {
                state.tombstones |= 1 << token;
                state.ended |= 1 << token;
                if is_its_own {
                    state.holder = NOBODY;
                }
                return;
            }
            _ if is_ended => false,
            _ if is_its_own => true,
            Kind::Acquire if !is_held => {
                state.holder = token;
                state.fence += 1;
                true
            }
            Kind::Swap if is_held && (state.holder == ANNA || self.without.compares_the_token) => {
                state.ended |= 1 << state.holder;
                if !self.without.leaves_a_tombstone {
                    state.tombstones |= 1 << state.holder;
                }
                state.holder = token;
                state.fence += u8::from(!self.without.a_fence_of_its_own);
                true
            }
            _ => false,
        };
        if granted {
            state.expires = state.now + TTL;
        }
        let kind = if granted { Kind::Granted { fence: state.fence } } else { Kind::Refused };
        state.wire.send(Message { who, kind, sent });
    }

    fn hear(&self, state: &mut State, message: Message) -> Option<Promise> {
        state.wire.take(message);
        let who = message.who;
        let phase = &mut state.phases[who as usize];
        let Kind::Granted { fence } = message.kind else {
            if let Phase::Asking(_) = *phase {
                *phase = Phase::Done;
            }
            return None;
        };
        let from = if self.without.anchored_at_the_send { state.now } else { message.sent };
        let deadline = from + TTL;
        match *phase {
            Phase::Holding(before) => *phase = Phase::Holding(deadline.max(before)),
            Phase::Asking(_) if state.now < deadline => {
                *phase = Phase::Holding(deadline);
                let is_larger = fence > state.highest;
                state.highest = state.highest.max(fence);
                if who != DORA {
                    let is_second = state.took_over != 0;
                    state.took_over |= 1 << who;
                    if is_second {
                        return Some(Promise::ATicketIsTakenOverOnce);
                    }
                }
                if !is_larger {
                    return Some(Promise::ALaterHoldHasALargerFence);
                }
                if self.events {
                    let moved = state.took_over != 0;
                    return match who {
                        DORA => moved.then_some(Promise::DoraHadItAfterwards),
                        _ => Some(Promise::TheHoldMoved),
                    };
                }
            }
            _ => {}
        }
        None
    }

    fn sends(&self, state: &State, who: u8) -> Option<(Kind, Phase)> {
        let is_under_way =
            |kind: Kind| state.wire.messages().any(|it| (it.who, it.kind) == (who, kind));
        let request = if who == DORA { Kind::Acquire } else { Kind::Swap };
        match state.phases[who as usize] {
            Phase::Idle if who == DORA || state.ticket => Some((request, Phase::Asking(state.now))),
            // Without an answer, the client repeats its request until one TTL has passed.
            Phase::Asking(since)
                if since < state.now && state.now < since + TTL && !is_under_way(request) =>
            {
                Some((request, Phase::Asking(since)))
            }
            Phase::Holding(deadline) if who == ANNA && !state.ticket => {
                (!is_under_way(Kind::Renew)).then_some((Kind::Renew, Phase::Holding(deadline)))
            }
            _ => None,
        }
    }

    /// Returns whether the client may release its hold or give up.
    fn ends(&self, state: &State, who: u8) -> bool {
        who != ANNA && matches!(state.phases[who as usize], Phase::Asking(_) | Phase::Holding(_))
    }
}

impl Protocol for Tickets {
    type State = State;
    type Action = Action;
    type Promise = Promise;

    /// Returns the state after Anna's grant, with a repeat of her request in flight.
    fn initial(&self) -> State {
        let mut state = State {
            now: 0,
            holder: ANNA,
            expires: TTL,
            fence: 1,
            tombstones: 0,
            ended: 0,
            ticket: false,
            took_over: 0,
            highest: 1,
            phases: [Phase::Holding(TTL), Phase::Idle, Phase::Idle, Phase::Idle],
            wire: Wire::EMPTY,
        };
        state.send(ANNA, Kind::Acquire);
        state
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step<Self>>) {
        let mut step = |action, next, broken| steps.push(Step { action, next, broken });
        if state.now < END {
            let mut next = *state;
            next.now += 1;
            for phase in &mut next.phases {
                if matches!(*phase, Phase::Holding(deadline) if next.now >= deadline) {
                    *phase = Phase::Done;
                }
            }
            step(Action::Tick, next, None);
        }
        if !state.ticket && state.holds(ANNA) {
            let mut next = *state;
            next.ticket = true;
            if !self.without.a_ticket_ends_the_hold {
                next.phases[ANNA as usize] = Phase::Done;
            }
            step(Action::MakeTicket, next, None);
        }
        for who in 0..NAMES.len() as u8 {
            if !state.wire.has_room() {
                break;
            }
            if let Some((kind, phase)) = self.sends(state, who) {
                let mut next = *state;
                next.phases[who as usize] = phase;
                next.send(who, kind);
                step(Action::Send(who, kind), next, None);
            }
            if self.ends(state, who) {
                let mut next = *state;
                next.phases[who as usize] = Phase::Done;
                next.send(who, Kind::Release);
                step(Action::Send(who, Kind::Release), next, None);
            }
        }
        for message in state.wire.messages() {
            let mut next = *state;
            if matches!(message.kind, Kind::Granted { .. } | Kind::Refused) {
                let broken = self.hear(&mut next, message);
                step(Action::Hear(message), next, broken);
            } else {
                self.handle(&mut next, message);
                step(Action::Handle(message), next, None);
            }
            let mut next = *state;
            next.wire.take(message);
            step(Action::Lose(message), next, None);
        }
    }

    fn judge(&self, state: &State, _: bool) -> Option<Promise> {
        if self.events {
            return None;
        }
        let holding = (0..NAMES.len() as u8).filter(|who| state.holds(*who)).count();
        if holding > 1 {
            return Some(Promise::OneClientHolds);
        }
        let is_held = state.holder != NOBODY && state.now < state.expires;
        let has_ended = is_held && state.ended & (1 << state.holder) != 0;
        has_ended.then_some(Promise::AnEndedTokenIsNotGranted)
    }

    /// Removes answers for which no client waits.
    fn canonical(&self, state: &State) -> State {
        let mut state = *state;
        let phases = state.phases;
        state.wire.retain(|message| {
            let is_answer = matches!(message.kind, Kind::Granted { .. } | Kind::Refused);
            !is_answer || phases[message.who as usize] != Phase::Done
        });
        state
    }

    fn tell(&self, before: &State, step: &Step<Self>, text: &mut String) {
        let name = |who: u8| NAMES[who as usize];
        let told = match step.action {
            Action::Tick => write!(text, "it is {} o'clock", step.next.now),
            Action::MakeTicket => write!(text, "Anna makes a ticket of her hold"),
            Action::Send(who, kind) => write!(text, "{} sends {}", name(who), request(kind)),
            Action::Handle(message) => {
                let what = match (before.holder == step.next.holder, step.next.holder) {
                    (true, _) => "and the holder stays the same".to_owned(),
                    (false, NOBODY) => "which frees the lock".to_owned(),
                    (false, who) => format!("and {}'s token holds", name(who)),
                };
                let kind = request(message.kind);
                write!(text, "the server gets {}'s {kind}, {what}", name(message.who))
            }
            Action::Hear(message) => match step.next.phases[message.who as usize] {
                Phase::Holding(deadline) => {
                    write!(
                        text,
                        "{} receives the message, and holds until {deadline}",
                        name(message.who)
                    )
                }
                _ => write!(text, "{} receives an answer without effect", name(message.who)),
            },
            Action::Lose(message) => write!(text, "a message of {}'s is lost", name(message.who)),
        };
        told.expect("writing to a String succeeds");
    }
}

impl Model for Tickets {}

fn request(kind: Kind) -> &'static str {
    match kind {
        Kind::Acquire => "acquire",
        Kind::Swap => "resume",
        Kind::Renew => "renewal",
        Kind::Release => "release",
        Kind::Granted { .. } | Kind::Refused => "answer",
    }
}

#[test]
fn with_all_rules_it_holds() {
    holds("a ticket", &Tickets::default());
}

#[test]
fn a_hold_moves_and_the_next_one_gets_it() {
    let watched = Tickets { events: true, ..Tickets::default() };
    happens("the hold moves", &watched, Promise::TheHoldMoved);
    happens("Dora has it afterwards", &watched, Promise::DoraHadItAfterwards);
}

refuted! {
    a_hold_that_a_ticket_does_not_end: "A client that makes a ticket keeps its hold",
        &Tickets::default().lacking(|rules| rules.a_ticket_ends_the_hold = true),
        Promise::OneClientHolds;
    a_swap_that_does_not_compare_the_token: "A ticket takes over any hold",
        &Tickets::default().lacking(|rules| rules.compares_the_token = true),
        Promise::OneClientHolds;
    a_ticket_resumed_with_its_own_token: "A client that takes over keeps the ticket's token",
        &Tickets::default().lacking(|rules| rules.a_token_of_its_own = true),
        Promise::ATicketIsTakenOverOnce;
    a_deadline_anchored_at_the_answer: "The deadline starts at the answer",
        &Tickets::default().lacking(|rules| rules.anchored_at_the_send = true),
        Promise::OneClientHolds;
    no_tombstone: "The ticket's token leaves no tombstone",
        &Tickets::default().lacking(|rules| rules.leaves_a_tombstone = true),
        Promise::AnEndedTokenIsNotGranted;
    the_same_fence: "A client that takes over keeps the fence",
        &Tickets::default().lacking(|rules| rules.a_fence_of_its_own = true),
        Promise::ALaterHoldHasALargerFence;
}
