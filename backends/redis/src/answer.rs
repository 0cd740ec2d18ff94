//! Reading what the scripts answer.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Fence, Holder, Identity, Inspection, LockName, Result, Token};
use redis::{FromRedisValue, Value};

use crate::errors::{Effect, odd_answer};

/// The flat list of texts and nils that a script answers. Numbers come as texts.
#[derive(Debug)]
pub(crate) struct Words {
    words: Vec<Option<String>>,
    effect: Effect,
}

impl Words {
    pub(crate) fn of(answer: Value, effect: Effect) -> Result<Self> {
        match FromRedisValue::from_redis_value(answer) {
            Ok(words) => Ok(Self { words, effect }),
            Err(cause) => Err(odd_answer(effect, cause)),
        }
    }

    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        self.words.get(at)?.as_deref()
    }

    pub(crate) fn word(&self, at: usize) -> Result<&str> {
        self.text(at).ok_or_else(|| odd_answer(self.effect, &self.words))
    }

    pub(crate) fn number(&self, at: usize) -> Result<u64> {
        self.word(at)?.parse().map_err(|_| odd_answer(self.effect, &self.words))
    }

    /// So many milliseconds; `None` for -1, which is the server's "for ever".
    pub(crate) fn duration(&self, at: usize) -> Option<Duration> {
        self.text(at)?.parse().ok().map(Duration::from_millis)
    }
}

/// What is behind a name.
#[derive(Debug)]
pub(crate) enum Found {
    Lock(Inspection),
    /// A key of this type, which is no lock.
    Alien(String),
}

/// What `inspect.lua` says of one name.
pub(crate) fn found(name: &LockName, answer: Value) -> Result<Found> {
    let mut words = Words::of(answer, Effect::Reads)?;
    let state = words.word(0)?.to_owned();
    if state == "alien" {
        return Ok(Found::Alien(format!("a {}", words.text(3).unwrap_or("value of another type"))));
    }
    let mut inspection = Inspection::free(name.clone());
    inspection.fence = words.text(2).and_then(|fence| fence.parse().ok()).map(Fence::new);
    if state != "free" {
        // As the holder in a "busy" has it: without the counter.
        words.words.remove(2);
        inspection.holders.push(holder(&words, 1));
    }
    Ok(Found::Lock(inspection))
}

/// What `inspect.lua` says of several names.
pub(crate) fn all_found(names: &[LockName], answer: Value) -> Result<Vec<Found>> {
    match answer {
        Value::Array(answers) if answers.len() == names.len() => {
            names.iter().zip(answers).map(|(name, answer)| found(name, answer)).collect()
        }
        answer => Err(odd_answer(Effect::Reads, answer)),
    }
}

/// A holder, described from `at` on by: ms left, token, identity, fence, broken.
pub(crate) fn holder(words: &Words, at: usize) -> Holder {
    let token = words.text(at + 1).and_then(|token| token.parse::<Token>().ok());
    let mut holder = Holder::new(token);
    holder.remaining = words.duration(at);
    holder.identity = words.text(at + 2).and_then(identity);
    holder.fence = words.text(at + 3).and_then(|fence| fence.parse().ok()).map(Fence::new);
    holder.broken = words.text(at + 4).map(str::to_owned);
    holder
}

/// Reads `[label@]host:pid`, from its end: a label may contain anything.
fn identity(text: &str) -> Option<Identity> {
    let (rest, pid) = text.rsplit_once(':')?;
    let (label, host) = match rest.rsplit_once('@') {
        Some((label, host)) => (Some(Arc::from(label)), host),
        None => (None, rest),
    };
    Some(Identity { host: Arc::from(host), pid: pid.parse().ok()?, label })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_its_text() {
        for label in [None, Some("billing"), Some("a@b:c"), Some("")] {
            let written = Identity::of_this_process(label);
            assert_eq!(identity(&written.to_string()), Some(written));
        }
        assert_eq!(identity("somebody"), None);
    }
}
