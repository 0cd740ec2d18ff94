use std::sync::Arc;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use lockwright_core::{ErrorKind, Result};

use crate::acquire::{AcquireSteps, Step, ended, several};
use crate::errors::{Effect, is_lease_not_found};
use crate::keys::{after, is_in_queue};
use crate::leases::Lease;
use crate::queue::QueueKey;
use crate::shared::{TxnReply, first, last};
use crate::value::{self, Tombstone, Value};

impl AcquireSteps<'_> {
    pub(crate) async fn enqueue(&mut self, lease: Arc<Lease>) -> Result<Step> {
        let (shared, claim) = (self.shared, self.claim);
        let key = shared.keys().own(claim, lease.id);
        let queue = shared.keys().queue(&claim.name);
        let tombstone = shared.keys().tombstone(claim.token);
        let put = TxnOp::put(
            key.clone(),
            Value::of(claim).bytes(),
            Some(PutOptions::new().with_lease(lease.id)),
        );
        let mut conditions = vec![is_new(&key), is_new(&tombstone)];
        let (mut put_and_read, owner) =
            (vec![put], || TxnOp::get(queue.clone(), Some(first(i64::MAX))));
        let queues = self.waits || self.must_queue;
        if queues {
            put_and_read.push(owner());
            put_and_read.push(TxnOp::get(queue.clone(), Some(last(i64::MAX).with_limit(2))));
        } else {
            conditions.push(is_new(&queue).with_range(after(&queue)));
        }
        let txn = Txn::new().when(conditions).and_then(put_and_read).or_else([
            TxnOp::get(key.clone(), None),
            TxnOp::get(tombstone, None),
            owner(),
        ]);
        let Some((answered, is_unsure)) = self.send(txn, &lease, &key).await? else {
            return Ok(Step::Again);
        };
        if answered.succeeded {
            let place = self.enter(&lease, &key, answered.revision, is_unsure);
            if !queues {
                return self.granted(&place, value::fence(place.created), false).await;
            }
            let [owner, newest] = several(answered.found);
            let mut newest = newest.keys.iter().map(QueueKey::of);
            let previous = newest.find(|other| other.created < place.created);
            return self.place(&place, owner, previous).await;
        }
        self.refused(&lease, &key, &queue, is_unsure, answered).await
    }

    async fn refused(
        &mut self,
        lease: &Arc<Lease>,
        key: &[u8],
        queue: &[u8],
        is_unsure: bool,
        answered: TxnReply,
    ) -> Result<Step> {
        let claim = self.claim;
        let [own, tombstone, owner] = several(answered.found);
        self.refuse_ended(lease, tombstone.as_tombstone())?;
        if let Some(own) = own.first() {
            if own.token() == Some(claim.token) {
                self.enter(lease, key, own.created, is_unsure);
            } else {
                lease.retire();
                self.give_up(is_unsure).await?;
            }
            return Ok(Step::Again);
        }
        let Some(owner) = owner.first() else { return Ok(Step::Again) };
        if !is_in_queue(queue, &owner.key) {
            self.must_queue = true;
            self.enter(lease, key, 0, is_unsure);
            return Ok(Step::Again);
        }
        if owner.token() == Some(claim.token) {
            return self.take_over(&owner).await;
        }
        self.enter(lease, key, 0, is_unsure);
        self.refuse_another_kind(&owner).await?;
        Ok(self.reject_busy(is_unsure, &owner))
    }

    /// Sends the transaction. Returns `None` if the lease has ended, otherwise the reply and
    /// whether an unanswered copy may still arrive.
    pub(crate) async fn send(
        &self,
        txn: Txn,
        lease: &Arc<Lease>,
        key: &[u8],
    ) -> Result<Option<(TxnReply, bool)>> {
        let (shared, claim) = (self.shared, self.claim);
        let before = self.is_unsure();
        // Register first: unregistered keys are removed as orphans.
        self.enter(lease, key, 0, true);
        match shared.transact(txn, Effect::Changes, Some(lease)).await {
            Ok(answered) => {
                let is_unsure = before || answered.was_unsure;
                Ok(Some((answered, is_unsure)))
            }
            Err(failure) if is_lease_not_found(&failure) => {
                shared.lose(lease);
                Ok(None)
            }
            Err(failure) => {
                // An indeterminate request may still arrive.
                if failure.kind() != ErrorKind::Indeterminate && !before {
                    shared.forget(claim);
                }
                Err(failure)
            }
        }
    }

    pub(crate) fn refuse_ended(&self, lease: &Lease, tombstone: Option<Tombstone>) -> Result<()> {
        let Some(tombstone) = tombstone else { return Ok(()) };
        lease.count_tombstone(self.shared.clock.now());
        self.shared.forget(self.claim);
        Err(ended(tombstone.broken.as_deref()))
    }
}

pub(crate) fn is_new(key: &[u8]) -> Compare {
    Compare::create_revision(key, CompareOp::Equal, 0)
}
