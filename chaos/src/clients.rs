use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lockwright::backend::backend_util::lock;
use lockwright::{BootInstant, Mode};
use lockwright_conformance::history::journal::{self, Entry, Event, Journal, Signal};
use lockwright_conformance::workload::{self, Work};
use lockwright_testbed::{Process, Program, wait};

use crate::client::{JOB, Job};
use crate::schedule::Schedule;
use crate::servers::{Result, state_of};

const HOLDS_SOON: Duration = Duration::from_millis(800);

pub(crate) struct Clients<'a> {
    url: String,
    register: String,
    folder: &'a Path,
    journal: &'a Journal,
    begun: Instant,
    all: Mutex<Vec<Client>>,
}

struct Client {
    job: Job,
    process: Process,
    was_killed: bool,
    is_chosen: bool,
}

impl<'a> Clients<'a> {
    pub(crate) fn start(
        plans: &[workload::Plan],
        url: String,
        register: String,
        folder: &'a Path,
        journal: &'a Journal,
    ) -> Result<Self> {
        let begun = Instant::now();
        let this = Self { url, register, folder, journal, begun, all: Mutex::default() };
        for plan in plans {
            let client = this.spawn(plan.clone())?;
            lock(&this.all).push(client);
        }
        Ok(this)
    }

    fn spawn(&self, plan: workload::Plan) -> Result<Client> {
        let name = format!("client-{}", plan.process);
        let journal = self.folder.join(format!("{name}.jsonl"));
        let (url, register) = (self.url.clone(), self.register.clone());
        let job = Job { plan, url, name, journal, register };
        let folder = self.folder.join(&job.name);
        std::fs::create_dir_all(&folder)?;
        let program = std::env::current_exe()?.display().to_string();
        let process = Program::new(program, "lockwright-chaos")
            .arg("client")
            .env(JOB, serde_json::to_string(&job)?)
            .env("LD_PRELOAD", "")
            .start(&folder)?;
        Ok(Client { job, process, was_killed: false, is_chosen: false })
    }

    pub(crate) fn wait_for_a_grant(&self) -> Result<()> {
        let granted = wait::until(Duration::from_secs(30), || {
            let is_grant = |entry: &Entry| matches!(entry.event, Event::Granted { .. });
            self.entries().iter().any(is_grant).then_some(())
        });
        granted.ok_or_else(|| format!("no client was granted a lock:\n{}", self.logs()).into())
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.journals().iter().flat_map(|path| read(path)).collect()
    }

    pub(crate) fn final_entries(&self) -> Result<Vec<Entry>> {
        let was_killed: Vec<bool> = lock(&self.all).iter().map(|one| one.was_killed).collect();
        let mut entries = Vec::new();
        for (path, was_killed) in self.journals().iter().zip(was_killed) {
            if path.exists() || !was_killed {
                let read = journal::read(path);
                entries.extend(read.map_err(|error| format!("{}: {error}", path.display()))?);
            }
        }
        Ok(entries)
    }

    fn journals(&self) -> Vec<PathBuf> {
        lock(&self.all).iter().map(|one| one.job.journal.clone()).collect()
    }

    /// Counts the pending requests for `names` sent before `since`; 0 if one of `names` was granted
    /// later.
    pub(crate) fn held_up(&self, names: &[String], since: BootInstant) -> usize {
        let mut entries = self.entries();
        entries.sort_by_key(|entry| entry.at);
        let mut pending: BTreeMap<(&str, u64), BootInstant> = BTreeMap::new();
        for entry in &entries {
            match &entry.event {
                Event::Asked { request, name, .. } if names.contains(name) => {
                    pending.insert((&entry.process, *request), entry.at);
                }
                Event::Granted { request, .. } => {
                    let was_pending = pending.remove(&(entry.process.as_str(), *request)).is_some();
                    if was_pending && entry.at > since {
                        return 0;
                    }
                }
                Event::Failed { request, .. } => {
                    pending.remove(&(entry.process.as_str(), *request));
                }
                _ => {}
            }
        }
        pending.values().filter(|asked| **asked < since).count()
    }

    pub(crate) fn name(&self, index: usize) -> String {
        lock(&self.all)[index].job.name.clone()
    }

    pub(crate) fn choose(&self, pick: usize) -> usize {
        let candidates = || {
            let all = lock(&self.all);
            let well = all.iter().enumerate().filter(|(_, one)| {
                !one.is_chosen && matches!(state_of(one.process.pid()), Some('S' | 'R' | 'D'))
            });
            let paths = well.map(|(index, one)| (index, one.job.journal.clone()));
            paths.collect::<Vec<_>>()
        };
        let holder = wait::until(HOLDS_SOON, || {
            let mut holders = candidates();
            holders.retain(|(_, path)| holds(&read(path)) > 0);
            holders.get(pick % holders.len().max(1)).map(|(index, _)| *index)
        });
        let any = || candidates().first().map_or(0, |(index, _)| *index);
        let chosen = holder.unwrap_or_else(any);
        lock(&self.all)[chosen].is_chosen = true;
        chosen
    }

    pub(crate) fn kill(&self, index: usize, pause: Duration) -> Result<Option<String>> {
        let held = {
            let mut all = lock(&self.all);
            let client = &mut all[index];
            client.process.kill();
            client.was_killed = true;
            holds(&read(&client.job.journal))
        };
        self.journal.write(Event::Signalled { target: self.name(index), signal: Signal::Killed });
        sleep(pause);
        let mut plan = lock(&self.all)[index].job.plan.clone();
        plan.process += 10;
        plan.duration = plan.duration.saturating_sub(self.begun.elapsed());
        let next = self.spawn(plan)?;
        lock(&self.all).push(next);
        Ok(Some(format!("killed with {held} holds")))
    }

    pub(crate) fn stop(&self, index: usize, time: Duration) -> Option<String> {
        let (name, pid, held) = {
            let all = lock(&self.all);
            let client = &all[index];
            client.process.freeze();
            let held = holds(&read(&client.job.journal));
            (client.job.name.clone(), client.process.pid(), held)
        };
        self.journal.write(Event::Signalled { target: name.clone(), signal: Signal::Stopped });
        sleep(time);
        let stopped = state_of(pid) == Some('T');
        self.journal.write(Event::Signalled { target: name, signal: Signal::Continued });
        lock(&self.all)[index].process.thaw();
        stopped.then(|| format!("stopped with {held} holds"))
    }

    pub(crate) fn start_after_faults(&self, schedule: &Schedule) -> Result<String> {
        let mut plan = schedule.clients[0].clone();
        plan.process += 20;
        plan.duration = plan.ttl * 2 + Duration::from_secs(2);
        plan.work = vec![Work::Mutex];
        let client = self.spawn(plan)?;
        let name = client.job.name.clone();
        lock(&self.all).push(client);
        Ok(name)
    }

    pub(crate) fn join(&self, limit: Duration) -> Vec<String> {
        let end = Instant::now() + limit;
        let mut problems = Vec::new();
        for client in lock(&self.all).iter_mut().filter(|client| !client.was_killed) {
            let left = end.saturating_duration_since(Instant::now());
            match wait::until(left, || client.process.ended()) {
                Some(status) if status.success() => {}
                Some(status) => {
                    let log = client.process.log();
                    problems.push(format!("{}: {status}\n{}", client.job.name, log.trim_end()));
                }
                None => {
                    problems.push(format!("{} doesn't end", client.job.name));
                    client.process.kill();
                }
            }
        }
        problems
    }

    fn logs(&self) -> String {
        lock(&self.all).iter().map(|client| client.process.log()).collect()
    }
}

/// The journal may not exist yet.
fn read(path: &Path) -> Vec<Entry> {
    journal::read(path).unwrap_or_default()
}

/// Counts no shared holds: their holders don't write to the register.
fn holds(entries: &[Entry]) -> usize {
    let mut exclusive = BTreeSet::new();
    let mut held = Vec::new();
    for entry in entries {
        match &entry.event {
            Event::Asked { request, mode: Mode::Exclusive, .. } => {
                exclusive.insert(*request);
            }
            Event::Granted { request, token, .. } if exclusive.contains(request) => {
                held.push(*token);
            }
            Event::Releasing { token } | Event::Lost { token, .. } => {
                held.retain(|other| other != token);
            }
            _ => {}
        }
    }
    held.len()
}
