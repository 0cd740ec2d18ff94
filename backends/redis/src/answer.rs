use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Fence, Holder, Identity, Inspection, LockName, Mode, Result, Token};
use redis::{FromRedisValue, Value};

use crate::errors::{Effect, odd_answer};

/// A script's reply: strings, also for numbers, and nils.
#[derive(Debug)]
pub(crate) struct Reply {
    fields: Vec<Option<String>>,
    effect: Effect,
}

impl Reply {
    pub(crate) fn of(answer: Value, effect: Effect) -> Result<Self> {
        match FromRedisValue::from_redis_value(answer) {
            Ok(fields) => Ok(Self { fields, effect }),
            Err(cause) => Err(odd_answer(effect, cause)),
        }
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

    /// Parses milliseconds; `None` for -1, which means no expiry.
    pub(crate) fn duration(&self, at: usize) -> Option<Duration> {
        self.text(at)?.parse().ok().map(Duration::from_millis)
    }
}

#[derive(Debug)]
pub(crate) enum Found {
    Lock(Inspection),
    Alien(String),
}

pub(crate) fn found(name: &LockName, answer: Value) -> Result<Found> {
    const FIELDS: (usize, usize) = (3, 6);

    let reply = Reply::of(answer, Effect::Reads)?;
    if reply.word(0)? == "alien" {
        return Ok(Found::Alien(format!("a {}", reply.text(3).unwrap_or("value of another type"))));
    }
    let mut inspection = Inspection::free(name.clone());
    // The counter's value may end with a mark (`exclusive.lua`).
    let fence = reply.text(1).and_then(|counter| counter.split(' ').next()?.parse().ok());
    inspection.fence = fence.map(Fence::new);
    inspection.waiters = reply.text(2).and_then(|waiters| waiters.parse().ok());
    let holders = (FIELDS.0..reply.fields.len()).step_by(FIELDS.1);
    inspection.holders.extend(holders.map(|at| holder(&reply, at)));
    Ok(Found::Lock(inspection))
}

pub(crate) fn all_found(names: &[LockName], answer: Value) -> Result<Vec<Found>> {
    match answer {
        Value::Array(answers) if answers.len() == names.len() => {
            names.iter().zip(answers).map(|(name, answer)| found(name, answer)).collect()
        }
        answer => Err(odd_answer(Effect::Reads, answer)),
    }
}

/// Parses a holder from `at`: ms left, token, identity, fence, break's operator and reason, mode.
pub(crate) fn holder(reply: &Reply, at: usize) -> Holder {
    let token = reply.text(at + 1).and_then(|token| token.parse::<Token>().ok());
    let mut holder = Holder::new(token);
    holder.remaining = reply.duration(at);
    holder.endless = reply.text(at) == Some("-1");
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

/// Separates an identity from its value in an election. Neither contains control characters.
const VALUE: char = '\u{1f}';

pub(crate) fn identity_text(identity: &Identity) -> String {
    match &identity.value {
        None => identity.to_string(),
        Some(value) => format!("{identity}{VALUE}{value}"),
    }
}

/// Parses `[label@]host:pid` from the end, because a label may contain `@` and `:`.
fn identity(text: &str) -> Option<Identity> {
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
    fn an_identity_survives_its_text() {
        for label in [None, Some("billing"), Some("a@b:c"), Some("")] {
            let mut written = Identity::of_this_process(label);
            assert_eq!(identity(&identity_text(&written)), Some(written.clone()));
            written.value = Some(Arc::from("http://[::1]:80/?a@b"));
            assert_eq!(identity(&identity_text(&written)), Some(written));
        }
        assert_eq!(identity("somebody"), None);
    }
}
