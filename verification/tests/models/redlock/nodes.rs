use super::model::{Action, Redlock, Steps, push};
use super::state::{DUPLICATES, JUMPS, LOSSES, Mail, Phase, Rounds, State};

impl<const N: usize> Redlock<N> {
    /// Adds a node's steps for the request of `round`. A refusal is a step only if a repeat of the
    /// request must wait for the refusal. Otherwise, a refusal has the same effect as no answer.
    pub(crate) fn vote(&self, state: &State<N>, at: usize, round: usize, steps: &mut Steps<N>) {
        let mut next = *state;
        let node = &mut next.nodes[at];
        let rounds = state.rounds;
        let token = rounds.token(round);
        let knows_that_it_waits = !self.without.compares_incarnation;
        if node.has(token, Mail::Tombstone) || node.waits() && knows_that_it_waits {
            return;
        }
        if node.is_free() {
            let tops_up = matches!(rounds.phase(round), Phase::Holding | Phase::Ended);
            let renews = rounds.is_renewal(round) && !tops_up;
            if renews && !self.without.tops_up_after_quorum {
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
            if self.bounds.repeats && !self.without.answer_before_repeat {
                node.set(round, Mail::Asked, false);
                self.tidy(&mut next, round);
                push(steps, Action::Refuse(at, round), next);
            }
            return;
        }
        node.arm(token, round);
        node.set(round, Mail::Asked, false);
        let fence = node.noted();
        match rounds.phase(round) {
            Phase::Asking if rounds.is_renewal(round) => node.set_answer(round, 1),
            Phase::Asking => node.set_answer(round, fence),
            // This vote came after the round chose its fence, and confirms the fence.
            Phase::Noting if fence == rounds.fence(round) => node.set(round, Mail::Has, true),
            Phase::Noting | Phase::Holding if !rounds.is_renewal(round) => {
                self.send_raise(node, round, fence != rounds.fence(round));
            }
            _ => {}
        }
        if rounds.left(DUPLICATES) > 0 {
            let mut again = next;
            again.rounds.take(DUPLICATES);
            again.nodes[at].set(round, Mail::Asked, true);
            push(steps, Action::Duplicate(at, round), again);
        }
        self.tidy(&mut next, round);
        push(steps, Action::Vote(at, round), next);
    }

    pub(crate) fn raise(&self, state: &State<N>, at: usize, round: usize, steps: &mut Steps<N>) {
        let mut next = *state;
        let node = &mut next.nodes[at];
        let fence = state.rounds.fence(round);
        let holds = node.holder() == Some(state.rounds.token(round));
        if !holds && !self.without.raise_checks_token {
            return;
        }
        node.set(round, Mail::Raising, false);
        node.set_counter(node.counter().max(fence));
        if holds {
            let lower = self.without.note_replaces && fence < node.noted();
            node.set_noted(if lower { node.noted() } else { fence });
        }
        node.set(round, Mail::Has, state.rounds.phase(round) == Phase::Noting);
        self.tidy(&mut next, round);
        push(steps, Action::Raise(at, round), next);
    }

    pub(crate) fn release(&self, state: &State<N>, at: usize, token: usize, steps: &mut Steps<N>) {
        let mut next = *state;
        let node = &mut next.nodes[at];
        let holds = node.holder() == Some(token);
        if holds || self.without.release_checks_token {
            node.free();
        }
        node.set(token, Mail::Releasing, false);
        node.set(token, Mail::Tombstone, !self.without.tombstones);
        push(steps, Action::Release(at, token), next);
    }

    /// Adds a node's steps that need no request.
    pub(crate) fn of_itself(&self, state: &State<N>, at: usize, steps: &mut Steps<N>) {
        let node = state.nodes[at];
        if let Some(token) = node.holder() {
            let may_be_over = self.is_over(state.rounds, token, node.armed_by());
            if may_be_over || state.rounds.left(JUMPS) > 0 {
                let mut next = *state;
                next.nodes[at].free();
                if may_be_over {
                    push(steps, Action::Free(at), next);
                } else {
                    next.rounds.take(JUMPS);
                    push(steps, Action::Jump(at), next);
                }
            }
        }
        if state.rounds.left(LOSSES) > 0 {
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

    /// Returns whether every round that may have started or extended the hold of `token` has ended
    /// or is past its deadline. The node keeps the hold until then.
    fn is_over(&self, rounds: Rounds, token: usize, last: usize) -> bool {
        (token..=last)
            .filter(|round| rounds.token(*round) == token)
            .all(|round| !rounds.is_live(round) || rounds.is_overdue(round))
    }

    fn lose(&self, state: &State<N>, at: usize, steps: &mut Steps<N>) {
        let mut next = *state;
        next.rounds.take(LOSSES);
        let node = &mut next.nodes[at];
        node.empty();
        let mut forgot = 0;
        for round in 0..self.bounds.rounds {
            // A round that failed gave no client a hold, so the loss of its data doesn't matter.
            if !matches!(state.rounds.phase(round), Phase::Unstarted | Phase::Failed) {
                forgot |= 1 << round;
            }
            if !self.without.compares_incarnation {
                node.set(round, Mail::Asked, false);
                node.set(round, Mail::Raising, false);
            }
        }
        node.set_forgot(forgot);
        node.set_waits(!self.without.quarantine);
        for round in 0..self.bounds.rounds {
            self.tidy(&mut next, round);
        }
        push(steps, Action::Lose(at), next);
    }
}
