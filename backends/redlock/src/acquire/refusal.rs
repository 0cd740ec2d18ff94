//! Results of a round without a quorum.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use lockwright_core::{AcquireOutcome, Busy, Error, ErrorKind, Holder, Reason, Result, Token};

use super::{Answer, Round};
use crate::errors::{NodeErrors, error};
use crate::fleet::silent;
use crate::node::{No, Vote};

const MOST_SPREAD: u32 = 32;

/// Shorter rounds count as this long: after shorter random pauses, clients would split the votes
/// again.
const SHORTEST_ROUND: Duration = Duration::from_millis(1);

/// Poll interval while another library, which sends no wake-up, holds the lock.
const FOREIGN_POLL: Duration = Duration::from_millis(100);

impl Round {
    pub(super) fn failed(mut self) -> Result<AcquireOutcome> {
        let (quorum, spare) = (self.request.fleet.quorum, self.request.fleet.spare());
        let (yes, no) = (self.yes().count(), self.no().count());
        let is_ended = |(_, answer): &(_, &Answer)| matches!(answer, Answer::Vote(Vote::Ended));
        let ended = self.answered().filter(is_ended).count();
        let indeterminate = self.is_a_repeat() || self.left_behind().count() >= quorum;
        let errors = (0..self.answers.len()).filter(|at| self.has_failed(*at)).count();
        if !indeterminate && errors <= spare && self.afterwards.iter().next().is_none() {
            // Some nodes have released or broken the token. A new token could get a quorum.
            if ended > 0 && no + errors <= spare {
                return Err(error(
                    ErrorKind::Lost(Reason::Gone),
                    "this request was released or broken before, so it can't hold the lock \
                     again; use a new request",
                ));
            }
            // If no node reported a holder, votes only came late, and the name may be free.
            if no > 0 {
                return Ok(AcquireOutcome::Busy(self.busy(yes)));
            }
        }
        let what = format!(
            "{yes} of {} nodes granted the lock, and {quorum} are required{}",
            self.answers.len(),
            if no > 0 { format!("; {no} reported another holder") } else { String::new() }
        );
        let errors = self.take_errors();
        let kind = if indeterminate {
            ErrorKind::Indeterminate
        } else {
            errors.hopeless(spare + 1).unwrap_or(ErrorKind::Unavailable)
        };
        Err(errors.into_error(kind, &what))
    }

    fn has_failed(&self, at: usize) -> bool {
        match &self.answers[at] {
            Some(Answer::Failed(_)) => true,
            None | Some(Answer::Unasked) => self.timed_out || self.silent.contains(at),
            Some(_) => false,
        }
    }

    fn take_errors(&mut self) -> NodeErrors {
        let mut errors = NodeErrors::default();
        let failed_nodes: Vec<bool> =
            (0..self.answers.len()).map(|at| self.has_failed(at)).collect();
        for (at, answer) in std::mem::take(&mut self.answers).into_iter().enumerate() {
            let address = self.request.fleet.address(at);
            match answer {
                Some(Answer::Failed(error)) => errors.push(address, error),
                _ if failed_nodes[at] && self.silent.contains(at) => {
                    errors.push(address, Error::indeterminate("it did not answer recent requests"));
                }
                _ if failed_nodes[at] => errors.push(address, silent(self.limit)),
                _ => {}
            }
        }
        errors.0.append(&mut self.afterwards.0);
        errors
    }

    fn busy(&self, yes: usize) -> Busy {
        let quorum = self.request.fleet.quorum;
        let names = &self.request.fleet.names;
        let holder = self.holder();
        if let Some(holder) = holder.filter(|(_, nodes)| *nodes >= quorum).map(|(no, _)| no) {
            names.decided(&self.request.claim.name, None);
            let mut left: Vec<Option<Duration>> = self.no().map(|no| no.left).collect();
            left.sort_unstable_by_key(|left| (left.is_none(), *left));
            let wanted = quorum.saturating_sub(yes).clamp(1, left.len());
            let left = left[wanted - 1];
            let is_foreign = holder.holder.as_ref().is_none_or(|holder| holder.token.is_none());
            let poll = is_foreign.then_some(FOREIGN_POLL);
            return Busy {
                retry_after: left.into_iter().chain(poll).min(),
                holder: holder.holder.clone(),
                queued: false,
            };
        }
        let spread = names.split(&self.request.claim.name).min(MOST_SPREAD);
        let round = self.begun.elapsed().max(SHORTEST_ROUND);
        Busy {
            retry_after: Some(self.request.fleet.random.below(round * spread)),
            holder: None,
            queued: false,
        }
    }

    fn holder(&self) -> Option<(&No, usize)> {
        let mut holders: HashMap<Option<Token>, (&No, usize)> = HashMap::new();
        for no in self.no() {
            let token = no.holder.as_deref().and_then(|holder: &Holder| holder.token);
            holders.entry(token).or_insert((no, 0)).1 += 1;
        }
        // On a tie, prefer a Lockwright holder, which has a token.
        let most = |(token, (_, nodes)): &(Option<Token>, (&No, usize))| {
            (*nodes, token.is_some(), Reverse(*token))
        };
        holders.into_iter().max_by_key(most).map(|(_, found)| found)
    }
}
