use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_core::{Claim, Mode, Reason, Renew, Renewal, Result, Token};
use redis::Value;
use tokio::time::Instant;

use crate::acquire::millis_rounded_up;
use crate::answer::{Reply, read};
use crate::errors::{Effect, odd_answer};
use crate::keys::Keys;
use crate::servers::Servers;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Batch {
    holds: Vec<BatchEntry>,
    /// The first hold's TTL in ms, for all entries without a TTL.
    ttl: String,
    pub(crate) effect: Effect,
}

struct BatchEntry {
    keys: Keys,
    token: Token,
    kind: Kind,
    argument: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exclusive,
    /// Also extends the expiry of the fence counter, by which a listing finds the lock.
    ExclusiveWithFence,
    Shared,
}

/// Returns whether a renewal at `now` (since 1970) extends the fence counter's expiry: each day for
/// one TTL, with at least one renewal, at a time that the token determines.
fn extends_fence(claim: &Claim, now: Duration) -> bool {
    let phase = DAY / 256 * u32::from(claim.token.as_bytes()[0]);
    (now + phase).as_secs() % DAY.as_secs() <= claim.ttl.as_secs()
}

impl Batch {
    pub(crate) fn new(prefix: &str, holds: &[Renew<'_>]) -> Result<Self> {
        let effect = Effect::changes_within(Renew::time_to_answer(holds));
        let ttl = |claim: &Claim| millis_rounded_up(claim.ttl);
        let common = holds.first().map(|hold| ttl(hold.claim)).unwrap_or_default();
        let entries = Vec::with_capacity(holds.len());
        let mut batch = Self { holds: entries, ttl: common.to_string(), effect };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for Renew { claim, .. } in holds {
            let kind = match claim.mode {
                Mode::Exclusive if extends_fence(claim, now) => Kind::ExclusiveWithFence,
                Mode::Exclusive => Kind::Exclusive,
                _ => Kind::Shared,
            };
            let (token, ttl) = (claim.token, ttl(claim));
            let argument = match kind {
                Kind::Exclusive if ttl == common => format!("lw1:{token}"),
                Kind::Exclusive => format!("lw1:{token}:{ttl}:x"),
                Kind::ExclusiveWithFence => format!("lw1:{token}:{ttl}:f"),
                Kind::Shared => format!("lw1:{token}:{ttl}:s"),
            };
            // Allocations take most of a renewal's time.
            let keys = match kind {
                Kind::Exclusive => Keys::lock_alone(prefix, &claim.name),
                Kind::ExclusiveWithFence => Keys::fast(prefix, &claim.name),
                Kind::Shared => Keys::new(prefix, &claim.name),
            };
            batch.holds.push(BatchEntry { keys: keys?, token, kind, argument });
        }
        Ok(batch)
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        let mut all = Vec::with_capacity(4 * self.holds.len());
        for BatchEntry { keys, kind, .. } in &self.holds {
            match kind {
                Kind::Exclusive => all.push(keys.lock()),
                Kind::ExclusiveWithFence => all.extend([keys.lock(), keys.fence()]),
                Kind::Shared => all.extend(shared_keys(keys)),
            }
        }
        all
    }

    /// `incarnation` is empty except on a quorum's node.
    pub(crate) fn arguments<'b>(&'b self, incarnation: &'b str) -> Vec<&'b str> {
        let each = self.holds.iter().map(|hold| &*hold.argument);
        [&*self.ttl, incarnation].into_iter().chain(each).collect()
    }

    pub(crate) fn renewals(&self, answer: Value) -> Result<Vec<Renewal>> {
        renewals(answer, self.holds.len())
    }

    /// Returns one request per hold for a moving slot. A script's keys must be on one node, so an
    /// exclusive hold's request has only the lock's key.
    pub(crate) fn single_requests(&self) -> impl Iterator<Item = (Vec<&str>, [String; 3])> {
        self.holds.iter().map(|BatchEntry { keys, kind, argument, .. }| {
            let (keys, argument) = match kind {
                Kind::Exclusive => (vec![keys.lock()], argument.clone()),
                Kind::ExclusiveWithFence => {
                    let start = argument.strip_suffix('f').unwrap_or(argument);
                    (vec![keys.lock()], format!("{start}x"))
                }
                Kind::Shared => (shared_keys(keys).to_vec(), argument.clone()),
            };
            (keys, [self.ttl.clone(), String::new(), argument])
        })
    }

    pub(crate) async fn find_reasons(&self, servers: &Servers, renewals: &mut [Renewal]) {
        let is_gone = |renewal: &Renewal| *renewal == Renewal::not_held(Reason::Gone);
        let lost = self.holds.iter().zip(renewals).filter(|(_, renewal)| is_gone(renewal));
        let tombstone = |hold: &BatchEntry| hold.keys.complete().tombstone(hold.token);
        let (lost, renewals): (Vec<String>, Vec<&mut Renewal>) =
            lost.map(|(hold, renewal)| (tombstone(hold), renewal)).unzip();
        let Some(first) = lost.first() else { return };
        let mut notes = redis::cmd("MGET");
        notes.arg(&lost);
        // Leave half of the time for returning the renewals.
        let half = self.effect.limit(Duration::MAX) / 2;
        let effect = Effect::ChangesBy(Instant::now() + half);
        let notes = servers.command(first, &notes, effect).await;
        let notes: Vec<Option<String>> = notes.and_then(read).unwrap_or_default();
        for (renewal, note) in renewals.into_iter().zip(notes) {
            if note.is_some_and(|note| note.starts_with("broken")) {
                *renewal = Renewal::not_held(Reason::Broken);
            }
        }
    }
}

fn shared_keys(keys: &Keys) -> [&str; 4] {
    [keys.lock(), keys.fence(), keys.holders(), keys.meta()]
}

pub(crate) fn renewals(answer: Value, count: usize) -> Result<Vec<Renewal>> {
    let reply = Reply::of(answer, Effect::Changes)?;
    let is_same_for_all = reply.text(1).is_none();
    (0..count)
        .map(|at| match reply.word(if is_same_for_all { 0 } else { at })? {
            "renewed" => Ok(Renewal::RENEWED),
            "unsure" => Ok(Renewal::INDETERMINATE),
            "broken" => Ok(Renewal::not_held(Reason::Broken)),
            "gone" => Ok(Renewal::not_held(Reason::Gone)),
            _ => Err(odd_answer(Effect::Changes, &reply)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::claim_for;
    use lockwright_core::Token;

    use super::*;

    /// With this TTL, each renewal extends the fence counter's expiry, but a request for a moving
    /// slot must not.
    #[test]
    fn single_request_has_the_token_and_no_fence() {
        let mut claim = claim_for("x", 2 * DAY);
        claim.token = Token::from_bytes([0xff; 16]);
        let batch = Batch::new("lockwright", &[Renew::of(&claim)]).unwrap();
        let (_, [_, _, argument]) = batch.single_requests().next().unwrap();
        assert_eq!(argument, format!("lw1:{}:172800000:x", claim.token));
    }
}
