use std::collections::HashMap;
use std::time::Duration;

use crate::case::{Case, cases};
use crate::context::Context;
use crate::failure::{Verdict, ensure};

pub(super) const CASES: &[Case] = cases! { Operator:
    a_holder_is_shown []
        "inspect shows the holder's token, identity, mode and remaining time";
    a_free_name_is_no_error []
        "inspect shows a name that was never locked as free";
    a_listing_has_each_name_once []
        "a listing of several pages has each held name once, and no other name";
    a_doctor_has_something_to_say []
        "doctor succeeds, and each finding has a message, a reason and a remedy";
};

async fn a_holder_is_shown(context: Context) -> Verdict {
    let claim = context.taken(context.claim("x")).await?;
    let inspection = context.backend.inspect(&claim.name).await?;
    ensure!(inspection.name == claim.name, "inspect shows the name {}", inspection.name);
    ensure!(inspection.holders.len() == 1, "inspect shows {} holders", inspection.holders.len());
    let holder = &inspection.holders[0];
    ensure!(holder.token == Some(claim.token), "inspect shows the token {:?}", holder.token);
    ensure!(holder.mode == claim.mode, "inspect shows the mode {}", holder.mode);
    ensure!(holder.broken.is_none(), "inspect shows the hold as broken");
    if let Some(identity) = &holder.identity {
        ensure!(*identity == *claim.identity, "inspect shows the identity {identity}");
    }
    if let Some(remaining) = holder.remaining {
        let most = context.ttl + Duration::from_secs(1);
        ensure!(!remaining.is_zero() && remaining <= most, "{remaining:?} are left");
    }
    if let Some(since) = holder.since {
        // The server's clock may differ from this machine's.
        let age = since.elapsed().unwrap_or_default();
        ensure!(age < Duration::from_secs(3600), "a new hold is shown as {age:?} old");
    }
    context.release(&claim).await
}

async fn a_free_name_is_no_error(context: Context) -> Verdict {
    let inspection = context.backend.inspect(&context.name("never")).await?;
    let holders = inspection.holders;
    ensure!(holders.is_empty(), "a name that was never locked is held by {holders:?}");
    let waiters = inspection.waiters.unwrap_or(0);
    ensure!(waiters == 0, "inspect shows waiters of a name that was never locked");
    context.is_free("once").await?;
    let holders = context.holders("once").await?;
    ensure!(holders.is_empty(), "after its release, the name is held by {holders:?}");
    Ok(())
}

async fn a_listing_has_each_name_once(context: Context) -> Verdict {
    const NAMES: usize = 230;
    let claims = context.long_claims(NAMES);
    context.take_all(&claims).await?;
    let mut listed: HashMap<String, usize> = HashMap::new();
    for name in context.held().await? {
        *listed.entry(name.to_string()).or_default() += 1;
    }
    for claim in &claims {
        let times = listed.remove(claim.name.as_str()).unwrap_or_default();
        ensure!(times == 1, "{} is listed {times} times", claim.name);
    }
    ensure!(listed.is_empty(), "names without a holder are listed: {listed:?}");
    context.release_all(&claims).await
}

async fn a_doctor_has_something_to_say(context: Context) -> Verdict {
    for finding in context.backend.doctor().await? {
        let complete = [finding.code, &finding.what, &finding.why, &finding.fix];
        let is_complete = complete.iter().all(|text| !text.is_empty());
        ensure!(is_complete, "the finding is incomplete: {finding:?}");
        let kebab =
            finding.code.bytes().all(|b| b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit());
        ensure!(kebab, "the finding's code is {:?}", finding.code);
    }
    Ok(())
}
