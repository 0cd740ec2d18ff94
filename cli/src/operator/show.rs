use std::time::{Duration, SystemTime};

use lockwright::Locks;
use lockwright::operator::{Holder, Inspection};

use super::print_result;
use super::table::table;
use crate::json::inspection;
use crate::rfc3339::rfc3339;
use crate::run::holder_name;
use crate::{Failure, duration, escape};

const FREE: u8 = 1;

pub(super) async fn list(locks: &Locks, prefix: &str, json: bool) -> Result<u8, Failure> {
    let names = locks.list(prefix).await?;
    let rows: Vec<_> = names.iter().flat_map(rows).collect();
    let text = if names.is_empty() {
        "no lock is held\n".to_owned()
    } else {
        table(["NAME", "MODE", "HELD BY", "FENCE", "SINCE", "LEFT", "WAITING"], &rows)
    };
    print_result(json, &names.iter().map(inspection).collect::<Vec<_>>(), &text)?;
    Ok(0)
}

fn rows(seen: &Inspection) -> impl Iterator<Item = [String; 7]> {
    seen.holders.iter().map(|holder| {
        [
            escape(seen.name.as_str()),
            holder.mode.to_string(),
            holder_name(holder),
            holder.fence.map_or_else(String::new, |fence| fence.to_string()),
            age(holder).map_or_else(String::new, duration::show_elapsed),
            left(holder),
            seen.waiters.map_or_else(String::new, |waiters| waiters.to_string()),
        ]
    })
}

pub(super) async fn show(locks: &Locks, name: &str, json: bool) -> Result<u8, Failure> {
    let seen = locks.inspect(name).await?;
    print_result(json, &inspection(&seen), &describe(&seen))?;
    Ok(if seen.holders.is_empty() { FREE } else { 0 })
}

pub(super) fn describe(seen: &Inspection) -> String {
    let name = escape(seen.name.as_str());
    let mut text = match seen.holders.len() {
        0 => format!("{name}: free\n"),
        1 => format!("{name}: held\n"),
        n => format!("{name}: held by {n}\n"),
    };
    let mut fact = |what: &str, is: String| text.push_str(&format!("  {what:<12}{is}\n"));
    for holder in &seen.holders {
        fact("by", format!("{} ({})", holder_name(holder), holder.mode));
        if let Some(fence) = holder.fence {
            fact("fence", fence.to_string());
        }
        if let (Some(since), Some(age)) = (holder.since, age(holder)) {
            fact("since", format!("{} ({})", rfc3339(since), duration::show_elapsed(age)));
        }
        fact("left", left(holder));
        if let Some(token) = holder.token {
            fact("token", token.to_string());
        }
        if let Some(broken) = &holder.broken {
            fact("broken", escape(broken));
        }
    }
    if let Some(fence) = seen.fence.filter(|_| seen.holders.is_empty()) {
        fact("last fence", fence.to_string());
    }
    if let Some(free) = seen.free_permits() {
        fact("free", format!("{free} permits"));
    }
    if let Some(waiters) = seen.waiters {
        fact("waiting", waiters.to_string());
    }
    text
}

pub(super) fn age(holder: &Holder) -> Option<Duration> {
    SystemTime::now().duration_since(holder.since?).ok()
}

pub(super) fn left(holder: &Holder) -> String {
    let mut left = match holder.remaining {
        Some(left) => duration::show(left),
        None if holder.endless => "without limit".to_owned(),
        None => "not known".to_owned(),
    };
    if holder.broken.is_some() {
        left.push_str(", broken");
    }
    left
}
