use lockwright_verification::{Protocol, Step};

use super::rules::{Bounds, Missing, Promise};
use super::state::{MOST_ROUNDS, Mail, Node, Phase, Rounds, State};
use super::story;
use crate::Model;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Ask(usize),
    Renew(usize),
    Vote(usize, usize),
    Refuse(usize, usize),
    /// Like `Vote`, but the request arrives again later.
    Duplicate(usize, usize),
    Choose(usize),
    Raise(usize, usize),
    Hold(usize),
    GiveUp(usize),
    Overdue(usize),
    Free(usize),
    Release(usize, usize),
    Lose(usize),
    Admit(usize),
    Jump(usize),
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Redlock<const N: usize> {
    pub(crate) without: Missing,
    pub(crate) bounds: Bounds,
}

pub(crate) type Steps<const N: usize> = Vec<Step<Redlock<N>>>;

impl<const N: usize> Protocol for Redlock<N> {
    type State = State<N>;
    type Action = Action;
    type Promise = Promise;

    fn initial(&self) -> State<N> {
        assert!(self.bounds.rounds <= MOST_ROUNDS);
        let rounds = Rounds::new(self.bounds.losses, self.bounds.jumps, self.bounds.duplicates);
        State { nodes: [Node::EMPTY; N], rounds }
    }

    fn steps(&self, state: &State<N>, steps: &mut Steps<N>) {
        let rounds = state.rounds;
        for round in 0..self.bounds.rounds {
            match rounds.phase(round) {
                Phase::Unstarted => {
                    self.begin(state, round, steps);
                    // Rounds start in the order of their numbers, so no later round can start.
                    break;
                }
                Phase::Asking if rounds.is_renewal(round) => self.renewed(state, round, steps),
                Phase::Asking => self.choose(state, round, steps),
                Phase::Noting => self.begin_hold(state, round, steps),
                Phase::Holding | Phase::Failed | Phase::Ended => {}
            }
            if rounds.is_live(round) {
                self.end(state, round, steps);
            }
            for (at, node) in state.nodes.iter().enumerate() {
                if node.has(round, Mail::Asked) {
                    self.vote(state, at, round, steps);
                }
                if node.has(round, Mail::Raising) {
                    self.raise(state, at, round, steps);
                }
                if node.has(round, Mail::Releasing) {
                    self.release(state, at, round, steps);
                }
            }
        }
        for at in 0..N {
            self.of_itself(state, at, steps);
        }
    }

    fn judge(&self, state: &State<N>, last: bool) -> Option<Promise> {
        if self.bounds.releases && state.nodes.iter().any(|node| self.is_left(state, *node)) {
            return Some(Promise::NothingIsLeft);
        }
        (last && !self.next_is_granted(state)).then_some(Promise::TheNextIsGranted)
    }

    /// Sorts the nodes, which are interchangeable.
    fn canonical(&self, state: &State<N>) -> State<N> {
        let mut state = *state;
        let mut sorted = 1;
        while sorted < N {
            let mut at = sorted;
            while at > 0 && state.nodes[at - 1].0 < state.nodes[at].0 {
                state.nodes.swap(at - 1, at);
                at -= 1;
            }
            sorted += 1;
        }
        state
    }

    fn tell(&self, before: &State<N>, step: &Step<Self>, text: &mut String) {
        story::tell(before, step.action, &step.next, text);
    }
}

impl<const N: usize> Model for Redlock<N> {
    const PAGE: &'static str = "redlock-model.md";

    fn broken(promise: Promise) -> String {
        let text = match promise {
            Promise::OneHolder => "Two clients hold",
            Promise::FencesDiffer => "Two grants, one fence",
            Promise::FencesGrow => "A later hold, a smaller fence",
            Promise::NothingIsLeft => "An ended token is still held",
            Promise::TheNextIsGranted => "No client can be granted",
        };
        text.to_owned()
    }
}

pub(crate) fn push<const N: usize>(steps: &mut Steps<N>, action: Action, next: State<N>) {
    steps.push(Step { action, next, broken: None });
}

impl<const N: usize> Redlock<N> {
    fn quorum(&self) -> usize {
        if self.without.majority { N / 2 } else { N / 2 + 1 }
    }

    /// Starts a round for a new claim, a repeat, or a renewal.
    fn begin(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        if (0..round).filter(|it| state.rounds.token(*it) == *it).count() < self.bounds.claims {
            self.ask(state, round, round, steps);
        }
        for token in 0..round {
            let is_token = state.rounds.token(token) == token;
            if is_token && self.bounds.repeats && self.all_failed(state.rounds, token, round) {
                self.ask(state, round, token, steps);
            }
            if self.bounds.renewals
                && state.rounds.phase(token) == Phase::Holding
                && !self.is_being_renewed(state.rounds, state.rounds.token(token))
            {
                let mut next = *state;
                next.rounds.set_phase(round, Phase::Asking);
                next.rounds.set_renewal(round, true);
                next.rounds.set_token(round, state.rounds.token(token));
                next.rounds.set_fence(round, state.rounds.fence(token));
                self.send_to_all(&mut next, round);
                push(steps, Action::Renew(round), next);
            }
        }
    }

    fn ask(&self, state: &State<N>, round: usize, token: usize, steps: &mut Steps<N>) {
        let mut begun = *state;
        begun.rounds.set_phase(round, Phase::Asking);
        begun.rounds.set_token(round, token);
        self.send_to_all(&mut begun, round);
        let above = self.certainly_older(state);
        for candidate in above + 1..=self.bounds.candidates.max(above + 1) {
            let mut next = begun;
            next.rounds.set_candidate(round, candidate);
            push(steps, Action::Ask(round), next);
        }
    }

    fn send_to_all(&self, next: &mut State<N>, round: usize) {
        let rounds = next.rounds;
        let token = rounds.token(round);
        for node in &mut next.nodes {
            let knows = !node.waits() || self.without.looks_before_candidate;
            let releasing = node.has(token, Mail::Releasing) && !self.without.release_before_repeat;
            let asked = !self.without.answer_before_repeat
                && (token..round).any(|it| rounds.token(it) == token && node.has(it, Mail::Asked));
            let is_renewal = rounds.is_renewal(round);
            node.set(round, Mail::Asked, knows && (is_renewal || !releasing && !asked));
        }
    }

    /// Returns the highest fence among the granted rounds that a voting node has forgotten. The
    /// node votes again only after the largest TTL, so the fence is older.
    fn certainly_older(&self, state: &State<N>) -> u64 {
        let mut highest = 0;
        if !self.without.clocks_are_near {
            for node in &state.nodes {
                for round in 0..self.bounds.rounds {
                    if !node.waits()
                        && node.forgot() & 1 << round != 0
                        && state.rounds.was_granted(round)
                    {
                        highest = highest.max(state.rounds.fence(round));
                    }
                }
            }
        }
        highest
    }

    fn all_failed(&self, rounds: Rounds, token: usize, before: usize) -> bool {
        (token..before)
            .filter(|round| rounds.token(*round) == token)
            .all(|round| rounds.phase(round) == Phase::Failed)
    }

    fn is_being_renewed(&self, rounds: Rounds, token: usize) -> bool {
        (0..self.bounds.rounds).any(|round| {
            rounds.is_renewal(round)
                && rounds.phase(round) == Phase::Asking
                && rounds.token(round) == token
        })
    }

    /// For each quorum among the present replies, adds a step that chooses the quorum's highest
    /// fence.
    fn choose(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        for (at, node) in state.nodes.iter().enumerate() {
            let fence = node.answer(round);
            let already = (0..at).any(|other| state.nodes[other].answer(round) == fence);
            let considered =
                state.nodes.iter().filter(|node| (1..=fence).contains(&node.answer(round)));
            if fence != 0 && !already && considered.count() >= self.quorum() {
                let mut next = *state;
                next.rounds.set_phase(round, Phase::Noting);
                next.rounds.set_fence(round, fence);
                for node in &mut next.nodes {
                    let answer = node.answer(round);
                    let told = answer != 0 || self.without.writes_to_voters;
                    node.set_answer(round, 0);
                    node.set(round, Mail::Has, answer == fence || self.without.write_back);
                    self.send_raise(node, round, told && answer != fence);
                }
                self.tidy(&mut next, round);
                push(steps, Action::Choose(round), next);
            }
        }
    }

    /// Sends the chosen fence to the node if the node's fence `differs`.
    pub(crate) fn send_raise(&self, node: &mut Node, round: usize, differs: bool) {
        if differs && !self.without.write_back {
            node.set(round, Mail::Raising, true);
        }
    }

    fn begin_hold(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        if state.nodes.iter().filter(|node| node.has(round, Mail::Has)).count() >= self.quorum() {
            self.grant(state, *state, round, steps);
        }
    }

    /// Grants a renewal that a quorum has answered, and requests the other nodes' votes.
    fn renewed(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        if state.nodes.iter().filter(|node| node.answer(round) != 0).count() < self.quorum() {
            return;
        }
        let mut next = *state;
        for node in &mut next.nodes {
            let missing = node.answer(round) == 0;
            node.set(round, Mail::Asked, missing && !node.waits());
            node.set_answer(round, 0);
        }
        for earlier in 0..round {
            if next.rounds.phase(earlier) == Phase::Holding
                && next.rounds.token(earlier) == next.rounds.token(round)
            {
                next.rounds.set_phase(earlier, Phase::Ended);
            }
        }
        self.grant(state, next, round, steps);
    }

    fn grant(&self, state: &State<N>, mut next: State<N>, round: usize, steps: &mut Steps<N>) {
        let rounds = state.rounds;
        let (token, fence) = (rounds.token(round), rounds.fence(round));
        let mut broken = None;
        for other in 0..self.bounds.rounds {
            if rounds.token(other) == token || !rounds.was_granted(other) {
                continue;
            }
            let promise = if rounds.phase(other) == Phase::Holding {
                Promise::OneHolder
            } else if rounds.fence(other) == fence {
                Promise::FencesDiffer
            } else if rounds.fence(other) > fence {
                Promise::FencesGrow
            } else {
                continue;
            };
            broken = Some(promise);
        }
        next.rounds.set_phase(round, Phase::Holding);
        for node in &mut next.nodes {
            node.set(round, Mail::Has, false);
        }
        self.tidy(&mut next, round);
        steps.push(Step { action: Action::Hold(round), next, broken });
    }

    fn end(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        let held = state.rounds.phase(round) == Phase::Holding;
        let mut next = *state;
        self.finish(&mut next, round);
        for later in round + 1..self.bounds.rounds {
            if held
                && state.rounds.is_live(later)
                && state.rounds.token(later) == state.rounds.token(round)
                && !self.without.renewal_ends_with_validity
            {
                self.finish(&mut next, later);
            }
        }
        if self.bounds.releases {
            for node in &mut next.nodes {
                node.set(state.rounds.token(round), Mail::Releasing, true);
            }
        }
        push(steps, Action::GiveUp(round), next);
        // In some mutants, the client ignores its deadline.
        let is_ignored =
            if held { self.without.anchored_at_start } else { self.without.abandons_late };
        if is_ignored && !state.rounds.is_overdue(round) {
            let mut next = *state;
            next.rounds.set_overdue(round, true);
            push(steps, Action::Overdue(round), next);
        }
    }

    fn finish(&self, next: &mut State<N>, round: usize) {
        let held = next.rounds.phase(round) == Phase::Holding;
        next.rounds.set_phase(round, if held { Phase::Ended } else { Phase::Failed });
        for node in &mut next.nodes {
            node.set_answer(round, 0);
            node.set(round, Mail::Has, false);
        }
        self.tidy(next, round);
    }

    /// Clears irrelevant data, so that equivalent states are equal.
    pub(crate) fn tidy(&self, next: &mut State<N>, round: usize) {
        let rounds = next.rounds;
        if !rounds.is_live(round) && !next.nodes.iter().any(|node| node.has(round, Mail::Asked)) {
            next.rounds.set_candidate(round, 0);
        }
        if rounds.phase(round) == Phase::Failed
            && !next.nodes.iter().any(|node| node.has(round, Mail::Raising))
        {
            let tops_up = rounds.is_renewal(round)
                && next.nodes.iter().any(|node| node.has(round, Mail::Asked));
            if !tops_up {
                next.rounds.set_fence(round, 0);
            }
        }
    }

    /// Returns whether a token is left on the node: the token's rounds have all ended, and none of
    /// its requests or releases is in flight to the node.
    fn is_left(&self, state: &State<N>, node: Node) -> bool {
        let Some(token) = node.holder() else { return false };
        let mut of_token =
            (0..self.bounds.rounds).filter(|round| state.rounds.token(*round) == token);
        !node.has(token, Mail::Releasing)
            && of_token.all(|round| !state.rounds.is_live(round) && !node.has(round, Mail::Asked))
    }

    /// Returns whether the next claim would be granted, with a higher fence than all earlier
    /// grants.
    fn next_is_granted(&self, state: &State<N>) -> bool {
        let quiet = state.nodes.iter().all(|node| node.is_free() && !node.waits());
        let over = (0..self.bounds.rounds).all(|round| !state.rounds.is_live(round));
        let granted = (0..self.bounds.rounds).filter(|round| state.rounds.was_granted(*round));
        let highest = granted.map(|round| state.rounds.fence(round)).max().unwrap_or(0);
        let candidate = self.certainly_older(state) + 1;
        let mut counters = state.nodes.map(|node| candidate.max(node.counter() + 1));
        counters.sort_unstable();
        quiet && over && counters[self.quorum() - 1] > highest
    }
}
