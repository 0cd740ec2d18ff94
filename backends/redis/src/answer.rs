use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Fence, Holder, Identity, Inspection, LockName, Mode, ReleaseOutcome, Result, Token,
};
use redis::{FromRedisValue, Value};

use crate::errors::{Effect, odd_answer};

/// A script's reply. Numbers are strings, and nil is `None`.
#[derive(Debug)]
pub(crate) struct Reply {
    fields: Vec<Option<String>>,
    effect: Effect,
}

impl Reply {
    pub(crate) fn of(answer: Value, effect: Effect) -> Result<Self> {
        let Value::Array(values) = answer else { return Err(odd_answer(effect, answer)) };
        let fields = values.into_iter().map(|value| match value {
            Value::Nil => Ok(None),
            Value::Int(number) => Ok(Some(number.to_string())),
            Value::BulkString(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            other => Err(odd_answer(effect, other)),
        });
        Ok(Self { fields: fields.collect::<Result<_>>()?, effect })
    }

    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        self.fields.get(at)?.as_deref()
    }

    pub(crate) fn word(&self, at: usize) -> Result<&str> {
        self.text(at).ok_or_else(|| odd_answer(self.effect, &self.fields))
    }

    pub(crate) fn number(&self, at: usize) -> Result<u64> {
        self.word(at)?.parse().map_err(|_| odd_answer(self.effect, &self.fields))
    }

    /// Parses milliseconds; -1 means no expiry.
    pub(crate) fn duration(&self, at: usize) -> Option<Duration> {
        duration(self.text(at)?)
    }
}

pub(crate) fn read<T: FromRedisValue>(answer: Value) -> Result<T> {
    T::from_redis_value(answer).map_err(|cause| odd_answer(Effect::Reads, cause))
}

pub(crate) fn released(answer: Value) -> Result<ReleaseOutcome> {
    match answer {
        Value::Int(1) => Ok(ReleaseOutcome::Released),
        Value::Int(0) => Ok(ReleaseOutcome::NotHeld),
        other => Err(odd_answer(Effect::Changes, other)),
    }
}

/// The state of a lock, or a description of other data in its key.
pub(crate) type Found = std::result::Result<Inspection, String>;

pub(crate) fn found(name: &LockName, answer: Value) -> Result<Found> {
    let reply = Reply::of(answer, Effect::Reads)?;
    if reply.word(0)? == "alien" {
        return Ok(Err(format!("a {}", reply.text(3).unwrap_or("value of another type"))));
    }
    let mut inspection = Inspection::free(name.clone());
    inspection.fence = reply.text(1).and_then(last_fence).map(Fence::new);
    inspection.waiters = reply.text(2).and_then(|waiters| waiters.parse().ok());
    if reply.word(0)? == "busy" {
        inspection.holders.push(exclusive_holder(reply.text(3), reply.text(4), reply.text(1)));
    } else {
        let holders = (3..reply.fields.len()).step_by(6);
        inspection.holders.extend(holders.map(|at| shared_holder(&reply, at)));
    }
    Ok(Ok(inspection))
}

pub(crate) fn all_found(names: &[LockName], answer: Value) -> Result<Vec<Found>> {
    match answer {
        Value::Array(answers) if answers.len() == names.len() => {
            names.iter().zip(answers).map(|(name, answer)| found(name, answer)).collect()
        }
        answer => Err(odd_answer(Effect::Reads, answer)),
    }
}

/// The counter may end with a mark (`exclusive.lua`).
fn last_fence(counter: &str) -> Option<u64> {
    counter.split(' ').next()?.parse().ok()
}

fn duration(millis: &str) -> Option<Duration> {
    millis.parse().ok().map(Duration::from_millis)
}

fn holder(left: Option<&str>, token: Option<&str>) -> Holder {
    let mut holder = Holder::new(token.and_then(|token| token.parse::<Token>().ok()));
    holder.remaining = left.and_then(duration);
    holder.endless = left == Some("-1");
    holder
}

/// Parses an exclusive holder from the ms left, the lock's value (`value.lua`) and the fence
/// counter's value. Another library's holder has no token.
pub(crate) fn exclusive_holder(
    left: Option<&str>,
    value: Option<&str>,
    counter: Option<&str>,
) -> Holder {
    let parsed = value.and_then(|value| {
        let (is_broken, rest) = match value.strip_prefix("lw1")?.split_at_checked(1)? {
            (":", rest) => (false, rest),
            ("!", rest) => (true, rest),
            _ => return None,
        };
        let (token, rest) = rest.split_once(':')?;
        let (fences, rest) = rest.split_once(':')?;
        token.parse::<Token>().ok()?;
        Some((is_broken, token, fences, rest))
    });
    let Some((is_broken, token, fences, rest)) = parsed else { return holder(left, None) };
    let mut holder = holder(left, Some(token));
    let fence = match fences.split_once('@') {
        Some((_, first)) => first.parse().ok(),
        None => counter.and_then(last_fence).and_then(|last| {
            let fences = fences.parse::<u64>().ok()?;
            last.checked_add(1)?.checked_sub(fences)
        }),
    };
    holder.set_fence_and_since(fence.map(Fence::new));
    let (text, note) = match rest.split_once('\n') {
        Some((text, note)) if is_broken => (text, note),
        _ => (rest, ""),
    };
    holder.identity = identity(text);
    holder.broken = is_broken.then(|| note.to_owned());
    holder
}

/// Parses a shared holder from field `at` on: ms left, token, identity, fence, break, mode.
pub(crate) fn shared_holder(reply: &Reply, at: usize) -> Holder {
    let mut holder = holder(reply.text(at), reply.text(at + 1));
    holder.identity = reply.text(at + 2).and_then(identity);
    holder.mode = reply.text(at + 5).and_then(mode).unwrap_or(Mode::Exclusive);
    let has_fence = !matches!(holder.mode, Mode::Permits { .. });
    let fence = reply.text(at + 3).filter(|_| has_fence);
    holder.fence = fence.and_then(|fence| fence.parse().ok()).map(Fence::new);
    holder.broken = reply.text(at + 4).map(str::to_owned);
    holder
}

pub(crate) fn mode_text(mode: Mode) -> String {
    match mode {
        Mode::Permits { count, of } => format!("{count}/{of}"),
        Mode::Shared => "s".to_owned(),
        _ => "x".to_owned(),
    }
}

fn mode(text: &str) -> Option<Mode> {
    match text {
        "x" => Some(Mode::Exclusive),
        "s" => Some(Mode::Shared),
        _ => {
            let (count, of) = text.split_once('/')?;
            Some(Mode::Permits { count: count.parse().ok()?, of: of.parse().ok()? })
        }
    }
}

/// Separates an identity from the client's value in an election. Neither contains control
/// characters.
const VALUE: char = '\u{1f}';

pub(crate) fn identity_text(identity: &Identity) -> String {
    match &identity.value {
        None => identity.to_string(),
        Some(value) => format!("{identity}{VALUE}{value}"),
    }
}

/// Separates an identity from the id (`offers.rs`) of a client that may keep the lock warm, to
/// which the scripts send recalls.
pub(crate) const RECALL: char = '\u{1e}';

/// Parses `[label@]host:pid` from the end, because a label may contain `@` and `:`.
fn identity(text: &str) -> Option<Identity> {
    let text = text.split_once(RECALL).map_or(text, |(identity, _)| identity);
    let (text, value) = match text.split_once(VALUE) {
        Some((text, value)) => (text, Some(Arc::from(value))),
        None => (text, None),
    };
    let (rest, pid) = text.rsplit_once(':')?;
    let (label, host) = match rest.rsplit_once('@') {
        Some((label, host)) => (Some(Arc::from(label)), host),
        None => (None, rest),
    };
    Some(Identity { host: Arc::from(host), pid: pid.parse().ok()?, label, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_value_describes_its_holder() {
        let token = Token::random();
        let parsed = |value: &str, counter| {
            let holder = exclusive_holder(Some("-1"), Some(value), counter);
            assert!(holder.endless);
            (holder.token, holder.fence.map(Fence::get), holder.broken)
        };
        let held = format!("lw1:{token}:3:host:7");
        assert_eq!(parsed(&held, Some("12 1700000000000")), (Some(token), Some(10), None));
        assert_eq!(parsed(&held, None), (Some(token), None, None));
        assert_eq!(parsed(&held, Some("1")), (Some(token), None, None), "the counter was changed");
        let broken = format!("lw1!{token}:3@5:host:7\nanna: stuck");
        let by = Some("anna: stuck".to_owned());
        assert_eq!(parsed(&broken, Some("12")), (Some(token), Some(5), by));
        for foreign in ["", "lw1", "lw1:\u{fffd}", "lw1:x:1:y", "lw2", &token.to_string()] {
            assert_eq!(parsed(foreign, Some("12")), (None, None, None), "{foreign}");
        }
    }
}
