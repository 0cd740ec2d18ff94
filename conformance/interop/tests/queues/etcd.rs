use std::sync::Arc;
use std::time::Duration;

use lockwright_testbed as testbed;

use crate::scene::{Server, Shared, TTL};

pub(crate) fn server() -> Arc<dyn Server> {
    static SHARED: Shared<Etcd> = Shared::new();
    SHARED.get(|| Etcd(testbed::Etcd::options().members(1).start().unwrap()))
}

#[derive(Debug)]
struct Etcd(testbed::Etcd);

impl Server for Etcd {
    fn url(&self) -> String {
        self.0.url()
    }

    fn servers(&self) -> String {
        self.0.endpoints().join(",")
    }

    fn in_their_words(&self, name: &str) -> String {
        format!("lockwright/{name}")
    }

    fn below(&self, name: &str, child: &str) -> (String, String) {
        (self.url() + "?names=raw", format!("{name}/{child}"))
    }

    fn queue(&self, name: &str) -> Vec<String> {
        let prefix = format!("{name}/");
        let keys =
            ["get", &prefix, "--prefix", "--keys-only", "--sort-by=CREATE", "--order=ASCEND"];
        let keys = self.0.ctl(&keys).unwrap();
        let own = |key: &&str| key.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/'));
        keys.lines().filter(own).map(str::to_owned).collect()
    }

    fn runs_out_in(&self, place: &str) -> Duration {
        // The answer contains "granted with TTL(4s), remaining(2s)", both rounded down.
        let (_, lease) = place.rsplit_once('/').unwrap();
        let answer = self.0.ctl(&["lease", "timetolive", lease]).unwrap();
        let left = answer.split("remaining(").nth(1).and_then(|rest| rest.split("s)").next());
        let left = Duration::from_secs(left.and_then(|left| left.parse().ok()).expect(&answer));
        assert!(left <= TTL, "{answer}");
        left
    }
}
