use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{BreakMode, BreakTarget, Broken, ErrorKind, LockName, Result};
use zookeeper_client as zk;

use crate::claim_removal::deleted;
use crate::errors::{Effect, Failure, error, if_present};
use crate::inspect::{Held, holders, up_to_date};
use crate::notes;
use crate::session::Session;
use crate::sessions::SPARE_TICKS;
use crate::shared::Shared;
use crate::value::Value;

const TRIES: usize = 10;

pub(crate) async fn break_lock(
    shared: &Arc<Shared>,
    name: &LockName,
    seen: BreakTarget,
    how: BreakMode,
    note: &str,
) -> Result<Broken> {
    let session = up_to_date(shared).await?;
    let path = shared.paths.queue(name);
    let is_meant = |held: &Held| match seen {
        BreakTarget::Token(seen) => held.value.as_ref().is_some_and(|value| value.token == seen),
        BreakTarget::Any => true,
    };
    let mut broken = Broken::NotHeld;
    let found = holders(&session, &path).await?.holders;
    for held in found.into_iter().filter(is_meant) {
        broken = broken.and(break_one(shared, &session, &path, held, how, note).await)?;
    }
    Ok(broken)
}

/// Breaks only the hold `seen`, because node names are unique.
async fn break_one(
    shared: &Shared,
    session: &Session,
    queue_path: &str,
    seen: Held,
    how: BreakMode,
    note: &str,
) -> Result<Broken> {
    let path = seen.path.clone();
    let mut found = Some(seen);
    for _ in 0..TRIES {
        let Some(held) = found else { return Ok(Broken::NotHeld) };
        if how == BreakMode::Now {
            if free(session, queue_path, &held, note).await? {
                let ttl = held.value.as_ref().map_or(Duration::MAX, Value::ttl);
                return Ok(Broken::Freed(ttl));
            }
            return Ok(Broken::NotHeld);
        }
        let Some(mut value) = held.value else {
            let message = "the holder isn't a Lockwright client and can't be stopped from \
                           renewing; free the lock at once instead";
            return Err(error(ErrorKind::Conflict, message));
        };
        // A dead client's node ends with the session, up to a tick after the session's timeout,
        // which for a fixed hold exceeds the TTL by `SPARE_TICKS`.
        let left = value.ttl() + shared.limits.tick * (SPARE_TICKS + 1);
        value.broken = Some(note.to_owned());
        let marking = session.client.set_data(&held.path, &value.bytes(), Some(held.stat.version));
        match session.answer(marking).await {
            Ok(_) => return Ok(Broken::RunsOut(left)),
            Err(failure)
                if failure.is(&zk::Error::NoNode) || failure.is(&zk::Error::BadVersion) => {}
            Err(failure) => return Err(failure.error(Effect::Changes)),
        }
        let holders = holders(session, queue_path).await?.holders;
        found = holders.into_iter().find(|held| held.path == path);
    }
    let message = "the holder changed during each attempt to break the lock; retry";
    Err(error(ErrorKind::Unavailable, message))
}

async fn free(session: &Session, queue_path: &str, held: &Held, note: &str) -> Result<bool> {
    let client = &session.client;
    if let Some(Value { token, .. }) = &held.value {
        for _ in 0..TRIES {
            let found = session.read(|| client.get_data(queue_path)).await;
            let Some((data, stat)) = if_present(found, Effect::Reads)? else { return Ok(false) };
            let Some(data) = notes::with(&data, *token, note) else { break };
            let mut both = client.new_multi_writer();
            both.add_delete(&held.path, None)
                .and_then(|()| both.add_set_data(queue_path, &data, Some(stat.version)))
                .map_err(|cause| Failure::Response(cause).error(Effect::Reads))?;
            let committing = both.commit();
            match session.answer(async { committing.await.map_err(zk::Error::from) }).await {
                Ok(_) => return Ok(true),
                Err(Failure::Response(zk::Error::NoNode)) => return Ok(false),
                Err(Failure::Response(zk::Error::BadVersion)) => {}
                // This user can't write the parent.
                Err(Failure::Response(zk::Error::NoAuth)) => break,
                Err(failure) => return Err(failure.error(Effect::Changes)),
            }
        }
    }
    deleted(session.answer(client.delete(&held.path, None)).await)
}
