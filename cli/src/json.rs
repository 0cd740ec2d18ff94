//! JSON output: see `docs/src/cli.md`. Durations are milliseconds.

use std::time::Duration;

use lockwright::Profile;
use lockwright::operator::{Holder, Inspection};
use serde_json::{Value, json};

use crate::rfc3339::rfc3339;

pub(crate) fn inspection(seen: &Inspection) -> Value {
    json!({
        "name": seen.name,
        "holders": seen.holders.iter().map(holder).collect::<Vec<_>>(),
        "free_permits": seen.free_permits(),
        "waiters": seen.waiters,
        "fence": seen.fence,
    })
}

pub(crate) fn holder(holder: &Holder) -> Value {
    json!({
        "token": holder.token,
        "identity": holder.identity,
        "mode": holder.mode,
        "fence": holder.fence,
        "since": holder.since.map(rfc3339),
        "remaining_ms": holder.remaining.map(millis),
        "endless": holder.endless,
        "broken": holder.broken,
    })
}

pub(crate) fn profile(profile: &Profile) -> Value {
    let mut value = json!(profile);
    if let Value::Object(fields) = &mut value {
        fields.remove("slow_poll");
        fields.insert("slow_poll_ms".to_owned(), millis(profile.slow_poll).into());
        fields.insert("shortest_ttl_ms".to_owned(), millis(*profile.ttl.start()).into());
        fields.insert("longest_ttl_ms".to_owned(), millis(*profile.ttl.end()).into());
    }
    value
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
