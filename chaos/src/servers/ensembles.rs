//! etcd and ZooKeeper.

use std::time::SystemTime;

use lockwright_testbed::{self as testbed, Proxy};

use super::{Result, Server, Servers, restart_the_dead};

pub(super) struct Etcd {
    cluster: testbed::Etcd,
    proxies: Vec<Proxy>,
}

impl Etcd {
    pub(super) fn start() -> Result<Self> {
        let cluster = testbed::Etcd::start()?;
        let proxies = cluster.members.iter().map(|member| Proxy::start(member.address()));
        let proxies = proxies.collect::<testbed::Result<_>>()?;
        Ok(Self { cluster, proxies })
    }
}

impl Servers for Etcd {
    fn url(&self) -> String {
        self.cluster.url_through(self.proxies.iter().map(Proxy::port))
    }

    fn direct_url(&self) -> String {
        self.cluster.url()
    }

    fn proxies(&self) -> Vec<&Proxy> {
        self.proxies.iter().collect()
    }

    fn servers(&mut self) -> Vec<&mut dyn Server> {
        self.cluster.members.iter_mut().map(|member| member as &mut dyn Server).collect()
    }

    fn leader(&mut self) -> usize {
        self.cluster.leader().unwrap_or(0)
    }

    fn recover(&mut self) -> Result<()> {
        restart_the_dead(self.servers())?;
        Ok(self.cluster.wait_until_whole()?)
    }

    fn fail_over(&mut self) -> Result<String> {
        let old = self.cluster.leader()?;
        self.cluster.members[old].kill();
        let new = self.cluster.wait_for_another_leader(old)?;
        self.cluster.members[old].restart(true)?;
        Ok(format!("member {new} leads instead of {old}"))
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        let keys = self.cluster.ctl(&["get", "--prefix", "--keys-only", ""])?;
        let of_ours = keys.lines().filter(|key| key.contains(prefix) && !key.contains("ended:"));
        Ok(of_ours.map(|key| format!("key {key}")).collect())
    }
}

pub(super) struct ZooKeeper {
    ensemble: testbed::ZooKeeper,
    proxies: Vec<Proxy>,
}

impl ZooKeeper {
    pub(super) fn start() -> Result<Self> {
        let ensemble = testbed::ZooKeeper::start()?;
        let proxies = ensemble.members.iter().map(|member| Proxy::start(member.address()));
        let proxies = proxies.collect::<testbed::Result<_>>()?;
        Ok(Self { ensemble, proxies })
    }
}

impl Servers for ZooKeeper {
    fn url(&self) -> String {
        self.ensemble.url_through(self.proxies.iter().map(Proxy::port))
    }

    fn direct_url(&self) -> String {
        self.ensemble.url()
    }

    fn proxies(&self) -> Vec<&Proxy> {
        self.proxies.iter().collect()
    }

    fn servers(&mut self) -> Vec<&mut dyn Server> {
        self.ensemble.members.iter_mut().map(|member| member as &mut dyn Server).collect()
    }

    fn leader(&mut self) -> usize {
        self.ensemble.leader().unwrap_or(0)
    }

    fn recover(&mut self) -> Result<()> {
        restart_the_dead(self.servers())?;
        Ok(self.ensemble.wait_until_whole()?)
    }

    fn fail_over(&mut self) -> Result<String> {
        let old = self.ensemble.leader()?;
        self.ensemble.members[old].kill();
        let new = self.ensemble.wait_for_another_leader(old)?;
        self.ensemble.members[old].restart(true)?;
        Ok(format!("member {new} leads instead of {old}"))
    }

    fn clock_ahead(&mut self) -> Result<i64> {
        let servers = self.ensemble.url().replacen("zookeeper:", "", 1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = zookeeper_client::Client::connect(&servers).await?;
            let own = zookeeper_client::CreateMode::Ephemeral
                .with_acls(zookeeper_client::Acls::anyone_all());
            let (node, _) = client.create("/clock", b"", &own).await?;
            client.delete("/clock", None).await?;
            let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
            Ok(node.ctime - i64::try_from(here.as_millis())?)
        })
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        let leader = self.leader();
        let sessions = self.ensemble.four_letter(leader, "dump")?;
        let ephemeral = sessions.lines().filter(|line| line.contains(prefix));
        Ok(ephemeral.map(|node| format!("node {}", node.trim())).collect())
    }
}
