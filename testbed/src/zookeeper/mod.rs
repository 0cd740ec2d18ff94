//! A ZooKeeper ensemble.

mod election;
mod member;
mod options;
mod snapshot;

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

pub use member::Member;
pub use options::Options;
pub use snapshot::Snapshot;

use crate::ensemble::{all_at_once, wait_until};
use crate::network::{Dialler, Greeting, Network};
use crate::{Certificates, Error, Result, folder};
use member::{Ports, local};

/// A ZooKeeper ensemble of our own: three members, or as many as one asks for. Dropping it ends them
/// and removes their data.
///
/// The members can be killed, frozen, cut off from each other and restarted one by one.
#[derive(Debug)]
pub struct ZooKeeper {
    /// The members, those who don't vote at the end.
    pub members: Vec<Member>,
    options: Arc<Options>,
    network: Network,
}

impl ZooKeeper {
    /// Three members with default settings.
    ///
    /// # Errors
    /// When Java or ZooKeeper isn't installed, or they don't find each other.
    pub fn start() -> Result<Self> {
        Self::options().start()
    }

    /// Others.
    pub fn options() -> Options {
        Options::default()
    }

    fn start_with(options: &Options) -> Result<Self> {
        let options = Arc::new(options.clone());
        let network = Network::default();
        let all: Vec<Ports> =
            (0..options.voters + options.observers).map(|_| Ports::find()).collect();
        let members = all.iter().enumerate().map(|(index, ports)| {
            let folder = folder::temporary("zookeeper", None)?;
            let is_observer = index >= options.voters;
            let mut lines = listed(&all, options.voters);
            if is_observer {
                lines += "peerType=observer\n";
            }
            let hosts = hosts(&network, index, &all)?;
            member::prepare(folder.path(), index + 1, &options, *ports, &lines, &hosts)?;
            let process = member::start(folder.path(), &options)?;
            let (ports, options) = (*ports, Arc::clone(&options));
            Ok(Member { process, ports, options, is_observer, folder })
        });
        let members = members.collect::<Result<_>>()?;
        let mut this = Self { members, options, network };
        for member in &mut this.members {
            member.wait_until_it_runs()?;
        }
        this.wait_until_whole()?;
        Ok(this)
    }

    /// How to connect: `zookeeper:127.0.0.1:1,127.0.0.1:2`.
    pub fn url(&self) -> String {
        self.url_through(self.members.iter().map(Member::port))
    }

    /// How to connect through members, or proxies of them, that listen on `ports`.
    pub fn url_through(&self, ports: impl IntoIterator<Item = u16>) -> String {
        let hosts = ports.into_iter().map(|port| format!("127.0.0.1:{port}"));
        format!("zookeeper:{}", hosts.collect::<Vec<_>>().join(","))
    }

    /// The name and the password of the one who may do everything, by the scheme `digest`.
    pub fn superuser(&self) -> (&'static str, &'static str) {
        options::SUPERUSER
    }

    /// The file with the certificate of the CA that signed the members'.
    ///
    /// # Panics
    /// When they don't speak TLS.
    pub fn authority(&self) -> PathBuf {
        self.certificates().authority()
    }

    /// The files with a client's certificate and its key, for
    /// [`Options::tls_with_client_certificates`].
    ///
    /// # Panics
    /// When they don't speak TLS.
    pub fn client_certificate(&self) -> (PathBuf, PathBuf) {
        (self.certificates().certificate(), self.certificates().key())
    }

    fn certificates(&self) -> &Certificates {
        self.options.certificates.as_ref().expect("they speak TLS")
    }

    /// What a member answers to one of the commands of four letters: see [`Member::four_letter`].
    ///
    /// # Errors
    /// When it doesn't answer.
    pub fn four_letter(&self, member: usize, command: &str) -> Result<String> {
        self.members[member].four_letter(command)
    }

    /// The index of the leader. While one that was cut off doesn't know it yet, the newer one.
    ///
    /// # Errors
    /// When there is none now.
    pub fn leader(&self) -> Result<usize> {
        let leaders = self.members.iter().enumerate().filter(|(_, member)| member.is_leader());
        // The upper half counts the leaders.
        let newest = leaders.max_by_key(|(_, member)| member.zxid().map(|zxid| zxid >> 32));
        newest.map(|(index, _)| index).ok_or_else(|| Error::new("there is no leader"))
    }

    /// Waits until another member than `old` is the leader, and returns its index.
    ///
    /// # Errors
    /// When that takes longer than a minute.
    pub fn wait_for_another_leader(&self, old: usize) -> Result<usize> {
        wait_until("the election", || self.leader().ok().filter(|leader| *leader != old))
    }

    /// Waits until nothing is amiss: one of them leads, and all others have caught up with it.
    ///
    /// # Errors
    /// When that takes longer than a minute, as it does when one of them is dead.
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

    /// Cuts a member off from all others, in both directions. Its clients still reach it, and it
    /// answers their pings until it finds out: see [`Options::sync_limit`]. A second one may be cut off
    /// at the same time, and is cut off from the first one too.
    ///
    /// Nothing tells the members: their connections are silent, as when a cable is pulled.
    pub fn isolate(&self, member: usize) {
        self.network.isolate(member);
    }

    /// Connects it again.
    pub fn heal(&self, member: usize) {
        self.network.heal(member);
    }

    /// Restarts all members at the same time, with all that they knew, or with nothing. Waits until
    /// they agree.
    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        all_at_once(&mut self.members, |member| {
            member.process.thaw();
            member.process.kill();
            if !keep_data {
                member.forget()?;
            }
            member.launch()
        })?;
        self.wait_until_whole()
    }
}

/// The lines that say who the members are. A server on its own has none.
fn listed(all: &[Ports], voters: usize) -> String {
    let mut lines = String::new();
    for (index, ports) in all.iter().enumerate().filter(|_| all.len() > 1) {
        let kind = if index < voters { "participant" } else { "observer" };
        let (quorum, election, number) = (ports.quorum, ports.election, index + 1);
        let _ = writeln!(lines, "server.{number}={}:{quorum}:{election}:{kind}", name(index));
    }
    lines
}

fn name(member: usize) -> String {
    format!("member-{member}")
}

/// Where `from` finds each member: itself where it listens, each other at a door of the pair's own.
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
