mod cluster;
mod member;
mod options;
mod snapshot;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

pub use member::Member;
pub use options::{Options, Version};
pub use snapshot::Snapshot;

use crate::ensemble::wait_until;
use crate::network::{Dialler, Network};
use crate::port::local;
use crate::{Error, Result, folder, in_url, methods};
use cluster::Cluster;
use member::{EXISTING, NEW, Ports};

#[derive(Debug)]
pub struct Etcd {
    pub members: Vec<Member>,
    cluster: Arc<Cluster>,
    network: Network,
}

methods::options!(Etcd, Options, "a flag, without its dashes");
methods::ensemble_methods!(Etcd);
methods::tls!(Etcd, Options, cluster.options);

impl Etcd {
    fn start_with(options: &Options) -> Result<Self> {
        let program = options.version.program()?;
        let folders: Vec<_> =
            (0..options.members).map(|_| folder::temporary("etcd", None)).collect::<Result<_>>()?;
        // With a unique token, members reject messages of an earlier cluster on the same ports.
        let token = folders[0].path().file_name().unwrap_or_default().to_string_lossy();
        let cluster = Arc::new(Cluster {
            token: token.into_owned(),
            options: options.clone(),
            program,
            endpoints: Mutex::default(),
            has_users: AtomicBool::new(false),
        });
        let network = Network::default();
        let ports: Vec<_> = folders.iter().map(|_| Ports::find()).collect();
        let named = |(index, ports): (usize, &Ports)| (format!("member-{index}"), ports.door);
        let initial: Vec<_> = ports.iter().enumerate().map(named).collect();
        let mut this = Self { members: Vec::new(), cluster, network };
        for (((name, _), ports), folder) in initial.iter().zip(ports).zip(folders) {
            this.start_member(name.clone(), ports, &initial, NEW, folder)?;
        }
        for member in &mut this.members {
            member.wait_until_it_runs()?;
        }
        this.wait_until_whole()?;
        this.make_users()?;
        Ok(this)
    }

    fn start_member(
        &mut self,
        name: String,
        ports: Ports,
        initial: &[(String, u16)],
        state: &str,
        folder: TempDir,
    ) -> Result<()> {
        let pid = self.network.add_member();
        let (door, peers) = (local(ports.door), local(ports.peers));
        self.network.open(door, Dialler::HasTheOtherEnd, self.members.len(), peers)?;
        let process = member::start(&self.cluster, &name, ports, initial, state, folder.path())?;
        pid.store(process.pid(), Ordering::SeqCst);
        let (initial, cluster) = (initial.to_vec(), Arc::clone(&self.cluster));
        let is_learner = self.members.len() >= cluster.options.members;
        let member = Member { process, name, is_learner, ports, initial, cluster, pid, folder };
        self.cluster.add_endpoint(member.endpoint());
        self.members.push(member);
        Ok(())
    }

    /// etcd accepts only one learner.
    pub fn add_learner(&mut self) -> Result<usize> {
        let (name, ports) = (format!("member-{}", self.members.len()), Ports::find());
        let mut initial = self.members[0].initial.clone();
        initial.push((name.clone(), ports.door));
        let url = member::peer_url(ports.door);
        let add = ["member", "add", &name, "--learner", "--peer-urls", &url];
        self.cluster.decide(&self.endpoints(), &add)?;
        let folder = folder::temporary("etcd", None)?;
        self.start_member(name, ports, &initial, EXISTING, folder)?;
        let index = self.members.len() - 1;
        self.members[index].wait_until_it_runs()?;
        self.wait_until_whole()?;
        Ok(index)
    }

    fn has_no_learner(&self) -> Result<()> {
        let learner = self.members.iter().find(|member| member.is_learner);
        learner.map_or(Ok(()), |Member { name, .. }| {
            Err(Error::new(format!("{name} is a learner, and can't begin with the others")))
        })
    }

    fn make_users(&self) -> Result<()> {
        let Some(user) = &self.cluster.options.user else { return Ok(()) };
        let (admin, password) = options::ADMIN;
        let whole = ["--prefix=true", "readwrite", &user.prefix];
        for command in [
            &["user", "add", &format!("{admin}:{password}")][..],
            &["role", "add", "root"],
            &["user", "grant-role", admin, "root"],
            &["user", "add", &format!("{}:{}", user.name, user.password)],
            &["role", "add", "app"],
            &[&["role", "grant-permission", "app"], &whole[..]].concat(),
            &["user", "grant-role", &user.name, "app"],
            &["auth", "enable"],
        ] {
            self.ctl(command)?;
        }
        self.cluster.has_users.store(true, Ordering::SeqCst);
        Ok(())
    }

    pub fn url_through(&self, ports: impl IntoIterator<Item = u16>) -> String {
        let options = &self.cluster.options;
        let user = options.user.as_ref().map_or_else(String::new, |user| {
            format!("{}:{}@", in_url(&user.name), in_url(&user.password))
        });
        let scheme = options.scheme();
        let urls = ports.into_iter().map(|port| format!("{scheme}://{user}127.0.0.1:{port}"));
        format!("etcd:{}", urls.collect::<Vec<_>>().join(","))
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(Member::endpoint).collect()
    }

    pub fn ctl(&self, arguments: &[&str]) -> Result<String> {
        self.cluster.run(&self.endpoints(), arguments)
    }

    pub fn leader(&self) -> Result<usize> {
        let leads = |member: &Member| member.is_leader() && member.is_healthy();
        self.members.iter().position(leads).ok_or_else(|| Error::new("there is no leader"))
    }

    pub fn wait_until_whole(&self) -> Result<()> {
        wait_until("that all members agree", || {
            let leaders = self.members.iter().filter(|member| member.is_leader()).count();
            let all_know = self.members.iter().all(Member::has_leader);
            (leaders == 1 && all_know).then_some(())?;
            // A learner can't propose, so it is never healthy.
            let all_decide = self.members.iter().all(|one| one.is_learner || one.is_healthy());
            all_decide.then_some(())
        })
    }

    /// Without `keep_data`, the members form a new cluster, and none may be a learner.
    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        if keep_data {
            return self.start_again(|member| member.launch(EXISTING));
        }
        self.has_no_learner()?;
        self.start_again(|member| member.launch(NEW))?;
        self.cluster.has_users.store(false, Ordering::SeqCst);
        self.make_users()
    }
}
