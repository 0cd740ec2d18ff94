mod archive;
mod election;
mod member;
mod options;
mod server;
mod snapshot;

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

pub use member::Member;
pub use options::Options;
pub use snapshot::Snapshot;

use crate::ensemble::wait_until;
use crate::network::{Dialler, Greeting, Network};
use crate::port::local;
use crate::{Error, Result, folder, methods};
use election::name;
use server::Ports;

#[derive(Debug)]
pub struct ZooKeeper {
    /// The members, observers last.
    pub members: Vec<Member>,
    options: Arc<Options>,
    network: Network,
}

methods::options!(ZooKeeper, Options, "a setting of `zoo.cfg`");
methods::ensemble_methods!(ZooKeeper);
methods::tls!(ZooKeeper, Options, options);

impl ZooKeeper {
    fn start_with(options: &Options) -> Result<Self> {
        let options = Arc::new(options.clone());
        let network = Network::default();
        let all: Vec<Ports> =
            (0..options.voters + options.observers).map(|_| Ports::find()).collect();
        let members = all.iter().enumerate().map(|(index, ports)| {
            let folder = folder::temporary("zookeeper", None)?;
            let mut lines = listed(&all, options.voters);
            if index >= options.voters {
                lines += "peerType=observer\n";
            }
            let hosts = hosts(&network, index, &all)?;
            server::prepare(folder.path(), index + 1, &options, *ports, &lines, &hosts)?;
            let process = member::start(folder.path(), &options)?;
            let (ports, options) = (*ports, Arc::clone(&options));
            Ok(Member { process, ports, options, folder })
        });
        let members = members.collect::<Result<_>>()?;
        let mut this = Self { members, options, network };
        for member in &mut this.members {
            member.wait_until_it_runs()?;
        }
        this.wait_until_whole()?;
        Ok(this)
    }

    pub fn url_through(&self, ports: impl IntoIterator<Item = u16>) -> String {
        let hosts = ports.into_iter().map(|port| format!("127.0.0.1:{port}"));
        format!("zookeeper:{}", hosts.collect::<Vec<_>>().join(","))
    }

    pub fn four_letter(&self, member: usize, command: &str) -> Result<String> {
        self.members[member].four_letter(command)
    }

    /// If an isolated old leader remains, returns the newer one.
    pub fn leader(&self) -> Result<usize> {
        let leaders = self.members.iter().enumerate().filter(|(_, member)| member.is_leader());
        // The zxid's upper half is the epoch.
        let newest = leaders.max_by_key(|(_, member)| member.zxid().map(|zxid| zxid >> 32));
        newest.map(|(index, _)| index).ok_or_else(|| Error::new("there is no leader"))
    }

    pub fn wait_until_whole(&self) -> Result<()> {
        wait_until("that all members follow one leader", || {
            let modes: Vec<_> = self.members.iter().map_while(Member::mode).collect();
            let count = |wanted: &str| modes.iter().filter(|mode| *mode == wanted).count();
            if self.members.len() == 1 {
                return (count("standalone") == 1).then_some(());
            }
            let followers = self.options.voters - 1;
            let modes = (count("leader"), count("follower"), count("observer"));
            (modes == (1, followers, self.options.observers)).then_some(())?;
            let leader = self.members.iter().find(|member| member.is_leader())?;
            let synced = |name: &str| leader.monitor(name)?.parse::<f64>().ok();
            let is_whole = synced("zk_synced_followers") == Some(followers as f64)
                && synced("zk_synced_observers") == Some(self.options.observers as f64);
            is_whole.then_some(())
        })
    }

    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        self.start_again(|member| member.launch(keep_data))
    }
}

fn listed(all: &[Ports], voters: usize) -> String {
    let mut lines = String::new();
    for (index, ports) in all.iter().enumerate().filter(|_| all.len() > 1) {
        let kind = if index < voters { "participant" } else { "observer" };
        let (quorum, election, number) = (ports.quorum, ports.election, index + 1);
        let _ = writeln!(lines, "server.{number}={}:{quorum}:{election}:{kind}", name(index));
    }
    lines
}

fn hosts(network: &Network, from: usize, all: &[Ports]) -> Result<String> {
    let mut lines = format!("127.0.0.1 localhost {}\n", name(from));
    for (to, ports) in all.iter().enumerate().filter(|(to, _)| *to != from) {
        let host = Ipv4Addr::new(127, 77, from as u8 + 1, to as u8 + 1);
        for (port, greeting) in [
            (ports.quorum, election::nothing as Greeting),
            (ports.election, election::name_instead_of_address),
        ] {
            let dialler = Dialler::Is(from, greeting);
            network.open(SocketAddr::from((host, port)), dialler, to, local(port))?;
        }
        let _ = writeln!(lines, "{host} {}", name(to));
    }
    Ok(lines)
}
