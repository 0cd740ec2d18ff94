use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockwright_core::backend_util::finding;
use lockwright_core::{ErrorKind, Finding, Result};
use redis::Value;

use crate::answer::read;
use crate::aof_replay::{self, Replay};
use crate::cluster;
use crate::connection::{Link, Live, command};
use crate::errors::{Effect, error};
use crate::scripts::Call;
use crate::sentinel;
use crate::servers::Servers;

const OLDEST_MAINTAINED: (u32, u32) = (6, 2);

const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

const NEARLY_FULL_PERCENT: u64 = 90;

type Facts = HashMap<String, String>;

#[derive(Debug)]
pub(crate) struct Server {
    info: Option<Facts>,
    config: Option<Facts>,
    replay: Replay,
}

impl Server {
    pub(crate) async fn look(link: &Arc<Link>, live: &Arc<Live>) -> Result<Self> {
        let ask = async |words: &[&str]| {
            let command = command(words);
            permitted(link.run_on(live, Call::command("", &command, Effect::Reads)).await)
        };
        let info = ask(&["INFO"]).await?.map(facts_of_info).transpose()?;
        let config = ask(&["CONFIG", "GET", "*append*"]).await?.map(read).transpose()?;
        let mut server = Self { info, config, replay: Replay::Restored };
        if server.logs_every_write() {
            server.replay = aof_replay::ask(link, live).await?;
        }
        Ok(server)
    }

    pub(crate) fn can_lock(&self) -> Result<()> {
        if let Some(master) = self.master() {
            return Err(error(
                ErrorKind::Unsupported,
                format!(
                    "this server is a replica, which can't lock; connect to its master, {master}"
                ),
            ));
        }
        if self.says("cluster_enabled") == Some("1") {
            return Err(error(
                ErrorKind::InvalidConfig,
                "this server is a node of a Cluster; connect to it by redis+cluster: or \
                 rediss+cluster:",
            ));
        }
        Ok(())
    }

    pub(crate) fn keeps_every_write(&self) -> bool {
        self.logs_every_write() && self.replay == Replay::Restored
    }

    fn logs_every_write(&self) -> bool {
        self.configured("appendonly") == Some("yes")
            && self.configured("appendfsync") == Some("always")
            && self.configured("no-appendfsync-on-rewrite") != Some("yes")
    }

    fn configured(&self, name: &str) -> Option<&str> {
        self.config.as_ref()?.get(name).map(String::as_str)
    }

    pub(crate) fn says(&self, name: &str) -> Option<&str> {
        self.info.as_ref()?.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.says(name)?.parse().ok()
    }

    fn master(&self) -> Option<String> {
        (self.says("role")? == "slave").then(|| {
            let part = |name| self.says(name).unwrap_or("?");
            format!("{}:{}", part("master_host"), part("master_port"))
        })
    }
}

pub(crate) async fn examine(servers: &Servers) -> Result<Vec<Finding>> {
    let mut findings = match servers {
        Servers::One(link) => examine_one(link).await?,
        Servers::Cluster(cluster) => cluster::doctor::examine(cluster).await?,
    };
    findings.extend(sentinel::doctor::examine(servers.config()).await);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

pub(crate) async fn examine_one(link: &Arc<Link>) -> Result<Vec<Finding>> {
    let server = Server::look(link, &link.live().await?).await?;
    let mut findings = Vec::new();
    findings.extend(denied(&server));
    findings.extend(replica(&server));
    findings.extend(eviction(&server));
    findings.extend(persistence(&server));
    findings.extend(memory(&server));
    findings.extend(server.says("redis_version").and_then(version));
    findings.extend(replicas(&server));
    findings.extend(clock(link).await?);
    findings.extend(publishing(link).await?);
    findings.extend(tracking(link));
    Ok(findings)
}

fn denied(server: &Server) -> Vec<Finding> {
    let mut findings = Vec::new();
    if server.info.is_none() {
        findings.push(finding::warning(
            "info-denied",
            "the user may not run INFO",
            "the client can't check whether the server is a replica, evicts keys or is too old",
            "permit it: ACL SETUSER … +info",
        ));
    }
    if server.config.is_none() {
        findings.push(finding::warning(
            "config-denied",
            "the user may not run CONFIG GET",
            "the client can't check whether the server persists every write, so the profile \
             doesn't include its restart",
            "permit it: ACL SETUSER … +config|get; or ask the server's operator",
        ));
    }
    findings
}

fn replica(server: &Server) -> Option<Finding> {
    let master = server.master()?;
    Some(finding::error(
        "replica",
        format!("the server is a replica of {master}"),
        "a replica refuses writes, so nothing can be locked on it",
        format!("connect to {master}"),
    ))
}

fn eviction(server: &Server) -> Option<Finding> {
    let policy = server.says("maxmemory_policy")?;
    (policy != "noeviction").then_some(finding::error(
        "eviction-policy",
        format!("the eviction policy is {policy}"),
        "when its memory is full, the server evicts held locks and fences",
        "CONFIG SET maxmemory-policy noeviction, or use a separate server for locks",
    ))
}

fn persistence(server: &Server) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_logged = server.number("aof_enabled").map(|enabled| enabled == 1);
    let loses = match (is_logged, server.configured("appendfsync")) {
        (Some(false), _) => Some("appendonly is no: writes are not logged".to_owned()),
        (_, Some(fsync)) if fsync != "always" => {
            Some(format!("appendfsync is {fsync}: the last writes are not on the disk yet"))
        }
        _ if server.configured("no-appendfsync-on-rewrite") == Some("yes") => Some(
            "no-appendfsync-on-rewrite is yes: while the log is rewritten, the last writes are not \
             on the disk yet"
                .to_owned(),
        ),
        _ => None,
    };
    if let Some(what) = loses {
        findings.push(finding::warning(
            "persistence",
            what,
            "a crash of the server frees locks that are held, and two may then hold one",
            "appendonly yes, appendfsync always and no-appendfsync-on-rewrite no; else let what \
             the lock protects check fences",
        ));
    }
    findings.extend(replay_of(server.replay));
    for (fact, subject) in
        [("aof_last_write_status", "the log"), ("rdb_last_bgsave_status", "a snapshot")]
    {
        if server.says(fact) == Some("err") {
            findings.push(finding::error(
                "persistence-failing",
                format!("the server could not write {subject}"),
                "the server refuses writes until this works again, so nothing can be locked",
                "see the server's log; a full disk is the usual reason",
            ));
        }
    }
    findings
}

fn replay_of(replay: Replay) -> Option<Finding> {
    let (what, fix) = match replay {
        Replay::Restored => return None,
        Replay::Dropped => (
            "the default user may not write, and Redis loads its log with that user's rights",
            "user default off ~* &* +@all: with off, no client can log in as this user",
        ),
        Replay::Unknown => (
            "the client can't check whether the default user may write, and Redis loads its log \
             with that user's rights",
            "permit the check: ACL SETUSER … +acl|dryrun (Redis 7.0 or newer)",
        ),
    };
    Some(finding::warning(
        "persistence",
        what,
        "when the server restarts, it may drop every lock in its log, and a lock may get a second \
         holder; the profile doesn't include a restart",
        fix,
    ))
}

fn memory(server: &Server) -> Option<Finding> {
    let (used, limit) = (server.number("used_memory")?, server.number("maxmemory")?);
    let bound = limit.saturating_mul(NEARLY_FULL_PERCENT);
    (limit > 0 && used.saturating_mul(100) >= bound).then_some(finding::warning(
        "memory-nearly-full",
        format!("{used} of {limit} bytes of memory are in use"),
        "once it is full, the server refuses locks or evicts held ones",
        "raise maxmemory or remove data",
    ))
}

fn version(version: &str) -> Option<Finding> {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (parts.next()?, parts.next().unwrap_or(0));
    (found < OLDEST_MAINTAINED).then_some(finding::warning(
        "version-too-old",
        format!("the server is Redis {version}"),
        "this version gets no more fixes, also for vulnerabilities of the script engine, which \
         locks use; and Lockwright isn't tested with it",
        format!(
            "upgrade to at least {}.{}, better to a version that is maintained",
            OLDEST_MAINTAINED.0, OLDEST_MAINTAINED.1
        ),
    ))
}

fn replicas(server: &Server) -> Option<Finding> {
    let replicas = server.number("connected_slaves").filter(|replicas| *replicas > 0)?;
    Some(finding::note(
        "replicas",
        format!("{replicas} replicas follow this server"),
        "a replica lags behind: if it takes over, the latest locks are lost",
        "let what the lock protects check fences, or use a backend that survives a failover",
    ))
}

async fn clock(link: &Arc<Link>) -> Result<Option<Finding>> {
    let before = SystemTime::now();
    let Some(answer) = permitted(link.read(&redis::cmd("TIME")).await)? else { return Ok(None) };
    let after = SystemTime::now();
    let (seconds, micros): (u64, u64) = read(answer)?;
    let since = Duration::from_secs(seconds) + Duration::from_micros(micros);
    let server = SystemTime::UNIX_EPOCH + since;
    let off = before.duration_since(server).or(server.duration_since(after));
    Ok(clock_is_off(off.unwrap_or_default()))
}

fn clock_is_off(off: Duration) -> Option<Finding> {
    (off > CLOCK_TOLERANCE).then_some(finding::warning(
        "clock",
        format!("the clocks of the server and of this machine differ by {off:.1?}"),
        "one of them is wrong; if the server's clock is set ahead, locks expire while they are \
         held; if it is set back, they expire late",
        "synchronise the clocks of both, slewing rather than stepping",
    ))
}

async fn publishing(link: &Arc<Link>) -> Result<Option<Finding>> {
    // Only tests the permission. Clients ignore the text.
    let publish = command(&["PUBLISH", &link.shared.wakeups.broken, "doctor"]);
    Ok(permitted(link.read(&publish).await)?.is_none().then_some(finding::warning(
        "publish-denied",
        "the user may not publish under lockwright:*",
        "a release doesn't wake waiters; they notice it at their next poll",
        "permit it: ACL SETUSER … +publish &lockwright:*",
    )))
}

fn tracking(link: &Link) -> Option<Finding> {
    (!link.shared.wakeups.tracked.works()).then_some(finding::note(
        "tracking-denied",
        "the user may not use client tracking, or the server doesn't support it",
        "when another client deletes the key of a hold, the holder notices it only at its next \
         renewal; and a waiter for a lock of another library must poll often",
        "permit it: ACL SETUSER … +client|tracking +client|caching",
    ))
}

pub(crate) fn permitted(answer: Result<Value>) -> Result<Option<Value>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        // Some hosted services lack CONFIG, which counts as a denial.
        Err(error) if error.kind() == ErrorKind::Denied => Ok(None),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let is_unknown = cause.is_some_and(|it| it.to_lowercase().contains("unknown command"));
            if is_unknown { Ok(None) } else { Err(error) }
        }
    }
}

fn facts_of_info(answer: Value) -> Result<Facts> {
    Ok(read::<String>(answer)?
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_found() {
        for old in ["6.0.16", "5.0.7", "6.1"] {
            assert_eq!(version(old).unwrap().code, "version-too-old", "{old}");
        }
        for maintained in ["6.2.0", "7.0.15", "8.2.1", "10.0.0", "unknown"] {
            assert_eq!(version(maintained), None, "{maintained}");
        }
    }

    #[test]
    fn clocks_that_differ_are_found() {
        assert_eq!(clock_is_off(Duration::from_millis(900)), None);
        assert_eq!(clock_is_off(Duration::from_secs(2)).unwrap().code, "clock");
    }
}
