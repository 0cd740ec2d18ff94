//! The protocol: its rules, what is bounded, and every step that is possible in a state.

use crate::explorer::{self, Protocol};
use crate::state::{MOST_ROUNDS, Mail, Node, Phase, Rounds, State};
use crate::story;

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// No two believe at the same time.
    OneBelieves,
    /// No two grants have the same fence.
    FencesDiffer,
    /// A later grant has a larger fence.
    FencesGrow,
    /// A token that was released everywhere is held nowhere.
    NothingIsLeft,
    /// When all is over, the next who asks is granted.
    TheNextIsGranted,
}

/// When a renewal counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// When a quorum still has the token. Only then the others are topped up.
    KeptByQuorum,
    /// When a quorum has the token afterwards: nodes that lost it take it anew, and count.
    TopsUpToQuorum,
}

/// What the fence that a quorum settled on does to the one that a node has noted as the hold's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// Replaces it.
    Replaces,
    /// Replaces it if it is smaller.
    Raises,
}

/// The rules that can be broken, each as it ought to be in [`Rules::default`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// More than half of the nodes have to say yes; else half.
    pub(crate) majority: bool,
    pub(crate) write_back: bool,
    /// What is written back goes to those only that said yes; else to all.
    pub(crate) writes_to_voters: bool,
    pub(crate) raise_checks_token: bool,
    pub(crate) note: Note,
    /// A round whose deadline has passed is given up.
    pub(crate) abandons_late: bool,
    /// The deadline is reckoned from the round's start; else from its last answer.
    pub(crate) anchored_at_start: bool,
    /// A node that lost its data doesn't vote until what it forgot is over.
    pub(crate) quarantine: bool,
    /// A request names the incarnation of the data that it is meant for.
    pub(crate) compares_certificate: bool,
    /// The candidate is chosen after the certificates were seen.
    pub(crate) looks_before_candidate: bool,
    /// A candidate is above the fences of a whole hold ago.
    pub(crate) clocks_are_near: bool,
    pub(crate) release_checks_token: bool,
    /// A token isn't asked for again where a release of it is on its way.
    pub(crate) release_before_repeat: bool,
    /// Nor where a request of it is on its way.
    pub(crate) answer_before_repeat: bool,
    pub(crate) tombstones: bool,
    pub(crate) renewal: Renewal,
    /// A renewal is of no use once the belief has ended.
    pub(crate) renewal_ends_with_belief: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            majority: true,
            write_back: true,
            writes_to_voters: true,
            raise_checks_token: true,
            note: Note::Replaces,
            abandons_late: true,
            anchored_at_start: true,
            quarantine: true,
            compares_certificate: true,
            looks_before_candidate: true,
            clocks_are_near: true,
            release_checks_token: true,
            release_before_repeat: true,
            answer_before_repeat: true,
            tombstones: true,
            renewal: Renewal::KeptByQuorum,
            renewal_ends_with_belief: true,
        }
    }
}

/// What is explored, and how far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Rounds in all: those of claims, repeats and renewals.
    pub(crate) rounds: usize,
    /// Tokens in all.
    pub(crate) claims: usize,
    /// Candidates are 1 to this.
    pub(crate) candidates: u64,
    /// How often a node loses all its data.
    pub(crate) losses: u64,
    /// How often a node's clock jumps forward.
    pub(crate) jumps: u64,
    /// Whether a token is asked for again after a round that failed.
    pub(crate) repeats: bool,
    pub(crate) renewals: bool,
    /// How often a request is carried out once more.
    pub(crate) duplicates: u64,
    /// Whether releases are messages of their own. Otherwise a token may go at any time from every
    /// node once its rounds are over, which covers them and more.
    pub(crate) releases: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            rounds: 3,
            claims: MOST_ROUNDS,
            candidates: 2,
            losses: 0,
            jumps: 0,
            repeats: false,
            renewals: false,
            duplicates: 0,
            releases: false,
        }
    }
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Ask(usize),
    Renew(usize),
    Vote(usize, usize),
    /// The same, and the request will arrive once more.
    Duplicate(usize, usize),
    Choose(usize),
    Raise(usize, usize),
    Believe(usize),
    GiveUp(usize),
    Overdue(usize),
    Free(usize),
    Release(usize, usize),
    Lose(usize),
    Admit(usize),
    Jump(usize),
}

/// The protocol with `N` nodes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Redlock<const N: usize> {
    pub(crate) rules: Rules,
    pub(crate) bounds: Bounds,
}

type Steps<const N: usize> = Vec<explorer::Step<Redlock<N>>>;

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
        let mut round = 0;
        while round < self.bounds.rounds {
            match rounds.phase(round) {
                Phase::Unstarted => {
                    self.begin(state, round, steps);
                    // They begin in the order of their numbers.
                    break;
                }
                Phase::Asking if rounds.is_renewal(round) => self.renewed(state, round, steps),
                Phase::Asking => self.choose(state, round, steps),
                Phase::Noting => self.believe(state, round, steps),
                Phase::Believing | Phase::Failed | Phase::Ended => {}
            }
            if rounds.is_live(round) {
                self.end(state, round, steps);
            }
            let mut at = 0;
            while at < N {
                let node = state.nodes[at];
                if node.has(round, Mail::Asked) {
                    self.vote(state, at, round, steps);
                }
                if node.has(round, Mail::Raising) {
                    self.raise(state, at, round, steps);
                }
                if node.has(round, Mail::Releasing) {
                    self.release(state, at, round, steps);
                }
                at += 1;
            }
            round += 1;
        }
        let mut at = 0;
        while at < N {
            self.of_itself(state, at, steps);
            at += 1;
        }
    }

    fn judge(&self, state: &State<N>, last: bool) -> Option<Promise> {
        if self.bounds.releases && state.nodes.iter().any(|node| self.is_left(state, *node)) {
            return Some(Promise::NothingIsLeft);
        }
        (last && !self.next_is_granted(state)).then_some(Promise::TheNextIsGranted)
    }

    /// Nodes differ in their names only.
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

    fn digest(&self, state: &State<N>) -> u64 {
        let mut digest = explorer::mix(0, state.rounds.0);
        let mut at = 0;
        while at < N {
            digest = explorer::mix(digest, state.nodes[at].0);
            at += 1;
        }
        digest
    }

    fn tell(&self, before: &State<N>, step: &explorer::Step<Self>, text: &mut String) {
        story::tell(before, step.action, &step.next, text);
    }
}

fn push<const N: usize>(steps: &mut Steps<N>, action: Action, next: State<N>) {
    steps.push(explorer::Step { action, next, broken: None });
}

impl<const N: usize> Redlock<N> {
    fn quorum(&self) -> usize {
        if self.rules.majority { N / 2 + 1 } else { N / 2 }
    }

    /// A round begins: a fresh claim's, one more of a claim that has failed, or a hold's renewal.
    fn begin(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        if (0..round).filter(|it| state.rounds.token(*it) == *it).count() < self.bounds.claims {
            self.ask(state, round, round, steps);
        }
        let mut token = 0;
        while token < round {
            let is_token = state.rounds.token(token) == token;
            if is_token && self.bounds.repeats && self.all_failed(state.rounds, token, round) {
                self.ask(state, round, token, steps);
            }
            if self.bounds.renewals
                && state.rounds.phase(token) == Phase::Believing
                && !self.is_being_renewed(state.rounds, state.rounds.token(token))
            {
                let mut next = *state;
                next.rounds.set_phase(round, Phase::Asking);
                next.rounds.set_renewal(round);
                next.rounds.set_token(round, state.rounds.token(token));
                next.rounds.set_fence(round, state.rounds.fence(token));
                self.send_to_all(&mut next, round);
                push(steps, Action::Renew(round), next);
            }
            token += 1;
        }
    }

    fn ask(&self, state: &State<N>, round: usize, token: usize, steps: &mut Steps<N>) {
        let mut begun = *state;
        begun.rounds.set_phase(round, Phase::Asking);
        begun.rounds.set_token(round, token);
        self.send_to_all(&mut begun, round);
        let above = self.certainly_older(state);
        let mut candidate = 1;
        while candidate <= self.bounds.candidates.max(above + 1) {
            if candidate > above {
                let mut next = begun;
                next.rounds.set_candidate(round, candidate);
                push(steps, Action::Ask(round), next);
            }
            candidate += 1;
        }
    }

    fn send_to_all(&self, next: &mut State<N>, round: usize) {
        let rounds = next.rounds;
        let token = rounds.token(round);
        for node in &mut next.nodes {
            let knows = !node.waits() || !self.rules.looks_before_candidate;
            let releasing = node.has(token, Mail::Releasing) && self.rules.release_before_repeat;
            let asked = self.rules.answer_before_repeat
                && (token..round).any(|it| rounds.token(it) == token && node.has(it, Mail::Asked));
            let is_renewal = rounds.is_renewal(round);
            node.set(round, Mail::Asked, knows && (is_renewal || !releasing && !asked));
        }
    }

    /// The highest fence of those that are certainly a largest TTL old: of the rounds that a node
    /// forgot which votes again.
    fn certainly_older(&self, state: &State<N>) -> u64 {
        let mut highest = 0;
        if self.rules.clocks_are_near {
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

    /// The request of `round` reaches a node. A "no" isn't a step: the client can't tell it from
    /// silence in any way that matters, and whatever can happen after it can happen without it.
    fn vote(&self, state: &State<N>, at: usize, round: usize, steps: &mut Steps<N>) {
        let mut next = *state;
        let node = &mut next.nodes[at];
        let rounds = state.rounds;
        let token = rounds.token(round);
        let knows_that_it_waits = self.rules.compares_certificate;
        if node.has(token, Mail::Tombstone) || node.waits() && knows_that_it_waits {
            return;
        }
        if node.is_free() {
            let tops_up = matches!(rounds.phase(round), Phase::Believing | Phase::Ended);
            let renews = rounds.is_renewal(round) && !tops_up;
            if renews && self.rules.renewal == Renewal::KeptByQuorum {
                return;
            }
            let candidate = if rounds.is_renewal(round) {
                rounds.fence(round)
            } else {
                rounds.candidate(round)
            };
            let fence = candidate.max(node.counter() + 1);
            node.set_counter(fence);
            node.set_noted(fence);
        } else if node.holder() != Some(token) {
            return;
        }
        node.arm(token, round);
        node.set(round, Mail::Asked, false);
        let fence = node.noted();
        match rounds.phase(round) {
            Phase::Asking if rounds.is_renewal(round) => node.set_answer(round, 1),
            Phase::Asking => node.set_answer(round, fence),
            // It comes late, but it has what the round wants.
            Phase::Noting if fence == rounds.fence(round) => node.set(round, Mail::Has, true),
            Phase::Noting | Phase::Believing if !rounds.is_renewal(round) => {
                self.send_raise(node, round, fence != rounds.fence(round));
            }
            _ => {}
        }
        if rounds.duplicates() > 0 {
            let mut again = next;
            again.rounds.take_duplicate();
            again.nodes[at].set(round, Mail::Asked, true);
            push(steps, Action::Duplicate(at, round), again);
        }
        self.tidy(&mut next, round);
        push(steps, Action::Vote(at, round), next);
    }

    /// The client makes up its mind, on the strength of any quorum of the answers that are there.
    fn choose(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        let mut at = 0;
        while at < N {
            let fence = state.nodes[at].answer(round);
            let already = (0..at).any(|other| state.nodes[other].answer(round) == fence);
            let considered =
                state.nodes.iter().filter(|node| (1..=fence).contains(&node.answer(round)));
            if fence != 0 && !already && considered.count() >= self.quorum() {
                let mut next = *state;
                next.rounds.set_phase(round, Phase::Noting);
                next.rounds.set_fence(round, fence);
                for node in &mut next.nodes {
                    let answer = node.answer(round);
                    let told = answer != 0 || !self.rules.writes_to_voters;
                    node.set_answer(round, 0);
                    node.set(round, Mail::Has, answer == fence || !self.rules.write_back);
                    self.send_raise(node, round, told && answer != fence);
                }
                self.tidy(&mut next, round);
                push(steps, Action::Choose(round), next);
            }
            at += 1;
        }
    }

    /// Sends the fence that was chosen to a node that answered another one.
    fn send_raise(&self, node: &mut Node, round: usize, differs: bool) {
        if differs && self.rules.write_back {
            node.set(round, Mail::Raising, true);
        }
    }

    fn raise(&self, state: &State<N>, at: usize, round: usize, steps: &mut Steps<N>) {
        let mut next = *state;
        let node = &mut next.nodes[at];
        let fence = state.rounds.fence(round);
        let holds = node.holder() == Some(state.rounds.token(round));
        if !holds && self.rules.raise_checks_token {
            return;
        }
        node.set(round, Mail::Raising, false);
        node.set_counter(node.counter().max(fence));
        if holds {
            let lower = self.rules.note == Note::Raises && fence < node.noted();
            node.set_noted(if lower { node.noted() } else { fence });
        }
        node.set(round, Mail::Has, state.rounds.phase(round) == Phase::Noting);
        self.tidy(&mut next, round);
        push(steps, Action::Raise(at, round), next);
    }

    fn believe(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        if state.nodes.iter().filter(|node| node.has(round, Mail::Has)).count() >= self.quorum() {
            self.grant(state, *state, round, steps);
        }
    }

    /// A renewal counts when a quorum has answered it; then the other nodes are topped up.
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
            if next.rounds.phase(earlier) == Phase::Believing
                && next.rounds.token(earlier) == next.rounds.token(round)
            {
                next.rounds.set_phase(earlier, Phase::Ended);
            }
        }
        self.grant(state, next, round, steps);
    }

    /// From here on it is believed.
    fn grant(&self, state: &State<N>, mut next: State<N>, round: usize, steps: &mut Steps<N>) {
        let rounds = state.rounds;
        let (token, fence) = (rounds.token(round), rounds.fence(round));
        let mut broken = None;
        for other in 0..self.bounds.rounds {
            if rounds.token(other) == token || !rounds.was_granted(other) {
                continue;
            }
            let promise = if rounds.phase(other) == Phase::Believing {
                Promise::OneBelieves
            } else if rounds.fence(other) == fence {
                Promise::FencesDiffer
            } else if rounds.fence(other) > fence {
                Promise::FencesGrow
            } else {
                continue;
            };
            broken = Some(promise);
        }
        next.rounds.set_phase(round, Phase::Believing);
        for node in &mut next.nodes {
            node.set(round, Mail::Has, false);
        }
        self.tidy(&mut next, round);
        steps.push(explorer::Step { action: Action::Believe(round), next, broken });
    }

    /// A round is over, or a belief: released, given up, crashed, or its deadline has come.
    fn end(&self, state: &State<N>, round: usize, steps: &mut Steps<N>) {
        let believed = state.rounds.phase(round) == Phase::Believing;
        let mut next = *state;
        self.finish(&mut next, round);
        // With the hold its renewal is over.
        for later in round + 1..self.bounds.rounds {
            if believed
                && state.rounds.is_live(later)
                && state.rounds.token(later) == state.rounds.token(round)
                && self.rules.renewal_ends_with_belief
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
        // Where that has no effect on the client.
        let is_ignored =
            if believed { !self.rules.anchored_at_start } else { !self.rules.abandons_late };
        if is_ignored && !state.rounds.is_overdue(round) {
            let mut next = *state;
            next.rounds.set_overdue(round);
            push(steps, Action::Overdue(round), next);
        }
    }

    fn finish(&self, next: &mut State<N>, round: usize) {
        let believed = next.rounds.phase(round) == Phase::Believing;
        next.rounds.set_phase(round, if believed { Phase::Ended } else { Phase::Failed });
        for node in &mut next.nodes {
            node.set_answer(round, 0);
            node.set(round, Mail::Has, false);
        }
        self.tidy(next, round);
    }

    fn release(&self, state: &State<N>, at: usize, token: usize, steps: &mut Steps<N>) {
        let mut next = *state;
        let node = &mut next.nodes[at];
        let holds = node.holder() == Some(token);
        if holds || !self.rules.release_checks_token {
            node.free();
        }
        node.set(token, Mail::Releasing, false);
        node.set(token, Mail::Tombstone, self.rules.tombstones);
        push(steps, Action::Release(at, token), next);
    }

    /// What happens to a node without anybody's request.
    fn of_itself(&self, state: &State<N>, at: usize, steps: &mut Steps<N>) {
        let node = state.nodes[at];
        if let Some(token) = node.holder() {
            let may_be_over = self.is_over(state.rounds, token, node.armed_by());
            if may_be_over || state.rounds.jumps() > 0 {
                let mut next = *state;
                next.nodes[at].free();
                if may_be_over {
                    push(steps, Action::Free(at), next);
                } else {
                    next.rounds.take_jump();
                    push(steps, Action::Jump(at), next);
                }
            }
        }
        if state.rounds.losses() > 0 {
            self.lose(state, at, steps);
        }
        if node.waits() {
            let forgot = (0..self.bounds.rounds).filter(|round| node.forgot() & 1 << round != 0);
            if !forgot.clone().any(|round| state.rounds.is_live(round)) {
                let mut next = *state;
                next.nodes[at].set_waits(false);
                push(steps, Action::Admit(at), next);
            }
        }
    }

    /// Whether every round is over that may have armed a hold: it was released, or every deadline
    /// that was reckoned from one of them has passed, and a node keeps a hold no shorter than that.
    fn is_over(&self, rounds: Rounds, token: usize, last: usize) -> bool {
        (token..=last)
            .filter(|round| rounds.token(*round) == token)
            .all(|round| !rounds.is_live(round) || rounds.is_overdue(round))
    }

    fn lose(&self, state: &State<N>, at: usize, steps: &mut Steps<N>) {
        let mut next = *state;
        next.rounds.take_loss();
        let node = &mut next.nodes[at];
        node.empty();
        let mut forgot = 0;
        for round in 0..self.bounds.rounds {
            // Those that failed left nothing that could be believed.
            if !matches!(state.rounds.phase(round), Phase::Unstarted | Phase::Failed) {
                forgot |= 1 << round;
            }
            if self.rules.compares_certificate {
                node.set(round, Mail::Asked, false);
                node.set(round, Mail::Raising, false);
            }
        }
        node.set_forgot(forgot);
        node.set_waits(self.rules.quarantine);
        for round in 0..self.bounds.rounds {
            self.tidy(&mut next, round);
        }
        push(steps, Action::Lose(at), next);
    }

    /// Forgets what can't matter any more, so that states which differ in nothing else are one.
    fn tidy(&self, next: &mut State<N>, round: usize) {
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

    /// Whether a node has the token of a claim that is over, though it was released there and
    /// nothing of it is on its way.
    fn is_left(&self, state: &State<N>, node: Node) -> bool {
        let Some(token) = node.holder() else { return false };
        let mut of_token =
            (0..self.bounds.rounds).filter(|round| state.rounds.token(*round) == token);
        !node.has(token, Mail::Releasing)
            && of_token.all(|round| !state.rounds.is_live(round) && !node.has(round, Mail::Asked))
    }

    /// When nothing can happen any more, a claim that is alone is granted, with a fence above all.
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
