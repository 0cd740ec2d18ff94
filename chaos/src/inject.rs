use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lockwright::Clock;
use lockwright_conformance::history::journal::{Event, Journal};
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{Proxy, wait};

use crate::clients::Clients;
use crate::clock::ServersClock;
use crate::configuration::Kind;
use crate::faults::Fault;
use crate::schedule::{self, Planned, Schedule};
use crate::servers::{Lock, Result, Server, Servers, block_on, is_alive, state_of};

pub(crate) struct Scene<'a> {
    pub(crate) servers: &'a mut dyn Servers,
    pub(crate) schedule: &'a Schedule,
    pub(crate) clients: &'a Clients<'a>,
    pub(crate) journal: &'a Journal,
    pub(crate) disk: Option<&'a Path>,
    pub(crate) clock: Option<&'a ServersClock>,
}

#[derive(Debug)]
pub(crate) struct Injected {
    pub(crate) fault: Fault,
    pub(crate) effect: Option<String>,
}

/// In milliseconds.
pub(crate) const LARGEST_STEP_BACK: i64 = 2_500;

const SOON: Duration = Duration::from_secs(3);

pub(crate) fn on_a_client(
    clients: &Clients<'_>,
    journal: &Journal,
    planned: Planned,
) -> Result<Injected> {
    let Planned { fault, lasts, pick, .. } = planned;
    let index = clients.choose(pick);
    let target = clients.name(index);
    note(journal, fault, &target, None, true);
    let effect = match fault {
        Fault::ClientKilled => clients.kill(index, lasts)?,
        _ => clients.stop(index, lasts),
    };
    note(journal, fault, &target, effect.clone(), false);
    Ok(Injected { fault, effect })
}

fn note(journal: &Journal, fault: Fault, target: &str, effect: Option<String>, begins: bool) {
    let (fault, target) = (fault.to_string(), target.to_owned());
    journal.write(Event::Fault { fault, target, begins, effect });
}

impl Scene<'_> {
    pub(crate) fn on_the_servers(&mut self, planned: Planned) -> Result<Injected> {
        let fault = planned.fault;
        let target = &self.schedule.configuration.to_string();
        note(self.journal, fault, target, None, true);
        let effect = self.inject(planned)?;
        note(self.journal, fault, target, effect.clone(), false);
        Ok(Injected { fault, effect })
    }

    fn inject(&mut self, Planned { fault, lasts, pick, .. }: Planned) -> Result<Option<String>> {
        match fault {
            Fault::ServerKilled => self.kill(pick, lasts),
            Fault::ServerRestarted => self.restart(pick),
            Fault::ServerDataLost => self.lose_data(pick, lasts),
            Fault::ServerFrozen => {
                let index = self.chosen(pick);
                Ok(self.freeze(index, lasts))
            }
            Fault::DiskSlow => self.stall(pick, lasts),
            Fault::Failover => self.servers.fail_over().map(Some),
            Fault::ConnectionsCut => Ok(self.cut(lasts)),
            Fault::ConnectionsHalfOpen => {
                let half_open = |proxy: &Proxy| proxy.set(Traffic::SwallowAnswers);
                Ok(self.disturb(lasts, (Proxy::swallowed, "swallowed"), half_open))
            }
            Fault::ConnectionsSilent => {
                Ok(self.disturb(lasts, (Proxy::swallowed, "swallowed"), Proxy::silence_present))
            }
            Fault::ConnectionsDelayed | Fault::Throttled => {
                let traffic = match fault {
                    Fault::Throttled => Traffic::Throttle(4_000 + pick as u32 % 16_000),
                    _ => Traffic::Delay(Duration::from_millis(10 + pick as u64 % 90)),
                };
                Ok(self.disturb(lasts, (Proxy::delayed, "delayed"), |proxy| proxy.set(traffic)))
            }
            Fault::RowLocked | Fault::TableLocked => self.lock(fault, pick, lasts),
            Fault::ConnectionLimit => self.limit_connections(lasts),
            Fault::DescriptorLimit => self.limit_descriptors(lasts),
            Fault::DiskFull => self.fill_disk(lasts),
            Fault::ClockForward | Fault::ClockBack => self.step_clock(fault, pick, lasts),
            Fault::ClientKilled | Fault::ClientStopped => Err("this is a client's fault".into()),
        }
    }

    fn chosen(&mut self, pick: usize) -> usize {
        let (count, leader) = (self.servers.servers().len(), self.servers.leader().unwrap_or(0));
        let others = count - 1;
        let hits_the_leader = schedule::hits_the_leader(pick) || others == 0;
        if hits_the_leader { leader } else { (leader + 1 + pick / 2 % others) % count }
    }

    fn server(&mut self, index: usize) -> &mut dyn Server {
        self.servers.servers().swap_remove(index)
    }

    fn kill(&mut self, pick: usize, lasts: Duration) -> Result<Option<String>> {
        let index = self.chosen(pick);
        self.server(index).kill();
        let gone = !is_alive(self.server(index).pid());
        sleep(lasts);
        self.server(index).restart(true)?;
        Ok(gone.then(|| format!("server {index} gone")))
    }

    fn restart(&mut self, pick: usize) -> Result<Option<String>> {
        let index = self.chosen(pick);
        let before = self.server(index).pid();
        self.server(index).restart(true)?;
        Ok((before != self.server(index).pid()).then(|| format!("server {index} restarted")))
    }

    fn lose_data(&mut self, pick: usize, lasts: Duration) -> Result<Option<String>> {
        let index = self.chosen(pick);
        self.server(index).kill();
        let before = self.server(index).pid();
        sleep(lasts);
        // Clients stay disconnected until `after_data_loss` has created the tables.
        let makes_tables =
            matches!(self.schedule.configuration.kind(), Kind::Postgres | Kind::Mysql);
        if makes_tables {
            self.servers.proxies().into_iter().for_each(Proxy::cut);
        }
        self.server(index).restart(false)?;
        self.servers.after_data_loss()?;
        if makes_tables {
            self.servers.proxies().into_iter().for_each(Proxy::mend);
        }
        Ok((before != self.server(index).pid()).then(|| format!("server {index} empty")))
    }

    fn freeze(&mut self, index: usize, lasts: Duration) -> Option<String> {
        self.server(index).freeze();
        sleep(lasts);
        let stopped = state_of(self.server(index).pid()) == Some('T');
        self.server(index).thaw();
        stopped.then(|| format!("server {index} stopped"))
    }

    /// Imitates slow disk syncs by short freezes.
    fn stall(&mut self, pick: usize, lasts: Duration) -> Result<Option<String>> {
        let index = self.chosen(pick);
        let end = Instant::now() + lasts;
        let stall = Duration::from_millis(60 + pick as u64 % 150);
        let mut stalls = 0;
        while Instant::now() < end {
            if self.freeze(index, stall).is_none() {
                return Ok(None);
            }
            stalls += 1;
            sleep(Duration::from_millis(30));
        }
        Ok(Some(format!("{stalls} stalls")))
    }

    fn total(&self, count: impl Fn(&Proxy) -> usize) -> usize {
        self.servers.proxies().into_iter().map(count).sum()
    }

    fn cut(&mut self, lasts: Duration) -> Option<String> {
        let before = self.total(Proxy::accepted);
        self.servers.proxies().into_iter().for_each(Proxy::cut);
        sleep(lasts);
        self.servers.proxies().into_iter().for_each(Proxy::mend);
        self.reconnected(before)
    }

    fn reconnected(&self, before: usize) -> Option<String> {
        wait::until(SOON, || {
            let now = self.total(Proxy::accepted);
            (now > before).then(|| format!("{} connected again", now - before))
        })
    }

    fn disturb(
        &mut self,
        lasts: Duration,
        (count, word): (fn(&Proxy) -> usize, &str),
        begin: impl Fn(&Proxy),
    ) -> Option<String> {
        let before = self.total(count);
        self.servers.proxies().into_iter().for_each(begin);
        sleep(lasts);
        let counted = self.total(count) - before;
        self.servers.proxies().into_iter().for_each(|proxy| proxy.set(Traffic::Forward));
        (counted > 0).then(|| format!("{counted} {word}"))
    }

    fn lock(&mut self, fault: Fault, pick: usize, lasts: Duration) -> Result<Option<String>> {
        let names = &self.schedule.clients[0].names;
        let name = pick % names.len();
        let (what, names) = match fault {
            Fault::RowLocked => (Lock::Row(&names[name]), &names[name..=name]),
            _ => (Lock::Table, &names[..]),
        };
        let mut locking = self.servers.lock(what)?;
        let end = Instant::now() + lasts;
        sleep(lasts / 4);
        let since = Clock::boot().now();
        let mut most = 0;
        while Instant::now() < end {
            most = most.max(locking.waiting());
            sleep(Duration::from_millis(50));
        }
        let held_up = self.clients.held_up(names, since);
        drop(locking);
        Ok((most + held_up > 0).then(|| format!("{most} sessions and {held_up} requests waited")))
    }

    fn limit_connections(&mut self, lasts: Duration) -> Result<Option<String>> {
        self.servers.limit_connections(true)?;
        let effect = self.refusal(lasts);
        self.servers.limit_connections(false)?;
        Ok(effect)
    }

    /// Acquires repeatedly with new clients for `lasts`, then for at most [`SOON`] until one fails.
    fn refusal(&self, lasts: Duration) -> Option<String> {
        let end = Instant::now() + lasts;
        let mut refused = 0;
        while Instant::now() < end || (refused == 0 && Instant::now() < end + SOON) {
            refused += usize::from(self.acquires().is_err());
            sleep(Duration::from_millis(100));
        }
        (refused > 0).then(|| format!("{refused} refused"))
    }

    fn acquires(&self) -> Result<()> {
        let (url, name) = (self.servers.direct_url(), format!("{}probe", self.schedule.prefix()));
        let probe = async {
            let locks = lockwright::connect(&url).await?;
            let request = locks.mutex(name).ttl(self.schedule.ttl());
            let guard = request.wait_for(Duration::from_millis(300)).acquire().await?;
            Result::<()>::Ok(guard.release().await?)
        };
        block_on(async { tokio::time::timeout(Duration::from_secs(1), probe).await? })
    }

    fn limit_descriptors(&mut self, lasts: Duration) -> Result<Option<String>> {
        // Below the server's open descriptors: it keeps them, but gets no new ones.
        const LIMIT: &str = "4";
        let pid = self.server(0).pid();
        let usual = descriptor_limit(pid).ok_or("the limit of descriptors is unknown")?;
        limit_descriptors(pid, LIMIT)?;
        self.servers.proxies().into_iter().for_each(Proxy::drop_connections);
        let effect = self.refusal(lasts);
        let _ = limit_descriptors(pid, &usual);
        // The refusals would fill the lane's disk.
        let log = fs::File::options().write(true).open(format!("/proc/{pid}/fd/1"));
        let _ = log.and_then(|log| log.set_len(0));
        self.servers.recover()?;
        Ok(effect)
    }

    fn fill_disk(&mut self, lasts: Duration) -> Result<Option<String>> {
        let Some(disk) = self.disk else { return Ok(None) };
        let ballast = disk.join("ballast");
        let filled = fill(&ballast);
        let effect = self.refusal(lasts);
        fs::remove_file(&ballast)?;
        self.servers.recover()?;
        Ok(effect.map(|effect| format!("{filled} MB filled, {effect}")))
    }

    fn step_clock(&mut self, fault: Fault, pick: usize, lasts: Duration) -> Result<Option<String>> {
        let Some(clock) = self.clock else { return Ok(None) };
        let step = match fault {
            Fault::ClockBack => -500 - pick as i64 % (LARGEST_STEP_BACK - 500),
            _ => 500 + pick as i64 % 8_000,
        };
        let before = self.servers.clock_ahead()?;
        clock.step(step)?;
        let ahead = self.servers.clock_ahead()? - before;
        sleep(lasts);
        let stepped = ahead.signum() == step.signum() && ahead.abs() > 400;
        Ok(stepped.then(|| format!("{ahead} ms")))
    }
}

fn descriptor_limit(pid: u32) -> Option<String> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3).map(str::to_owned)
}

/// Runs `prlimit` as the process's user: others, even root, need a capability.
fn limit_descriptors(pid: u32, limit: &str) -> Result<()> {
    let owner = fs::metadata(format!("/proc/{pid}"))?;
    let output = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--nofile={limit}:")])
        .uid(owner.uid())
        .gid(owner.gid())
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
    }
}

fn fill(file: &Path) -> usize {
    let Ok(mut file) = fs::File::create(file) else { return 0 };
    let piece = vec![0x55; 64 << 10];
    let mut pieces = 0;
    while file.write_all(&piece).is_ok() {
        pieces += 1;
    }
    // Small pieces fill the rest, so that even small writes fail.
    while file.write_all(&piece[..512]).is_ok() {}
    pieces / 16
}
