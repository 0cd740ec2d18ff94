//! Replies of the scripts that request a hold.

use std::time::Duration;

use lockwright_core::{Busy, Error, ErrorKind, Fence, Granted, Holder, Mode, Reason, Result};
use redis::Value;

use crate::FOREIGN_POLL;
use crate::answer::{self, Reply};
use crate::errors::{Effect, error, odd_answer};
use crate::keys::Keys;

#[derive(Debug)]
pub(crate) enum Outcome {
    Granted(Granted),
    Again(Granted),
    Busy(Busy),
    /// Queued at this server time in µs.
    Queued(Busy, u64),
}

pub(crate) fn outcome(answer: Value, keys: &Keys, mode: Mode) -> Result<Outcome> {
    if let Value::BulkString(text) = &answer
        && let Some(queued) = queued_behind_hold(&String::from_utf8_lossy(text))
    {
        return Ok(queued);
    }
    // The short reply of `fast_acquire.lua` and `vote.lua`.
    if let Value::Int(fence @ 1..) = answer {
        return Ok(Outcome::Granted(Granted::new(Fence::new(fence.unsigned_abs()))));
    }
    let reply = Reply::of(answer, Effect::Changes)?;
    match reply.word(0)? {
        "granted" => Ok(Outcome::Granted(granted(&reply)?)),
        "again" => Ok(Outcome::Again(granted(&reply)?)),
        "busy" => {
            let holder = answer::exclusive_holder(reply.text(1), reply.text(2), reply.text(3));
            Ok(busy(holder, place(&reply, 4)))
        }
        "shared" => Ok(busy(answer::shared_holder(&reply, 1), place(&reply, 7))),
        "kind" => Err(Error::other_kind(mode)),
        "ended" => Err(ended()),
        "foreign" => Err(alien("something else")),
        "exhausted" => Err(error(
            ErrorKind::Conflict,
            format!(
                "the fence counter {:?} is damaged or has no fences left; delete it once the \
                 lock is free and none of its fences is in use",
                keys.fence()
            ),
        )),
        _ => Err(odd_answer(Effect::Changes, reply)),
    }
}

fn granted(reply: &Reply) -> Result<Granted> {
    let mut granted = Granted::new(Fence::new(reply.number(1)?));
    granted.fences = u32::try_from(reply.number(2)?).unwrap_or(1);
    granted.valid = reply.duration(3);
    Ok(granted)
}

type Place = (u64, u64);

fn place(reply: &Reply, at: usize) -> Option<Place> {
    Some((reply.number(at).ok()?, reply.number(at + 1).ok()?))
}

/// Parses the short reply of `acquire.lua` to a claim queued behind an exclusive hold.
fn queued_behind_hold(text: &str) -> Option<Outcome> {
    let (words, value) = text.split_once('\n')?;
    let mut words = words.splitn(4, ' ');
    let left = words.next()?;
    let place = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(busy(answer::exclusive_holder(Some(left), Some(value), words.next()), Some(place)))
}

fn busy(holder: Holder, place: Option<Place>) -> Outcome {
    let retry_after = match (holder.token, holder.remaining) {
        (Some(_), remaining) => remaining,
        (None, remaining) => Some(remaining.map_or(FOREIGN_POLL, |left| left.min(FOREIGN_POLL))),
    };
    let busy = Busy { retry_after, holder: Some(Box::new(holder)), queued: false };
    match place {
        Some((before, micros)) => Outcome::Queued(queued(busy, before), micros),
        None => Outcome::Busy(busy),
    }
}

/// Sets the next poll of a queued claim: when the hold or offer ends, plus a step per earlier
/// waiter, but more often while another library holds the lock.
fn queued(mut busy: Busy, before: u64) -> Busy {
    const FOREIGN_POLLS: u32 = 5;
    const STEP: Duration = Duration::from_millis(1);
    const MOST_STEPS: u32 = 20;

    let before = u32::try_from(before).unwrap_or(u32::MAX);
    let has_no_token = busy.holder.as_ref().is_some_and(|holder| holder.token.is_none());
    let later = if has_no_token {
        FOREIGN_POLL * before.min(FOREIGN_POLLS - 1)
    } else {
        STEP * before.min(MOST_STEPS)
    };
    busy.retry_after = busy.retry_after.map(|time| time.saturating_add(later));
    busy.queued = true;
    busy
}

pub(crate) fn alien(kind: &str) -> Error {
    error(
        ErrorKind::Conflict,
        format!(
            "the lock's key on the server contains {kind}, not a lock; use another name or a key \
             prefix"
        ),
    )
}

pub(crate) fn ended() -> Error {
    error(
        ErrorKind::Lost(Reason::Gone),
        "this request was released or broken before, so it can't hold the lock again; use a new \
         request",
    )
}

/// Rounds up, so the server doesn't end a hold before the client's deadline.
pub(crate) fn millis_rounded_up(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000)
}
