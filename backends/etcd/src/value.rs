use std::sync::Arc;

use etcd_client::{Compare, CompareOp};
use lockwright_core::backend_util::queue_admission::Reader;
use lockwright_core::{Claim, Fence, Holder, Identity, Mode, RenewalMode, Token};
use serde::{Deserialize, Serialize};

use crate::keys;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Value {
    pub(crate) token: Token,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Arc<Identity>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fixed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broken: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) moved: bool,
    /// The fence that this reader took from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) taken: Option<u64>,
}

impl Value {
    pub(crate) fn of(claim: &Claim) -> Self {
        Self {
            token: claim.token,
            identity: Some(Arc::clone(&claim.identity)),
            fixed: claim.renewal_mode == RenewalMode::Off,
            broken: None,
            moved: false,
            taken: None,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers can be written as JSON")
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broken: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<Token>,
}

impl Tombstone {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts can be written as JSON")
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) lease: i64,
    /// `None` if another program wrote the value.
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

    pub(crate) fn is_unchanged(&self) -> Compare {
        Compare::mod_revision(self.key.clone(), CompareOp::Equal, self.modified)
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.value.as_ref().map(|value| value.token)
    }

    pub(crate) fn broken(&self) -> Option<&str> {
        self.value.as_ref().and_then(|value| value.broken.as_deref())
    }

    pub(crate) fn mode(&self) -> Mode {
        keys::mode(&self.key)
    }

    /// Permits are held concurrently, so their fences mean nothing.
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

    pub(crate) fn holder(&self) -> Holder {
        let mut holder = Holder::new(self.token());
        holder.mode = self.mode();
        holder.fence = (!matches!(holder.mode, Mode::Permits { .. })).then(|| self.fence());
        if let Some(value) = &self.value {
            holder.identity = value.identity.as_deref().cloned();
            holder.broken.clone_from(&value.broken);
        }
        holder
    }
}

pub(crate) fn fence(revision: i64) -> Fence {
    Fence::new(revision.unsigned_abs())
}
