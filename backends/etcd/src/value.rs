//! What stands under a lock's key: who holds, for programs and for people.

use std::sync::Arc;

use lockwright_core::kit::line::Reader;
use lockwright_core::{Claim, Fence, Holder, Identity, Mode, Token, Upkeep};
use serde::{Deserialize, Serialize};

use crate::keys;

/// The value of a key of ours, in JSON. Other programs leave it empty or write what they like: the
/// place in the queue is all that counts for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Value {
    pub(crate) token: Token,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Arc<Identity>>,
    /// Nobody renews it: its lease is its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fixed: bool,
    /// Who broke it and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broken: Option<String>,
    /// It was broken and is on a lease that nobody keeps alive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) moved: bool,
    /// It reads, and this is the fence that it shares with others who do, if that isn't its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) taken: Option<u64>,
}

impl Value {
    pub(crate) fn of(claim: &Claim) -> Self {
        Self {
            token: claim.token,
            identity: Some(Arc::clone(&claim.identity)),
            fixed: claim.upkeep == Upkeep::Fixed,
            broken: None,
            moved: false,
            taken: None,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers can be written as JSON")
    }

    /// `None` for what isn't ours.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// What a tombstone says: that a token was ended, and by whom if it was broken.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Epitaph {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broken: Option<String>,
    /// By which request, so that whoever sent it knows it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<Token>,
}

impl Epitaph {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts can be written as JSON")
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }
}

/// A key of a lock's queue, as the server has it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) lease: i64,
    /// `None` for what isn't ours.
    pub(crate) value: Option<Value>,
}

impl Entry {
    pub(crate) fn of(found: &etcd_client::KeyValue) -> Self {
        Self {
            key: found.key().to_vec(),
            created: found.create_revision(),
            modified: found.mod_revision(),
            lease: found.lease(),
            value: Value::read(found.value()),
        }
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.value.as_ref().map(|value| value.token)
    }

    pub(crate) fn broken(&self) -> Option<&str> {
        self.value.as_ref().and_then(|value| value.broken.as_deref())
    }

    /// How it wants to hold.
    pub(crate) fn mode(&self) -> Mode {
        keys::mode(&self.key)
    }

    /// The fence that it has, if it holds, or the number of permits.
    pub(crate) fn fence(&self) -> Fence {
        match self.mode() {
            Mode::Shared => Fence::new(self.reader().fence()),
            _ => fence(self.created),
        }
    }

    pub(crate) fn reader(&self) -> Reader {
        let taken = self.value.as_ref().and_then(|value| value.taken);
        Reader { created: fence(self.created).get(), taken }
    }

    /// As operators see it. How long it lasts is its lease's to say.
    pub(crate) fn holder(&self) -> Holder {
        let mut holder = Holder::new(self.token());
        holder.mode = self.mode();
        // The numbers of permits are no fences.
        holder.fence = (!matches!(holder.mode, Mode::Permits { .. })).then(|| self.fence());
        if let Some(value) = &self.value {
            holder.identity = value.identity.as_deref().cloned();
            holder.broken.clone_from(&value.broken);
        }
        holder
    }
}

/// Revisions begin at 1 and are never negative.
pub(crate) fn fence(revision: i64) -> Fence {
    Fence::new(revision.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_its_bytes_and_others_are_nobody() {
        let value = Value {
            token: Token::random(),
            identity: Some(Arc::new(Identity::of_this_process(Some("a \"b\"")))),
            fixed: true,
            broken: Some("me: why".to_owned()),
            moved: true,
            taken: Some(7),
        };
        assert_eq!(Value::read(&value.bytes()).as_ref(), Some(&value));
        for other in [&b""[..], b"host-7", b"{}", b"{\"token\":\"x\"}"] {
            assert_eq!(Value::read(other), None);
        }
    }
}
