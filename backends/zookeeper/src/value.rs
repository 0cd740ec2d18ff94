use lockwright_core::{Claim, Fence, Holder, Identity, Mode, Token};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Value {
    pub(crate) token: Token,
    pub(crate) identity: Identity,
    ttl_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broken: Option<String>,
    /// The fence that this reader took from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) taken: Option<u64>,
}

impl Value {
    pub(crate) fn of(claim: &Claim) -> Self {
        Self {
            token: claim.token,
            identity: (*claim.identity).clone(),
            ttl_ms: u64::try_from(claim.ttl.as_millis()).unwrap_or(u64::MAX),
            broken: None,
            taken: None,
        }
    }

    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        serde_json::from_slice(data).ok()
    }

    pub(crate) fn is_broken(data: &[u8]) -> bool {
        Self::read(data).is_some_and(|value| value.broken.is_some())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers are JSON")
    }

    /// Returns at least the claim's TTL: `ttl_ms` is rounded down.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms.saturating_add(1))
    }

    pub(crate) fn fence(value: Option<&Self>, own: Fence) -> Fence {
        value.and_then(|value| value.taken).map_or(own, Fence::new)
    }

    /// Without a value, the node belongs to another program.
    pub(crate) fn holder(value: Option<Self>, mode: Mode, own: Fence) -> Holder {
        let mut holder = Holder::new(value.as_ref().map(|value| value.token));
        holder.mode = mode;
        holder.fence = match mode {
            Mode::Exclusive => Some(own),
            Mode::Shared => Some(Self::fence(value.as_ref(), own)),
            _ => None,
        };
        if let Some(value) = value {
            holder.identity = Some(value.identity);
            holder.broken = value.broken;
        }
        holder
    }
}
