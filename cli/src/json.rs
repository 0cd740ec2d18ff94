//! What the server shows, as the JSON that `docs/src/cli.md` describes: times are numbers of
//! milliseconds, and a field that the library gains later doesn't show up unnoticed.

use std::time::Duration;

use lockwright::{Holder, Inspection};
use serde_json::{Value, json};

/// A name and its holders.
pub(crate) fn inspection(seen: &Inspection) -> Value {
    json!({
        "name": seen.name,
        "holders": seen.holders.iter().map(holder).collect::<Vec<_>>(),
        "waiters": seen.waiters,
        "fence": seen.fence,
    })
}

/// One hold.
pub(crate) fn holder(holder: &Holder) -> Value {
    json!({
        "token": holder.token,
        "identity": holder.identity,
        "mode": holder.mode,
        "fence": holder.fence,
        "remaining_ms": holder.remaining.map(millis),
        "broken": holder.broken,
    })
}

/// A time, as JSON has it.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
