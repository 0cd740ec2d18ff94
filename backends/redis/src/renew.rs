use lockwright_core::{Mode, Reason, Renew, Renewal, Result};
use redis::Value;

use crate::acquire::millis_rounded_up;
use crate::answer::Reply;
use crate::cluster::slot_migration::Hold;
use crate::errors::{Effect, odd_answer};
use crate::keys::Keys;

pub(crate) struct Batch {
    keys: Vec<(Keys, String, Mode)>,
    arguments: Vec<String>,
}

impl Batch {
    pub(crate) fn new(prefix: &str, holds: &[Renew<'_>]) -> Result<Self> {
        let mut batch = Self { keys: Vec::with_capacity(holds.len()), arguments: Vec::new() };
        for Renew { claim, .. } in holds {
            let keys = Keys::new(prefix, &claim.name)?;
            let tombstone = keys.tombstone(claim.token);
            batch.keys.push((keys, tombstone, claim.mode));
            batch.arguments.push(claim.token.to_string());
            batch.arguments.push(millis_rounded_up(claim.ttl).to_string());
            let kind = if claim.mode == Mode::Exclusive { "x" } else { "s" };
            batch.arguments.push(kind.to_owned());
        }
        Ok(batch)
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        self.keys_with(|_, tombstone| tombstone)
    }

    /// Omits the tombstones, which usually don't exist: while a slot moves, all keys of a script must exist.
    pub(crate) fn keys_of_a_slot(&self) -> Vec<&str> {
        // A fence never looks like a break.
        self.keys_with(|keys, _| keys.fence())
    }

    fn keys_with<'b>(&'b self, key_for: impl Fn(&'b Keys, &'b str) -> &'b str) -> Vec<&'b str> {
        let mut all = Vec::with_capacity(4 * self.keys.len());
        for (keys, tombstone, mode) in &self.keys {
            let key = key_for(keys, tombstone);
            if *mode == Mode::Exclusive {
                all.extend([keys.lock(), keys.fence(), key]);
            } else {
                all.extend([keys.lock(), keys.fence(), keys.holders(), key, keys.meta()]);
            }
        }
        all
    }

    pub(crate) fn arguments(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    pub(crate) fn holds(&self) -> impl Iterator<Item = (Hold<'_>, &str)> {
        let arguments = self.arguments.chunks_exact(3);
        self.keys.iter().zip(arguments).map(|((keys, tombstone, mode), arguments)| {
            (Hold { keys, tombstone, token: &arguments[0], mode: *mode }, arguments[1].as_str())
        })
    }

    pub(crate) fn renewals(&self, answer: Value) -> Result<Vec<Renewal>> {
        let reply = Reply::of(answer, Effect::Changes)?;
        (0..self.keys.len())
            .map(|at| match reply.word(at)? {
                "renewed" => Ok(Renewal::RENEWED),
                // Too few replicas have it.
                "unsure" => Ok(Renewal::INDETERMINATE),
                "broken" => Ok(Renewal::not_held(Reason::Broken)),
                "gone" => Ok(Renewal::not_held(Reason::Gone)),
                _ => Err(odd_answer(Effect::Changes, &reply)),
            })
            .collect()
    }

    /// `None` for the wrong incarnation.
    pub(crate) fn renewals_of_a_node(&self, answer: Value) -> Result<Option<Vec<Renewal>>> {
        let is_wrong_incarnation = matches!(
            &answer,
            Value::Array(fields) if matches!(&fields[..], [Value::BulkString(word)] if word == b"stranger")
        );
        if is_wrong_incarnation { Ok(None) } else { self.renewals(answer).map(Some) }
    }
}
