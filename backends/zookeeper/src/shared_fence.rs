//! Concurrent readers agree on the lowest fence (see [`queue_admission`]). A reader that takes
//! another's fence stores it in its own node.
//!
//! A reader that joins while the client reads the nodes can't lower the lowest fence: its own is
//! larger, or taken from another reader.

use lockwright_core::backend_util::queue_admission::{self, Reader};
use lockwright_core::{Fence, Mode, Result};
use zookeeper_client as zk;

use crate::acquire::{Acquire, fence};
use crate::errors::{Effect, Failure, if_present};
use crate::queue::Contender;
use crate::shared::Node;
use crate::value::Value;

struct Read {
    path: String,
    version: i32,
    value: Option<Value>,
}

impl Acquire<'_> {
    /// Returns the reader's fence, or `None` if a concurrent reader's node is gone or has changed.
    pub(crate) async fn shared_fence(
        &self,
        queue: &[Contender],
        own: &Node,
    ) -> Result<Option<Fence>> {
        let client = &self.session.client;
        let readers_ahead = queue.iter().take_while(|contender| contender.mode == Mode::Shared);
        let paths: Vec<String> =
            readers_ahead.map(|reader| format!("{}/{}", self.queue_path, reader.node)).collect();
        let asked: Vec<_> = paths.iter().map(|path| client.get_data(path)).collect();
        let (mut readers, mut read) = (Vec::new(), Vec::new());
        for (path, asked) in paths.iter().zip(asked) {
            let found = if_present(self.session.answer(asked).await, Effect::Reads)?;
            let Some((data, stat)) = found else { return Ok(None) };
            let value = Value::read(&data);
            let taken = value.as_ref().and_then(|value| value.taken);
            readers.push(Reader { created: fence(&stat)?.get(), taken });
            read.push(Read { path: path.clone(), version: stat.version, value });
        }
        let Some(at) = read.iter().position(|read| *read.path == *own.path) else {
            return Ok(None);
        };
        let Some(from) = queue_admission::fence_source(&readers, at) else {
            return Ok(Some(Fence::new(readers[at].fence())));
        };
        let shared = readers[from].fence();
        let Some(mut value) = read[at].value.clone() else { return Ok(None) };
        value.taken = Some(shared);
        let noted = self.note_taken(&read[at], &read[from], &value).await?;
        Ok(noted.then(|| Fence::new(shared)))
    }

    async fn note_taken(&self, own: &Read, from: &Read, value: &Value) -> Result<bool> {
        let bad = |cause: zk::Error| Failure::Response(cause).error(Effect::Reads);
        let mut both = self.session.client.new_multi_writer();
        both.add_check_version(&from.path, from.version).map_err(bad)?;
        both.add_set_data(&own.path, &value.bytes(), Some(own.version)).map_err(bad)?;
        let committing = both.commit();
        let noting = async move { committing.await.map_err(zk::Error::from) };
        match self.session.answer(noting).await {
            Ok(_) => Ok(true),
            Err(Failure::Response(zk::Error::NoNode | zk::Error::BadVersion)) => Ok(false),
            Err(failure) => Err(failure.error(Effect::Changes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::{claim, grant, released};
    use lockwright_core::{BreakMode, BreakTarget, Claim, DistributedLock, ReleaseMode, Wait};
    use lockwright_testbed as testbed;

    use super::*;
    use crate::ZooKeeper;
    use crate::queue::queue;

    async fn read(acquire: &Acquire<'_>, node: &Node) -> Read {
        let (data, stat) = acquire.session.client.get_data(&node.path).await.unwrap();
        Read { path: node.path.to_string(), version: stat.version, value: Value::read(&data) }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fence_is_taken_only_between_unchanged_readers_on_zookeeper() {
        let server = testbed::ZooKeeper::options().members(1).start().unwrap();
        let zookeeper = ZooKeeper::connect(&server.url()).await.unwrap();
        let shared = &zookeeper.shared;
        let [first, second] = [(); 2].map(|()| Claim { mode: Mode::Shared, ..claim("x") });
        grant(&zookeeper, &first).await;
        grant(&zookeeper, &second).await;
        let [from, own] =
            [&first, &second].map(|claim| shared.registry.place(claim).unwrap().node.unwrap());
        let acquire = Acquire {
            shared,
            claim: &second,
            wait: Wait::No,
            begun: shared.clock.now(),
            session: shared.session(&second).await.unwrap(),
            queue_path: shared.paths.queue(&second.name),
        };
        let stale = [read(&acquire, &from).await, read(&acquire, &own).await];
        let value = stale[1].value.clone().unwrap();
        for broken in [&first, &second] {
            let target = BreakTarget::Token(broken.token);
            let how = BreakMode::RunOut;
            zookeeper.break_lock(&broken.name, target, how, "me", "why").await.unwrap();
        }
        let fresh = [read(&acquire, &from).await, read(&acquire, &own).await];
        for (from, own) in [(&stale[0], &fresh[1]), (&fresh[0], &stale[1])] {
            assert!(!acquire.note_taken(own, from, &value).await.unwrap());
        }
        assert!(acquire.note_taken(&fresh[1], &fresh[0], &value).await.unwrap());
        let children = acquire.session.client.list_children(&acquire.queue_path).await.unwrap();
        released(&zookeeper, &first, ReleaseMode::Plain).await;
        let fence = acquire.shared_fence(&queue(children), &own).await.unwrap();
        assert_eq!(fence, None, "a reader was gone");
    }
}
