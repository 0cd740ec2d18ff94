//! Asking for a lock: what `acquire.lua` is given, and what it answers.

use std::time::Duration;

use lockwright_core::{Busy, Claim, Error, ErrorKind, Fence, Granted, Result};
use redis::Value;

use crate::FOREIGN_POLL;
use crate::answer::{self, Words};
use crate::errors::{Effect, error, odd_answer};
use crate::keys::Keys;

/// What the script says to a claim.
#[derive(Debug)]
pub(crate) enum Outcome {
    Granted(Granted),
    /// To a token that held already.
    Again(Granted),
    Busy(Busy),
    /// The token was released or broken before.
    Ended,
    /// The server isn't the node of a quorum that was meant.
    Stranger,
}

/// What every claim is sent with.
pub(crate) fn arguments(claim: &Claim, waits: bool) -> [String; 5] {
    [
        claim.token.to_string(),
        millis_rounded_up(claim.ttl).to_string(),
        claim.fences.max(1).to_string(),
        claim.identity.to_string(),
        if waits { "1" } else { "0" }.to_owned(),
    ]
}

/// Reads the script's answer.
pub(crate) fn outcome(answer: Value, keys: &Keys) -> Result<Outcome> {
    let words = Words::of(answer, Effect::Changes)?;
    match words.word(0)? {
        "granted" => Ok(Outcome::Granted(granted(&words)?)),
        "again" => Ok(Outcome::Again(granted(&words)?)),
        "busy" => Ok(Outcome::Busy(busy(&words))),
        "ended" => Ok(Outcome::Ended),
        "stranger" => Ok(Outcome::Stranger),
        "foreign" => Err(alien("something else")),
        "exhausted" => Err(error(
            ErrorKind::Conflict,
            format!(
                "the fence counter {:?} is damaged or has no fences left; delete it once nobody \
                 holds the lock and no fence of it is in use",
                keys.fence
            ),
        )),
        _ => Err(odd_answer(Effect::Changes, words)),
    }
}

fn granted(words: &Words) -> Result<Granted> {
    let mut granted = Granted::new(Fence::new(words.number(1)?));
    granted.fences = u32::try_from(words.number(2)?).unwrap_or(1);
    granted.valid = words.duration(3);
    Ok(granted)
}

fn busy(words: &Words) -> Busy {
    let holder = answer::holder(words, 1);
    let retry_after = match (holder.token, holder.remaining) {
        (Some(_), remaining) => remaining,
        // A foreign holder tells nobody when it goes, so it is looked at often.
        (None, remaining) => Some(remaining.map_or(FOREIGN_POLL, |left| left.min(FOREIGN_POLL))),
    };
    Busy { retry_after, holder: Some(Box::new(holder)), queued: false }
}

/// The key of the lock is none of a lock.
pub(crate) fn alien(kind: &str) -> Error {
    error(
        ErrorKind::Conflict,
        format!(
            "its key on the server isn't a lock but holds {kind}; choose another name or a key \
             prefix"
        ),
    )
}

/// The server's unit is a millisecond. Rounded up, so that it never ends a hold before its holder.
pub(crate) fn millis_rounded_up(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up() {
        assert_eq!(millis_rounded_up(Duration::from_millis(100)), 100);
        assert_eq!(millis_rounded_up(Duration::from_nanos(100_000_001)), 101);
        assert_eq!(millis_rounded_up(Duration::from_nanos(1)), 1);
    }
}
