use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::backend_util::queue_admission;
use lockwright_core::{
    AcquireOutcome, BootInstant, Busy, Claim, Error, ErrorKind, Fence, Granted, Mode, Reason,
    Result, Wait,
};
use zookeeper_client as zk;

use crate::claim_removal::deleted;
use crate::errors::{BACKEND, Effect, Failure, error, if_present, no_chroot};
use crate::paths::node;
use crate::queue::{Contender, can_be_admitted, modes, queue};
use crate::registration::{expired, lost, maybe_indeterminate, refuse_broken, registered_place};
use crate::session::Session;
use crate::shared::{Node, Place, Shared};
use crate::value::Value;
use crate::wakeup::{POLL, watch};

/// Each attempt fails if the servers have removed the empty parent.
const PARENT_TRIES: usize = 10;

const FENCE_TRIES: usize = 10;

pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    claim: &Claim,
    wait: Wait,
) -> Result<AcquireOutcome> {
    let begun = shared.clock.now();
    let mut session = None;
    let mut answer = attempt(shared, claim, wait, begun, &mut session).await;
    // Retry in a new session if this one has ended, or is unfit and the claim isn't registered.
    if answer.is_err() && session.take().is_some_and(|session| is_stale(shared, claim, &session)) {
        answer = attempt(shared, claim, wait, begun, &mut session).await;
    }
    answer.map_err(|error| maybe_indeterminate(shared, claim, error))
}

/// Uses the claim's registered session if that is open, otherwise that for its TTL. Stores the
/// session in `used`, unless the claim is held: a hold ends with its session, so a retry can't
/// help.
async fn attempt(
    shared: &Arc<Shared>,
    claim: &Claim,
    wait: Wait,
    begun: BootInstant,
    used: &mut Option<Arc<Session>>,
) -> Result<AcquireOutcome> {
    let queue_path = shared.paths.queue(&claim.name);
    let (session, known) = match registered_place(shared, claim)? {
        Some(place) if !place.session.is_over() => (Arc::clone(&place.session), Some(place)),
        ended => {
            let session = shared.session(claim).await?;
            if ended.is_some() {
                refuse_broken(shared, &session, claim).await?;
                shared.registry.leave(claim);
            }
            (session, None)
        }
    };
    *used = known.as_ref().is_none_or(|place| !place.is_held).then(|| Arc::clone(&session));
    Acquire { shared, claim, wait, begun, session, queue_path }.run(known).await
}

fn is_stale(shared: &Shared, claim: &Claim, session: &Session) -> bool {
    session.is_over() || (shared.registry.place(claim).is_none() && !session.is_fit())
}

pub(crate) struct Acquire<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) claim: &'a Claim,
    pub(crate) wait: Wait,
    pub(crate) begun: BootInstant,
    pub(crate) session: Arc<Session>,
    pub(crate) queue_path: String,
}

impl Acquire<'_> {
    async fn run(&self, known: Option<Place>) -> Result<AcquireOutcome> {
        match known {
            None => {}
            Some(Place { node: Some(node), is_held, .. }) => {
                return self.repeat(node, is_held).await;
            }
            // The node's creation was not answered. `prove` waits until it was carried out or
            // rejected.
            Some(Place { node: None, .. }) => {
                self.session.prove().await?;
                let queue = self.read_queue().await?;
                if let Some(at) = self.own(&queue) {
                    return self.adopt(queue, at).await;
                }
                // The node was never created, or a break removed it.
                refuse_broken(self.shared, &self.session, self.claim).await?;
                return self.enqueue(false).await;
            }
        }
        let mut parent_is_missing = false;
        if self.wait == Wait::No {
            match self.check_queue().await? {
                ControlFlow::Break(outcome) => return Ok(outcome),
                ControlFlow::Continue(is_missing) => parent_is_missing = is_missing,
            }
        }
        // With an unverified session timeout, the claim wouldn't be granted, and would block other
        // waiters.
        let trusted = self.session.trusted().await;
        trusted.map_err(|cause| error(ErrorKind::Unavailable, cause.message()))?;
        // Register the claim before its node exists, so that an overdue claim's node is removed.
        let end = self.shared.end_of_wait(self.claim);
        self.shared.registry.enter(self.claim, Place::new(&self.session), end);
        self.enqueue(parent_is_missing).await
    }

    /// Returns the outcome, or `Continue` if the claim can be granted: `Continue(true)` if the
    /// queue's node is missing.
    async fn check_queue(&self) -> Result<ControlFlow<AcquireOutcome, bool>> {
        let client = &self.session.client;
        let looking = || client.list_children(&self.queue_path);
        let queue = match if_present(self.session.read(looking).await, Effect::Reads)? {
            Some(children) => queue(children),
            None => return Ok(ControlFlow::Continue(true)),
        };
        if let Some(at) = self.own(&queue) {
            return Ok(ControlFlow::Break(self.adopt(queue, at).await?));
        }
        if queue_admission::admits(&modes(&queue), self.claim.mode) {
            return Ok(ControlFlow::Continue(false));
        }
        // The session's server may lag behind, so sync and read again.
        let sync = || client.sync(&self.queue_path);
        self.session.read(sync).await.map_err(|failure| failure.error(Effect::Reads))?;
        let queue = self.read_queue().await?;
        if queue_admission::admits(&modes(&queue), self.claim.mode) {
            return Ok(ControlFlow::Continue(false));
        }
        self.refuse_another_kind(&queue)?;
        Ok(ControlFlow::Break(AcquireOutcome::Busy(Busy::default())))
    }

    fn refuse_another_kind(&self, queue: &[Contender]) -> Result<()> {
        match queue.first().map(|first| first.mode) {
            Some(present) if !present.is_of_the_kind_of(self.claim.mode) => {
                Err(Error::other_kind(self.claim.mode).with_backend(BACKEND))
            }
            _ => Ok(()),
        }
    }

    async fn enqueue(&self, mut parent_is_missing: bool) -> Result<AcquireOutcome> {
        let prefix = format!("{}/{}", self.queue_path, node(self.claim));
        let data = Value::of(self.claim).bytes();
        let options = zk::CreateMode::EphemeralSequential.with_acls(self.shared.acls());
        for _ in 0..PARENT_TRIES {
            // The removal of an overdue claim would miss a node created now.
            if !self.shared.keep(self.claim, self.shared.end_of_wait(self.claim)) {
                return Err(expired(self.shared, self.claim));
            }
            // These calls send the requests at once, in this order.
            let client = &self.session.client;
            let parent = parent_is_missing.then(|| self.make_parent());
            let creating = client.create(&prefix, &data, &options);
            let looking = client.list_children(&self.queue_path);
            let parent = if let Some(parent) = parent { parent.await } else { Ok(()) };
            let created = self.session.answer(creating).await;
            if let Err(cause) = parent {
                use zk::Error::{InvalidAcl, NoAuth, NoNode};
                if matches!(created, Err(Failure::Response(NoNode | NoAuth | InvalidAcl))) {
                    self.shared.registry.leave(self.claim);
                }
                return Err(cause);
            }
            let (stat, sequence) = match created {
                Ok(created) => created,
                Err(failure) if failure.is(&zk::Error::NoNode) => {
                    parent_is_missing = true;
                    continue;
                }
                Err(failure) => {
                    let error = failure.error(Effect::Changes);
                    if error.kind() != ErrorKind::Indeterminate {
                        self.shared.registry.leave(self.claim);
                    }
                    return Err(error);
                }
            };
            if stat.ephemeral_owner != self.session.id() {
                let message = "the servers created a node that doesn't end with its session: they \
                               are too old; use ZooKeeper 3.5 or newer";
                return Err(error(ErrorKind::Indeterminate, message));
            }
            let own = Node::new(format!("{prefix}{sequence}"), fence(&stat)?);
            self.note(&own, false)?;
            let queue = self.read_queue_from(looking).await?;
            return match self.own(&queue) {
                // The claim has an earlier node. Use it, and remove the new one.
                Some(at) if !own.path.ends_with(&queue[at].node) => {
                    let removing = self.session.client.delete(&own.path, None);
                    deleted(self.session.answer(removing).await)?;
                    self.adopt(queue, at).await
                }
                Some(at) => self.grant_if_admitted(queue, at, own).await,
                None => self.vanished(false).await,
            };
        }
        self.shared.registry.leave(self.claim);
        let message = "the lock's parent node was removed during each attempt; find the program \
                       that removes it";
        Err(error(ErrorKind::Unavailable, message))
    }

    fn make_parent(&self) -> impl Future<Output = Result<()>> {
        let client = &self.session.client;
        let acls = self.shared.acls();
        let making =
            client.create(&self.queue_path, b"", &zk::CreateMode::Container.with_acls(acls));
        async move {
            match self.session.answer(making).await {
                Ok(_) | Err(Failure::Response(zk::Error::NodeExists)) => return Ok(()),
                Err(failure) if failure.is(&zk::Error::NoNode) => {}
                Err(failure) => return Err(failure.error(Effect::Changes)),
            }
            let options = zk::CreateMode::Persistent.with_acls(acls);
            match self.session.answer(client.mkdir(self.shared.paths.root(), &options)).await {
                Ok(()) => Ok(()),
                Err(failure) if failure.is(&zk::Error::NoNode) => {
                    Err(no_chroot(&self.shared.config.contents.chroot))
                }
                Err(failure) => Err(failure.error(Effect::Changes)),
            }
        }
    }

    async fn repeat(&self, own: Node, is_held: bool) -> Result<AcquireOutcome> {
        let client = &self.session.client;
        if self.wait == Wait::No {
            // The session's server may lag behind, and a rejected try leaves the queue.
            let sync = || client.sync(&self.queue_path);
            self.session.read(sync).await.map_err(|failure| failure.error(Effect::Reads))?;
        }
        let looking = client.list_children(&self.queue_path);
        let reading = client.get_data(&own.path);
        let queue = self.read_queue_from(looking).await?;
        let found = queue.iter().position(|contender| own.path.ends_with(&contender.node));
        let Some(at) = found else { return self.vanished(is_held).await };
        match if_present(self.session.answer(reading).await, Effect::Reads)? {
            None => self.vanished(is_held).await,
            Some((data, _)) if Value::is_broken(&data) => self.broken(&own, is_held).await,
            Some(_) => self.grant_if_admitted(queue, at, own).await,
        }
    }

    /// Ends a broken claim. A granted hold's node stays until the TTL ends: the holder may still
    /// rely on it.
    async fn broken(&self, own: &Node, is_held: bool) -> Result<AcquireOutcome> {
        if !is_held {
            let removing = self.session.client.delete(&own.path, None);
            deleted(self.session.answer(removing).await)?;
            self.shared.ended_claims.set(self.claim, Reason::Broken);
            self.shared.registry.leave(self.claim);
        }
        Err(lost(Reason::Broken))
    }

    async fn adopt(&self, queue: Vec<Contender>, at: usize) -> Result<AcquireOutcome> {
        let path = format!("{}/{}", self.queue_path, queue[at].node);
        let found = self.session.read(|| self.session.client.get_data(&path)).await;
        // An earlier request created the node, so a failed read is indeterminate.
        let Some((data, stat)) = if_present(found, Effect::Changes)? else {
            return self.vanished(false).await;
        };
        let own = Node::new(path, fence(&stat)?);
        let is_broken = Value::is_broken(&data);
        if stat.ephemeral_owner == self.session.id() {
            if is_broken {
                return self.broken(&own, false).await;
            }
            self.note(&own, false)?;
            return self.grant_if_admitted(queue, at, own).await;
        }
        // The node belongs to another session, whose lifetime is unknown, so a grant's validity is
        // zero.
        self.shared.registry.leave(self.claim);
        if is_broken {
            return Err(lost(Reason::Broken));
        }
        let modes = modes(&queue);
        if !queue_admission::admits(&modes[..at], modes[at]) {
            return Err(lost(Reason::SessionEnded));
        }
        let own_fence = Value::fence(Value::read(&data).as_ref(), own.fence);
        let mut granted = Granted::new(own_fence);
        granted.valid = Some(Duration::ZERO);
        granted.waiters = queue.len() > queue_admission::holders(&modes);
        Ok(AcquireOutcome::Granted(granted))
    }

    async fn grant_if_admitted(
        &self,
        mut queue: Vec<Contender>,
        mut at: usize,
        own: Node,
    ) -> Result<AcquireOutcome> {
        for _ in 0..FENCE_TRIES {
            if !can_be_admitted(&queue, at) && !self.is_held() {
                return self.restart_numbers(own).await;
            }
            let modes = modes(&queue);
            if !queue_admission::admits(&modes[..at], modes[at]) {
                return self.wait_or_leave(&queue, at, own).await;
            }
            let fence = match modes[at] {
                Mode::Shared => self.shared_fence(&queue, &own).await?,
                _ => Some(own.fence),
            };
            if let Some(fence) = fence {
                self.session.trusted().await?;
                self.note(&own, true)?;
                let mut granted = Granted::new(fence);
                granted.valid = Some(self.session.valid_from(self.begun));
                granted.waiters = queue.len() > queue_admission::holders(&modes);
                return Ok(AcquireOutcome::Granted(granted));
            }
            queue = self.read_queue().await?;
            match self.own(&queue) {
                Some(now) => at = now,
                None => return self.vanished(self.is_held()).await,
            }
        }
        let message =
            "the concurrent readers changed during each attempt to read their fence; retry";
        Err(error(ErrorKind::Indeterminate, message))
    }

    async fn wait_or_leave(
        &self,
        queue: &[Contender],
        at: usize,
        own: Node,
    ) -> Result<AcquireOutcome> {
        let is_of_another_kind = self.refuse_another_kind(queue);
        if self.wait == Wait::No || is_of_another_kind.is_err() {
            let removing = self.session.client.delete(&own.path, None);
            deleted(self.session.answer(removing).await)?;
            self.shared.registry.leave(self.claim);
            is_of_another_kind?;
            return Ok(AcquireOutcome::Busy(Busy::default()));
        }
        self.shared.subscribers.waits(&self.claim.name);
        let mut retry_after = None;
        for ahead in &queue[queue_admission::blockers(&modes(&queue[..at]), self.claim.mode)] {
            let watched = format!("{}/{}", self.queue_path, ahead.node);
            let name = &self.claim.name;
            let retry = watch(self.shared, &self.session, watched, name).await?;
            retry_after = [retry_after, retry].into_iter().flatten().min();
            if retry_after == Some(Duration::ZERO) {
                break;
            }
        }
        self.note(&own, false)?;
        Ok(AcquireOutcome::Busy(Busy { retry_after, queued: true, ..Busy::default() }))
    }

    fn is_held(&self) -> bool {
        self.shared.registry.place(self.claim).is_some_and(|place| place.is_held)
    }

    /// Leaves a queue whose sequence numbers are used up. Removes its node if it is empty: a new
    /// node counts from zero.
    async fn restart_numbers(&self, own: Node) -> Result<AcquireOutcome> {
        let client = &self.session.client;
        let (removing, emptied) =
            (client.delete(&own.path, None), client.delete(&self.queue_path, None));
        deleted(self.session.answer(removing).await)?;
        let retry_after = match self.session.answer(emptied).await {
            Ok(()) | Err(Failure::Response(zk::Error::NoNode)) => Duration::ZERO,
            Err(failure) if failure.is(&zk::Error::NotEmpty) => POLL,
            Err(failure) => return Err(failure.error(Effect::Changes)),
        };
        self.shared.registry.leave(self.claim);
        if retry_after == POLL && self.read_queue().await?.is_empty() {
            let message = "the sequence numbers of this lock's nodes are used up, and other nodes \
                           below it prevent its recreation; remove them, or use another name";
            return Err(error(ErrorKind::Conflict, message));
        }
        Ok(AcquireOutcome::Busy(Busy { retry_after: Some(retry_after), ..Busy::default() }))
    }

    async fn vanished(&self, is_held: bool) -> Result<AcquireOutcome> {
        let (shared, claim) = (self.shared, self.claim);
        refuse_broken(shared, &self.session, claim).await?;
        if shared.registry.place(claim).is_some_and(|place| place.is_overdue) {
            return Err(expired(shared, claim));
        }
        shared.registry.leave(claim);
        if is_held {
            return Err(lost(Reason::Gone));
        }
        Ok(AcquireOutcome::Busy(Busy { retry_after: Some(Duration::ZERO), ..Busy::default() }))
    }

    /// Returns an error if the claim became overdue during the request.
    pub(crate) fn note(&self, own: &Node, is_held: bool) -> Result<()> {
        let (shared, claim) = (self.shared, self.claim);
        shared.saw_zxid(own.fence.get());
        let end = if is_held { shared.end_of_hold(claim) } else { shared.end_of_wait(claim) };
        match shared.registry.leave(claim) {
            Some(place) if !place.is_overdue => {
                let (is_held, session) = (place.is_held || is_held, Arc::clone(&place.session));
                let place = Place { node: Some(own.clone()), is_held, ..place };
                shared.registry.enter(claim, place, end);
                // If the session ended before `enter`, `give_up` missed this hold.
                if is_held && session.is_over() {
                    shared.registry.leave(claim);
                    return Err(lost(Reason::SessionEnded));
                }
                Ok(())
            }
            None if self.session.is_over() => Err(lost(Reason::SessionEnded)),
            // An earlier removal may have missed this node.
            _ => {
                let place = Place {
                    node: Some(own.clone()),
                    is_overdue: true,
                    ..Place::new(&self.session)
                };
                shared.registry.enter(claim, place, shared.clock.now());
                Err(expired(shared, claim))
            }
        }
    }

    async fn read_queue(&self) -> Result<Vec<Contender>> {
        let client = &self.session.client;
        self.contenders(self.session.read(|| client.list_children(&self.queue_path)).await)
    }

    async fn read_queue_from(
        &self,
        looking: impl Future<Output = Result<Vec<String>, zk::Error>>,
    ) -> Result<Vec<Contender>> {
        match self.session.answer(looking).await {
            Err(failure) if failure.is_connection_error() => self.read_queue().await,
            answer => self.contenders(answer),
        }
    }

    fn contenders(&self, answer: Result<Vec<String>, Failure>) -> Result<Vec<Contender>> {
        match answer {
            Ok(children) => Ok(queue(children)),
            Err(failure) if failure.is(&zk::Error::NoNode) => Ok(Vec::new()),
            // A registered claim may have a node, so the error must make the caller release it.
            Err(failure) => Err(failure.error(match self.shared.registry.place(self.claim) {
                Some(_) => Effect::Changes,
                None => Effect::Reads,
            })),
        }
    }

    fn own(&self, queue: &[Contender]) -> Option<usize> {
        queue.iter().position(|contender| contender.is_of(self.claim.token))
    }
}

/// The id of the transaction that created the node increases in queue order.
pub(crate) fn fence(stat: &zk::Stat) -> Result<Fence> {
    match u64::try_from(stat.czxid) {
        Ok(number) if (1..=Fence::MAX.get()).contains(&number) => Ok(Fence::new(number)),
        _ => {
            let message = format!("the transaction {} of a node can't be a fence", stat.czxid);
            Err(error(ErrorKind::Indeterminate, message))
        }
    }
}
