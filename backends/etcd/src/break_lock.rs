use std::sync::Arc;
use std::time::Duration;

use etcd_client::{PutOptions, Txn, TxnOp};
use lockwright_core::{
    BreakMode, BreakTarget, Broken, ErrorKind, Event, LockName, Reason, Result, Token,
};

use crate::errors::{Effect, error, is_lease_not_found};
use crate::leases::seconds;
use crate::shared::{Found, Shared, TxnReply};
use crate::value::{Entry, Tombstone, Value};

const TRIES: usize = 10;

pub(crate) async fn break_lock(
    shared: &Arc<Shared>,
    name: &LockName,
    seen: BreakTarget,
    how: BreakMode,
    note: &str,
) -> Result<Broken> {
    let is_meant = |entry: &Entry| match seen {
        BreakTarget::Token(token) => entry.token() == Some(token),
        BreakTarget::Any => true,
    };
    let holders = shared.queue(name, None).await?.holders;
    let mut broken = Broken::NotHeld;
    for seen in holders.into_iter().filter(is_meant) {
        broken = broken.and(break_one(shared, name, seen, how, note).await)?;
    }
    Ok(broken)
}

async fn break_one(
    shared: &Arc<Shared>,
    name: &LockName,
    seen: Entry,
    how: BreakMode,
    note: &str,
) -> Result<Broken> {
    let created = seen.created;
    let mut found = Some(seen);
    for _ in 0..TRIES {
        let Some(entry) = found else { return Ok(Broken::NotHeld) };
        let broken = match how {
            BreakMode::Now => free(shared, &entry, note).await?,
            BreakMode::RunOut => let_run_out(shared, &entry, note).await?,
        };
        if let Some(broken) = broken {
            return Ok(broken);
        }
        let holders = shared.queue(name, None).await?.holders;
        found = holders.into_iter().find(|entry| entry.created == created);
    }
    let message = "the holder changed during each attempt to break the lock; retry";
    Err(error(ErrorKind::Unavailable, message))
}

/// Returns how long the holder may rely on the hold: a fixed one for the time `left`, a renewable
/// one for the whole TTL `granted`, because the holder may just have renewed it.
fn valid_for(entry: &Entry, left: Duration, granted: Duration) -> Duration {
    let is_fixed = entry.value.as_ref().is_some_and(|value| value.fixed);
    if is_fixed { left } else { granted }
}

async fn free(shared: &Shared, entry: &Entry, note: &str) -> Result<Option<Broken>> {
    let Some((left, granted)) = shared.time_to_live(entry.lease).await? else { return Ok(None) };
    let request = Token::random();
    let mut ending = vec![TxnOp::delete(entry.key.clone(), None)];
    let mut looking = vec![TxnOp::get(entry.key.clone(), None)];
    if let Some(token) = entry.token() {
        let tombstone = Tombstone { broken: Some(note.to_owned()), request: Some(request) }.bytes();
        let on_lease = PutOptions::new().with_lease(entry.lease);
        ending.push(TxnOp::put(shared.keys().tombstone(token), tombstone, Some(on_lease)));
        looking.push(TxnOp::get(shared.keys().tombstone(token), None));
        shared.leases.count_tombstone(entry.lease, shared.clock.now());
    }
    let txn = Txn::new().when([entry.is_unchanged()]).and_then(ending).or_else(looking);
    let answered = match shared.transact(txn, Effect::Changes, None).await {
        Ok(answered) => answered,
        Err(failure) if is_lease_not_found(&failure) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    if !answered.succeeded && !did_first_request(&answered, entry, request)? {
        return Ok(None);
    }
    if let Some(token) = shared.wakeups.forget(&entry.key) {
        shared.wakeups.subscribers.send(&Event::Lost(token, Reason::Broken));
    }
    Ok(Some(Broken::Freed(valid_for(entry, left, granted))))
}

fn did_first_request(answered: &TxnReply, entry: &Entry, request: Token) -> Result<bool> {
    let found = answered.found.first().and_then(Found::first);
    if !answered.was_unsure || found.is_some_and(|found| found.created == entry.created) {
        return Ok(false);
    }
    match answered.found.get(1).and_then(Found::as_tombstone) {
        Some(tombstone) if tombstone.request == Some(request) => Ok(true),
        Some(tombstone) if tombstone.broken.is_some() => Ok(false),
        _ => Err(Effect::Changes.unanswered(
            "the lock is no longer held, but it is unknown whether this request or the holder \
             released it",
        )),
    }
}

/// Marks the hold as broken, which rejects renewals, and moves it to a lease without renewals.
async fn let_run_out(shared: &Arc<Shared>, entry: &Entry, note: &str) -> Result<Option<Broken>> {
    let Some(value) = &entry.value else {
        let message = "the holder isn't a Lockwright client and can't be stopped from renewing; \
                       free the lock at once instead";
        return Err(error(ErrorKind::Conflict, message));
    };
    if entry.lease == 0 {
        let message =
            "the holder's key has no lease and never expires; free the lock at once instead";
        return Err(error(ErrorKind::Conflict, message));
    }
    let mut marked = entry.clone();
    if entry.broken().is_none() {
        let value = Value { broken: Some(note.to_owned()), ..value.clone() };
        let on_its_lease = PutOptions::new().with_ignore_lease();
        let marking = TxnOp::put(entry.key.clone(), value.bytes(), Some(on_its_lease));
        let txn = Txn::new().when([entry.is_unchanged()]).and_then([marking]);
        let answered = shared.transact(txn, Effect::Changes, None).await?;
        if !answered.succeeded {
            return Ok(None);
        }
        marked = Entry { modified: answered.revision, value: Some(value), ..marked };
    }
    let moved = move_marked(shared, marked).await.map_err(|failure| {
        if failure.kind() == ErrorKind::Indeterminate {
            return failure;
        }
        let what = "the hold was marked and can't be renewed, but moving it to an expiring lease \
                    failed; break it again";
        Effect::Changes.unanswered(what).with_source(failure)
    })?;
    Ok(Some(moved))
}

async fn move_marked(shared: &Arc<Shared>, mut marked: Entry) -> Result<Broken> {
    for _ in 0..TRIES {
        let Some(value) = marked.value.clone().filter(|value| value.broken.is_some()) else {
            break;
        };
        let known = shared.time_to_live(marked.lease).await?;
        let looking = || TxnOp::get(marked.key.clone(), None);
        let (txn, lease) = match known {
            Some((left, _)) if value.moved => return Ok(Broken::RunsOut(left)),
            Some((left, granted)) => {
                let lasts = valid_for(&marked, left, granted);
                let limit = shared.members.config.response_timeout;
                let lease = shared.grant_lease(seconds(lasts).max(1), limit, None).await?;
                let value = Value { moved: true, ..value };
                let on_lease = PutOptions::new().with_lease(lease.id);
                let moving = TxnOp::put(marked.key.clone(), value.bytes(), Some(on_lease));
                let txn = Txn::new().when([marked.is_unchanged()]).and_then([moving]);
                (txn.or_else([looking()]), Some(lease))
            }
            None => (Txn::new().and_then([looking()]), None),
        };
        let answered = shared.transact(txn, Effect::Changes, None).await?;
        let found = answered.found.first().and_then(Found::first);
        if let Some(lease) = lease {
            if answered.succeeded {
                return Ok(Broken::RunsOut(lease.ttl));
            }
            // Revoke the new lease, unless an unanswered copy of the request moved the key to it.
            if found.as_ref().is_none_or(|found| found.lease != lease.id) {
                shared.revoke_soon(&lease);
            }
        }
        match found.filter(|found| found.created == marked.created) {
            Some(found) => marked = found,
            None => break,
        }
    }
    Ok(Broken::RunsOut(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::{claim, grant, released, renewed};
    use lockwright_core::ReleaseMode;
    use lockwright_testbed as testbed;

    use super::*;
    use crate::Etcd;

    #[tokio::test(flavor = "multi_thread")]
    async fn break_of_an_ended_hold_leaves_the_next_one_on_etcd() {
        let server = testbed::Etcd::options().members(1).start().unwrap();
        let etcd = Etcd::connect(&server.url()).await.unwrap();
        let (ended, next) = (claim("x"), claim("x"));
        let (shared, name) = (&etcd.shared, &ended.name);
        grant(&etcd, &ended).await;
        let seen = shared.queue(name, None).await.unwrap().holders.remove(0);
        released(&etcd, &ended, ReleaseMode::Plain).await;
        grant(&etcd, &next).await;
        assert_eq!(shared.registry.place(&next).unwrap().key, seen.key);
        for how in [BreakMode::Now, BreakMode::RunOut] {
            let broken = break_one(shared, name, seen.clone(), how, "me: why").await;
            assert_eq!(broken.unwrap(), Broken::NotHeld);
        }
        renewed(&etcd, &next).await;
        let (left, granted) = (Duration::from_secs(1), ended.ttl);
        assert_eq!(valid_for(&seen, left, granted), granted, "it may just have been renewed");
    }
}
