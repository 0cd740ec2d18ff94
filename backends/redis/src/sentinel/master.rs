//! Discovery of the master through Sentinels: the latest election in their replies counts.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionInfo, FromRedisValue, RedisError, RedisResult, Value,
};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::cluster::Address;
use crate::config::Config;
use crate::connection::{command, dial};
use crate::errors::{self, error};
use crate::failure;
use crate::topology::{Topology, moved_to};

const ASKED_AGAIN: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sentinels<'c> {
    sentinels: &'c [ConnectionInfo],
    name: &'c str,
    server: &'c ConnectionInfo,
    limit: Duration,
    latest: &'c AtomicU64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Master {
    pub(super) at: Address,
    pub(super) epoch: u64,
    pub(super) replicas: u64,
    pub(super) sentinels: u64,
}

impl<'c> Sentinels<'c> {
    pub(crate) fn of(config: &'c Config, latest: &'c AtomicU64) -> Option<Self> {
        let limit = config.connect_timeout;
        match &config.topology {
            Topology::Sentinel { sentinels, master: name, server } => {
                Some(Self { sentinels, name, server, limit, latest })
            }
            _ => None,
        }
    }

    /// Connects to the master, with retries. `connect` must verify the server's role. Returns the
    /// connection and the epoch (number) of its election.
    pub(crate) async fn reach<T, F: Future<Output = Result<T>>>(
        self,
        connect: impl Fn(ConnectionInfo) -> F,
    ) -> Result<(T, u64)> {
        let mut last = None;
        let searching = async {
            loop {
                match self.once(&connect).await {
                    // Sentinels name the dead master until a failover is complete.
                    Err(failure) if failure.kind() == ErrorKind::Unavailable => {
                        last = Some(failure)
                    }
                    end => return end,
                }
                sleep(ASKED_AGAIN).await;
            }
        };
        match timeout(self.limit, searching).await {
            Ok(end) => end,
            Err(_) => Err(last.unwrap_or_else(|| {
                failure::silence(&format!("the master {:?}", self.name), self.limit)
            })),
        }
    }

    async fn once<T, F: Future<Output = Result<T>>>(
        self,
        connect: impl Fn(ConnectionInfo) -> F,
    ) -> Result<(T, u64)> {
        let master = self.master().await?;
        tokio::select! {
            end = connect(moved_to(self.server, &master.at)) => {
                end.map(|live| (live, master.epoch))
            }
            // Stops waiting for a replaced master, which may be frozen.
            () = self.another_than(&master) => Err(self.replaced(&master)),
        }
    }

    async fn another_than(self, master: &Master) {
        loop {
            sleep(ASKED_AGAIN).await;
            if self.master().await.is_ok_and(|now| now.at != master.at) {
                return;
            }
        }
    }

    fn replaced(self, master: &Master) -> Error {
        let (at, name) = (&master.at, self.name);
        Error::unavailable(format!("{at} isn't the master {name:?} any more"))
    }

    pub(crate) async fn master(self) -> Result<Master> {
        let before = self.latest.load(Ordering::Acquire);
        let mut asked = self.ask_all();
        let (mut named, mut failures) = (Vec::new(), Vec::new());
        let mut is_newest = false;
        while !is_newest && let Some(answer) = asked.join_next().await {
            match answer {
                Ok((_, Ok(master))) => named.push(master),
                Ok((_, Err(failure))) => failures.push(failure),
                Err(_) => {}
            }
            let latest = self.latest.load(Ordering::Acquire);
            is_newest = are_enough(&named, self.sentinels.len(), latest);
        }
        let has_majority = is_majority(&named, self.sentinels.len());
        let Some(master) = named.into_iter().max_by_key(|master| master.epoch) else {
            return Err(unnamed(&failures));
        };
        if record_election(self.latest, before, master.epoch, has_majority) {
            Ok(master)
        } else {
            Err(self.replaced(&master))
        }
    }

    pub(super) fn ask_all(self) -> JoinSet<(String, Result<Master>)> {
        let mut asked = JoinSet::new();
        // Half of the limit, for a possible second query.
        let limit = self.limit / 2;
        for sentinel in self.sentinels {
            let (sentinel, name) = (sentinel.clone(), self.name.to_owned());
            asked.spawn(async move {
                let address = sentinel.addr().to_string();
                let answer = match timeout(limit, ask(sentinel, &name)).await {
                    Ok(answer) => answer.map_err(|cause| unusable(&cause, &address, &name)),
                    Err(_) => {
                        let problem = format!("{address} did not answer within {limit:?}");
                        Err(Error::unavailable(problem))
                    }
                };
                (address, answer)
            });
        }
        asked
    }
}

fn unnamed(failures: &[Error]) -> Error {
    let kinds = failures.iter().map(Error::kind);
    let kind = kinds.max_by_key(|kind| match kind {
        // Report this first: the Sentinel accepted the login, but doesn't know the master's name.
        ErrorKind::InvalidConfig => 2,
        ErrorKind::Unavailable => 0,
        _ => 1,
    });
    let messages: Vec<&str> = failures.iter().map(Error::message).collect();
    let message = format!("no Sentinel names a master: {}", messages.join("; "));
    error(kind.unwrap_or(ErrorKind::Unavailable), message)
}

fn is_majority(named: &[Master], sentinels: usize) -> bool {
    named.len() > sentinels / 2
}

/// Returns whether a majority of Sentinels has named a master, and the newest election isn't older
/// than `latest`. If all replies aren't enough, the caller still uses them, because reset Sentinels
/// count elections from zero.
fn are_enough(named: &[Master], sentinels: usize, latest: u64) -> bool {
    is_majority(named, sentinels) && named.iter().any(|master| master.epoch >= latest)
}

/// Records the epoch of a master's election. Returns false if the master may be outdated, as when a
/// concurrent lookup has recorded a later epoch. `before` is the epoch at the lookup's start.
fn record_election(latest: &AtomicU64, before: u64, epoch: u64, is_majority: bool) -> bool {
    if epoch >= before {
        return latest.fetch_max(epoch, Ordering::AcqRel) <= epoch;
    }
    // A majority with an epoch below `before` was reset, but a minority may have missed a failover.
    is_majority && {
        let exchanged = latest.compare_exchange(before, epoch, Ordering::AcqRel, Ordering::Acquire);
        exchanged.map_or_else(|present| present <= epoch, |_| true)
    }
}

async fn ask(sentinel: ConnectionInfo, name: &str) -> RedisResult<Master> {
    let mut connection = dial(sentinel, AsyncConnectionConfig::new()).await?;
    let answer = command(&["SENTINEL", "MASTER", name]).query_async(&mut connection).await?;
    let facts = std::collections::HashMap::<String, String>::from_redis_value(answer)?;
    let fact = |name: &str| facts.get(name).map(String::as_str).unwrap_or_default();
    let odd = || {
        let problem = "the reply doesn't contain the master's address";
        RedisError::from((redis::ErrorKind::Parse, problem))
    };
    let number = |name| fact(name).parse::<u64>().map_err(|_| odd());
    let (host, port) = (fact("ip").to_owned(), fact("port").parse().map_err(|_| odd())?);
    Ok(Master {
        at: Address { host, port },
        epoch: number("config-epoch")?,
        replicas: number("num-slaves")?,
        sentinels: 1 + number("num-other-sentinels")?,
    })
}

fn unusable(cause: &RedisError, address: &str, name: &str) -> Error {
    let words = errors::own_words(cause);
    let denied =
        |what: &str| error(ErrorKind::Denied, format!("the Sentinel at {address} {what}{words}"));
    let text = cause.to_string();
    match errors::refusal(cause) {
        _ if text.contains("No such master") => Error::invalid_config(format!(
            "the Sentinel at {address} has no master {name:?}; use a name that SENTINEL MASTERS \
             shows"
        )),
        _ if text.contains("unknown command") => {
            Error::invalid_config(format!("{address} is a Redis server, not a Sentinel"))
        }
        Some((ErrorKind::Denied, _)) if text.contains("NOAUTH") => {
            denied("requires a password; add it to the URL as sentinel_password")
        }
        Some((ErrorKind::Denied, _)) if cause.code() == Some("NOPERM") => {
            denied("does not let the user run SENTINEL MASTER; permit it: +sentinel|master")
        }
        Some((ErrorKind::Denied, _)) => {
            denied("refuses the user name or password (sentinel_user, sentinel_password)")
        }
        _ => failure::of(cause, &format!("the Sentinel at {address}")),
    }
}

pub(crate) async fn must_be_master(
    connection: &mut MultiplexedConnection,
    shown: &str,
) -> Result<()> {
    let role: RedisResult<Vec<Value>> = redis::cmd("ROLE").query_async(connection).await;
    match role {
        Ok(role) => match role.first() {
            Some(Value::BulkString(role)) if role == b"master" => Ok(()),
            _ => Err(Error::unavailable(format!("{shown} is a replica by now"))),
        },
        Err(cause) if cause.code() == Some("NOPERM") => Err(error(
            ErrorKind::Denied,
            format!(
                "{shown}: the user may not run ROLE, which identifies a master; permit it: ACL \
                 SETUSER … +role"
            ),
        )),
        Err(cause) => Err(failure::of(&cause, shown)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elected(epoch: u64) -> Master {
        let at = Address { host: "a".to_owned(), port: 1 };
        Master { at, epoch, replicas: 1, sentinels: 5 }
    }

    #[test]
    fn slow_lookup_does_not_replace_a_later_election() {
        let latest = AtomicU64::new(7);
        assert!(record_election(&latest, 6, 7, true), "the same election");
        assert!(!record_election(&latest, 6, 6, true));
        assert!(!record_election(&latest, 6, 6, false));
        assert_eq!(latest.load(Ordering::Acquire), 7);
        assert!(record_election(&latest, 7, 0, true), "the Sentinels were reset");
        assert_eq!(latest.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_minority_does_not_bring_back_an_earlier_master() {
        let latest = AtomicU64::new(0);
        assert!(record_election(&latest, 0, 0, false), "a new client accepts a minority");
        assert!(record_election(&latest, 0, 1, false), "a later election");
        assert!(record_election(&latest, 1, 1, false), "the same election");
        assert!(!record_election(&latest, 1, 0, false));
        assert_eq!(latest.load(Ordering::Acquire), 1);
        assert!(!is_majority(&[elected(0)], 3));
        assert!(!is_majority(&[elected(0)], 2));
        assert!(is_majority(&[elected(0), elected(0)], 3));
    }

    #[test]
    fn a_majority_is_enough_unless_it_is_behind() {
        let named =
            |epochs: &[u64]| -> Vec<Master> { epochs.iter().copied().map(elected).collect() };
        assert!(!are_enough(&named(&[]), 1, 0));
        assert!(are_enough(&named(&[0]), 1, 0));
        assert!(!are_enough(&named(&[7]), 2, 0));
        assert!(!are_enough(&named(&[7, 7]), 5, 7));
        assert!(are_enough(&named(&[6, 6, 7]), 5, 7));
        assert!(are_enough(&named(&[8, 6, 6]), 5, 7));
        assert!(!are_enough(&named(&[6, 6, 6]), 5, 7), "one of them reported a later epoch");
        assert!(!are_enough(&named(&[6, 6, 6, 6]), 5, 7));
    }
}
