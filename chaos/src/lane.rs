use std::path::{Path, PathBuf};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use lockwright::Profile;
use lockwright_conformance::history::journal::{self, Entry, Event, Journal};
use lockwright_conformance::register::Register;
use lockwright_testbed::Proxy;

use crate::clients::Clients;
use crate::clock::ServersClock;
use crate::configuration::Configuration;
use crate::faults::Fault;
use crate::inject::{self, Injected, LARGEST_STEP_BACK, Scene};
use crate::promises::Promises;
use crate::schedule::{Planned, Schedule};
use crate::servers::{self, Result, Servers};
use crate::verdict::Verdict;

const CLIENTS_END: Duration = Duration::from_secs(30);

/// How long a hold's data may remain after the TTL.
const LEFT_FOR: Duration = Duration::from_millis(700);

pub(crate) struct Lane {
    configuration: Configuration,
    profile: Profile,
    servers: Box<dyn Servers>,
    /// The journals' folder. The fault `disk-full` fills another disk.
    folder: PathBuf,
    disk: Option<PathBuf>,
    clock: Option<ServersClock>,
}

pub(crate) struct Ran {
    pub(crate) schedule: Schedule,
    pub(crate) entries: Vec<Entry>,
    pub(crate) verdict: Verdict,
}

impl Lane {
    pub(crate) fn start(
        configuration: Configuration,
        folder: &Path,
        disk: Option<&Path>,
    ) -> Result<Self> {
        let has_clock = Fault::ClockForward.applies_to(configuration);
        let clock = if has_clock { ServersClock::begin(folder)? } else { None };
        let data = disk.unwrap_or(folder);
        let servers = servers::start(configuration, data)?;
        let profile = servers::profile(&servers.direct_url())?;
        let (folder, disk) = (folder.to_path_buf(), disk.map(Path::to_path_buf));
        Ok(Self { configuration, profile, servers, folder, disk, clock })
    }

    pub(crate) fn draw(&self, seed: u64, allowed: &[Fault]) -> Schedule {
        Schedule::draw(self.configuration, &self.profile, seed, allowed)
    }

    pub(crate) fn promises(&self) -> Promises {
        Promises::of(self.configuration, &self.profile)
    }

    pub(crate) fn cannot_make(&self, schedule: &Schedule) -> Option<Fault> {
        schedule.faults.iter().map(|one| one.fault).find(|fault| !self.can_make(*fault))
    }

    fn can_make(&self, fault: Fault) -> bool {
        match fault {
            Fault::DiskFull => self.disk.is_some(),
            Fault::ClockForward | Fault::ClockBack => self.clock.is_some(),
            _ => true,
        }
    }

    /// After an error, the caller must start a new lane.
    pub(crate) fn run(&mut self, schedule: Schedule) -> Result<Ran> {
        let folder = self.folder.join(format!("{}-{}", self.configuration, schedule.seed));
        std::fs::create_dir_all(&folder)?;
        let journal = Journal::append_to(&folder.join("runner.jsonl"), "runner")?;
        let ran = self.run_in(&schedule, &folder, &journal);
        let _ = std::fs::remove_dir_all(&folder);
        let (entries, injected, mut problems) = ran?;
        self.servers.recover()?;
        self.servers.proxies().into_iter().for_each(Proxy::drop_connections);
        let stepped_back = schedule.faults.iter().any(|one| one.fault == Fault::ClockBack);
        let step = if stepped_back { LARGEST_STEP_BACK } else { 0 };
        sleep(schedule.ttl() + LEFT_FOR + Duration::from_millis(step.unsigned_abs()));
        problems.extend(self.leaks(&schedule)?);
        if let Some(clock) = &self.clock {
            clock.reset()?;
        }
        let verdict = Verdict::of(&schedule, &self.profile, &entries, injected, problems);
        Ok(Ran { schedule, entries, verdict })
    }

    fn leaks(&mut self, schedule: &Schedule) -> Result<Vec<String>> {
        let leaks = self.servers.leaks(&schedule.prefix())?;
        Ok(leaks.into_iter().map(|leak| format!("left on the server: {leak}")).collect())
    }

    fn run_in(
        &mut self,
        schedule: &Schedule,
        folder: &Path,
        journal: &Journal,
    ) -> Result<(Vec<Entry>, Vec<Injected>, Vec<String>)> {
        let on_the_way = |one: &Planned| one.fault.is_on_the_way();
        self.servers.prepare(schedule.faults.iter().any(on_the_way))?;
        let register = Register::default().serve()?.to_string();
        let url = self.configuration.with_connections(self.servers.url(), schedule.seed);
        let clients = Clients::start(&schedule.clients, url, register, folder, journal)?;
        clients.wait_for_a_grant()?;
        let injected = self.make_faults(schedule, &clients, journal)?;
        let last = clients.start_after_faults(schedule)?;
        let mut problems = clients.join(schedule.duration + CLIENTS_END);
        let mut entries = clients.final_entries()?;
        entries.extend(journal::read(&folder.join("runner.jsonl"))?);
        entries.sort_by_key(|entry| entry.at);
        let is_grant = |entry: &Entry| matches!(entry.event, Event::Granted { .. });
        if !entries.iter().any(|entry| entry.process == last && is_grant(entry)) {
            problems.push(format!("{last} started after the last fault and was granted no lock"));
        }
        Ok((entries, injected, problems))
    }

    fn make_faults(
        &mut self,
        schedule: &Schedule,
        clients: &Clients<'_>,
        journal: &Journal,
    ) -> Result<Vec<Injected>> {
        let begun = Instant::now();
        let wait = |planned: &Planned| {
            sleep(planned.at.saturating_sub(begun.elapsed()));
        };
        let (of_clients, of_servers): (Vec<Planned>, Vec<Planned>) =
            schedule.faults.iter().partition(|one| one.fault.is_a_clients());
        let servers = &mut *self.servers;
        let (disk, clock) = (self.disk.as_deref(), self.clock.as_ref());
        thread::scope(|scope| {
            let on_clients: Vec<_> = of_clients
                .into_iter()
                .map(|planned| {
                    scope.spawn(move || {
                        wait(&planned);
                        inject::on_a_client(clients, journal, planned)
                    })
                })
                .collect();
            let mut scene = Scene { servers, schedule, clients, journal, disk, clock };
            let mut injected = Vec::new();
            for planned in of_servers {
                wait(&planned);
                injected.push(scene.on_the_servers(planned)?);
            }
            for thread in on_clients {
                injected.push(thread.join().map_err(|_| "a fault of a client panicked")??);
            }
            Ok(injected)
        })
    }
}

pub(crate) fn effects(injected: &[Injected]) -> String {
    let one = |one: &Injected| match &one.effect {
        Some(effect) => format!("{}: {effect}", one.fault),
        None => format!("{}: no effect", one.fault),
    };
    injected.iter().map(one).collect::<Vec<_>>().join("; ")
}
