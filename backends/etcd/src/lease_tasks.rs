use std::sync::Arc;

use tokio::task::JoinSet;

use crate::errors::is_lease_not_found;
use crate::leases::{self, Lease};
use crate::shared::Shared;
use crate::{orphans, release};

pub(crate) fn start(shared: &Arc<Shared>, lease: &Arc<Lease>) {
    let runtime = shared.members.runtime();
    let (shared, lease) = (Arc::clone(shared), Arc::clone(lease));
    runtime.spawn(async move {
        let mut alive = shared.alive.clone();
        let mut orphans = JoinSet::new();
        orphans.spawn(orphans::remove_orphans(Arc::clone(&shared), Arc::clone(&lease)));
        loop {
            let next = lease
                .due()
                .min(lease.idle_deadline().max(shared.clock.now() + release::RETRY_PAUSE));
            tokio::select! {
                _ = alive.changed() => break,
                () = shared.clock.sleep_until(next) => {}
            }
            if lease.is_gone() {
                return;
            }
            if lease.is_finished(shared.clock.now()) {
                break;
            }
            if shared.clock.now() < lease.due() {
                continue;
            }
            let confirming =
                async { (shared.confirm(&lease).await, shared.clock.sleep(release::RETRY_PAUSE)) };
            let (confirmed, pause) = tokio::select! {
                _ = alive.changed() => break,
                confirmed = confirming => confirmed,
            };
            match confirmed {
                Ok(()) => {}
                Err(failure) if is_lease_not_found(&failure) => return,
                Err(failure) => {
                    tracing::debug!(%failure, "etcd: renewing a lease failed, retrying");
                    pause.await;
                }
            }
        }
        shared.leases.remove(&lease);
        if lease.is_empty() {
            leases::revoke(shared.members.in_use(), lease.id).await;
        }
    });
}

pub(crate) fn remove_overdue(shared: &Arc<Shared>) {
    let runtime = shared.members.runtime();
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        let mut alive = shared.alive.clone();
        let mut removals = JoinSet::new();
        loop {
            tokio::select! {
                _ = alive.changed() => return,
                () = shared.registry.until_overdue() => {}
            }
            while removals.try_join_next().is_some() {}
            for (name, token, place) in
                shared.registry.mark_overdue(|place| place.is_overdue = true)
            {
                let shared = Arc::clone(&shared);
                removals
                    .spawn(async move { release::remove_claim(&shared, name, token, place).await });
            }
        }
    });
}
