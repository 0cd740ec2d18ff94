use std::time::Duration;

use lockwright_testbed::ZooKeeper;

use super::interface::{Result, Servers};

/// ZooKeeper's default tick, because the testbed's is shorter.
const TICK: Duration = Duration::from_secs(2);

pub(super) fn three() -> Result<Box<dyn Servers>> {
    let options = ZooKeeper::options().durable().full_size().tick(TICK);
    // The connections are unlimited, instead of sixty per host.
    Ok(Box::new(Three(options.set("maxClientCnxns", "0").start()?)))
}

#[derive(Debug)]
struct Three(ZooKeeper);

impl Servers for Three {
    fn url(&self) -> String {
        self.0.url()
    }

    fn addresses(&self) -> Vec<String> {
        self.0.members.iter().map(|member| member.address().to_string()).collect()
    }

    fn served(&self) -> Result<Option<u64>> {
        let mut sum = 0;
        for member in &self.0.members {
            let received = member.monitor("zk_packets_received");
            let received = received.and_then(|count| count.trim().parse::<f64>().ok());
            sum += received.ok_or_else(|| format!("{} doesn't tell", member.address()))? as u64;
        }
        Ok(Some(sum))
    }

    fn version(&self) -> Result<(String, String)> {
        let answer = self.0.four_letter(0, "srvr")?;
        let line = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
        let version = line.and_then(|line| line.split(['-', ',']).next()).unwrap_or("unknown");
        Ok(("ZooKeeper".to_owned(), format!("{version}, three members")))
    }
}
