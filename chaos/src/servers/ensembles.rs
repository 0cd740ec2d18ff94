use std::time::SystemTime;

use lockwright_testbed::{self as testbed, Proxy};

use super::{Result, Server, Servers, block_on};

/// `$own` has the methods that differ between etcd and ZooKeeper.
macro_rules! members {
    ($name:ident, { $($own:tt)* }) => {
        pub(super) struct $name {
            members: testbed::$name,
            proxies: Vec<Proxy>,
        }

        impl $name {
            pub(super) fn start() -> Result<Self> {
                let members = testbed::$name::start()?;
                let proxies = members.members.iter().map(|member| Proxy::start(member.address()));
                let proxies = proxies.collect::<testbed::Result<_>>()?;
                Ok(Self { members, proxies })
            }
        }

        impl Servers for $name {
            fn url(&self) -> String {
                self.members.url_through(self.proxies.iter().map(Proxy::port))
            }

            fn direct_url(&self) -> String {
                self.members.url()
            }

            fn proxies(&self) -> Vec<&Proxy> {
                self.proxies.iter().collect()
            }

            fn servers(&mut self) -> Vec<&mut dyn Server> {
                self.members.members.iter_mut().map(|member| member as &mut dyn Server).collect()
            }

            fn leader(&mut self) -> Result<usize> {
                Ok(self.members.leader()?)
            }

            fn wait_until_whole(&mut self) -> Result<()> {
                Ok(self.members.wait_until_whole()?)
            }

            fn wait_for_failover(&mut self, old: usize) -> Result<usize> {
                Ok(self.members.wait_for_another_leader(old)?)
            }

            $($own)*
        }
    };
}

members!(Etcd, {
    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        let keys = self.members.ctl(&["get", "--prefix", "--keys-only", ""])?;
        let of_ours = keys.lines().filter(|key| key.contains(prefix) && !key.contains("ended:"));
        Ok(of_ours.map(|key| format!("key {key}")).collect())
    }
});

members!(ZooKeeper, {
    fn clock_ahead(&mut self) -> Result<i64> {
        let servers = self.members.url().replacen("zookeeper:", "", 1);
        block_on(async {
            let client = zookeeper_client::Client::connect(&servers).await?;
            let own = zookeeper_client::CreateMode::Ephemeral
                .with_acls(zookeeper_client::Acls::anyone_all());
            let (node, _) = client.create("/clock", b"", &own).await?;
            client.delete("/clock", None).await?;
            let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
            Result::<i64>::Ok(node.ctime - i64::try_from(here.as_millis())?)
        })
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        let leader = self.leader()?;
        let sessions = self.members.four_letter(leader, "dump")?;
        let ephemeral = sessions.lines().filter(|line| line.contains(prefix));
        Ok(ephemeral.map(|node| format!("node {}", node.trim())).collect())
    }
});
