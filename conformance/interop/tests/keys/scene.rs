use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockwright_conformance::test_helpers::{busy, eventually, grant, released};
use lockwright_core::{
    Busy, Claim, DistributedLock, Granted, Holder, Locks, ReleaseMode, Renew, Renewal, Wait,
};
use lockwright_interop::{LIMIT, Peer};
use lockwright_redis::Config;
use lockwright_testbed as testbed;

use crate::five::Five;

pub(crate) type Start = fn(&[u16]) -> Peer;

pub(crate) struct Scene {
    pub(crate) servers: Vec<testbed::Redis>,
    pub(crate) url: String,
    pub(crate) start: Start,
    pub(crate) ours: Arc<dyn DistributedLock>,
}

impl Scene {
    pub(crate) async fn one_redis(start: Start) -> Self {
        let server = testbed::Redis::start().unwrap();
        let url = server.url();
        let config = Config::new(&url).unwrap().response_timeout(LIMIT).connect_timeout(LIMIT);
        let ours = Arc::new(config.connect().await.unwrap());
        Self { servers: vec![server], url, start, ours }
    }

    pub(crate) async fn redlock(start: Start) -> Self {
        Five::start(start).await.scene
    }

    pub(crate) fn theirs(&self) -> Peer {
        let ports: Vec<u16> = self.servers.iter().map(testbed::Redis::port).collect();
        (self.start)(&ports)
    }

    pub(crate) fn lockwright_process(&self, ttl: Duration) -> Peer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interop-ours"));
        command.args([&self.url, &ttl.as_millis().to_string()]);
        Peer::start(command)
    }

    pub(crate) fn locks(&self) -> Locks {
        Locks::new(Arc::clone(&self.ours)).unwrap()
    }

    /// Asserts that `inspect` shows one holder, of the other library, and returns it.
    pub(crate) async fn shows_theirs(&self, name: &str) -> Holder {
        let mut seen = self.locks().inspect(name).await.unwrap();
        assert_eq!(seen.holders.len(), 1, "{seen:?}");
        let holder = seen.holders.remove(0);
        assert_eq!((holder.token, &holder.identity), (None, &None));
        holder
    }

    pub(crate) async fn grant(&self, claim: &Claim) -> Granted {
        grant(&self.ours, claim).await
    }

    pub(crate) async fn busy(&self, claim: &Claim, wait: Wait) -> Busy {
        busy(&self.ours, claim, wait).await
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> Vec<Renewal> {
        self.ours.renew(&[Renew::of(claim)]).await.unwrap()
    }

    pub(crate) async fn release(&self, claim: &Claim) {
        released(&self.ours, claim, ReleaseMode::Plain).await;
    }

    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let value =
            |server: &testbed::Redis| server.command::<Option<String>>(&["GET", name]).unwrap();
        let values: Vec<String> = self.servers.iter().filter_map(value).collect();
        assert!(values.len() > self.servers.len() / 2, "{name}: {values:?}");
        values
    }

    /// Waits until `is_new` accepts all values. Servers outside the granting quorum may still have
    /// the expired hold's value.
    pub(crate) async fn until_values(
        &self,
        name: &str,
        is_new: impl Fn(&String) -> bool,
    ) -> Vec<String> {
        eventually(async || Some(self.values(name)).filter(|values| values.iter().all(&is_new)))
            .await
    }

    /// Returns the time until a majority of the servers lacks the key.
    pub(crate) fn runs_out_in(&self, name: &str) -> Duration {
        let left = |server: &testbed::Redis| server.command::<i64>(&["PTTL", name]).unwrap();
        let mut left: Vec<i64> = self.servers.iter().map(left).collect();
        left.sort_unstable();
        // `PTTL` is negative if there is no key.
        Duration::from_millis(u64::try_from(left[left.len() / 2]).unwrap_or(0))
    }
}
