//! The reasons why no server accepts a session, which the client library doesn't report. Each
//! server is tried.

use std::io;
use std::time::Duration;

use lockwright_core::{Error, ErrorKind};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::config::Config;
use crate::errors::error;
use crate::four_letter_words::{self, Status};
use crate::tls;

const PATIENCE: Duration = Duration::from_millis(250);

const ONE_SERVER: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Tried {
    Refuses,
    Unknown,
    Silent(Duration),
    Broken(String),
    Reached,
    Alone,
    Serves,
}

/// Returns an error if all servers refuse connections. Otherwise never returns, so the caller keeps
/// waiting for its connection.
pub(crate) async fn unreachable_error(config: &Config) -> Error {
    // Try twice, because a server may be restarting.
    for _ in 0..2 {
        sleep(PATIENCE).await;
        let tried = all(config).await;
        if !refuse(&tried) {
            return std::future::pending().await;
        }
    }
    said(&all(config).await, config)
}

pub(crate) async fn why(config: &Config) -> Error {
    said(&all(config).await, config)
}

/// Returns an error if all servers refuse connections within `PATIENCE`.
pub(crate) async fn refusal(config: &Config) -> Option<Error> {
    let tried = timeout(PATIENCE, all(config)).await.ok()?;
    refuse(&tried).then(|| said(&tried, config))
}

fn refuse(tried: &[(String, Tried)]) -> bool {
    tried.iter().all(|(_, tried)| matches!(tried, Tried::Refuses | Tried::Unknown))
}

async fn all(config: &Config) -> Vec<(String, Tried)> {
    let limit = config.connect_timeout.min(ONE_SERVER);
    let is_secured = config.uses_tls();
    let mut trying = JoinSet::new();
    for (at, host) in config.contents.hosts.iter().cloned().enumerate() {
        trying.spawn(async move {
            let tried = one(&host, is_secured, limit).await;
            (at, host, tried)
        });
    }
    let mut tried = trying.join_all().await;
    tried.sort_unstable_by_key(|(at, ..)| *at);
    tried.into_iter().map(|(_, host, tried)| (host, tried)).collect()
}

async fn one(host: &str, is_secured: bool, limit: Duration) -> Tried {
    match timeout(limit, reached(host)).await {
        Err(_) => Tried::Silent(limit),
        Ok(Err(tried)) => tried,
        Ok(Ok(())) if is_secured => Tried::Reached,
        Ok(Ok(())) => match four_letter_words::ask(host, limit).await {
            Status::Serves { .. } => Tried::Serves,
            Status::Alone => Tried::Alone,
            Status::Refuses(_) | Status::Silent(_) => Tried::Reached,
        },
    }
}

async fn reached(host: &str) -> Result<(), Tried> {
    let addresses: Vec<_> = lookup_host(host).await.map_err(|_| Tried::Unknown)?.collect();
    let connected = TcpStream::connect(&*addresses).await;
    connected.map(drop).map_err(|cause| match cause.kind() {
        io::ErrorKind::ConnectionRefused => Tried::Refuses,
        _ => Tried::Broken(cause.to_string()),
    })
}

fn said(tried: &[(String, Tried)], config: &Config) -> Error {
    let is_secured = config.uses_tls();
    let mut kinds: Vec<(&Tried, Vec<&str>)> = Vec::new();
    for (host, tried) in tried {
        match kinds.iter_mut().find(|(kind, _)| *kind == tried) {
            Some((_, hosts)) => hosts.push(host),
            None => kinds.push((tried, vec![host])),
        }
    }
    let says = kinds.iter().map(|(kind, hosts)| {
        let which = if hosts.len() == 1 { "" } else { "each of " };
        format!("{which}{} {}", hosts.join(", "), kind.says(is_secured))
    });
    error(ErrorKind::Unavailable, says.collect::<Vec<_>>().join("; "))
}

impl Tried {
    fn says(&self, is_secured: bool) -> String {
        match self {
            Self::Refuses => "refuses connections; check that it runs".to_owned(),
            Self::Unknown => {
                "has a host name that can't be resolved; check its spelling".to_owned()
            }
            Self::Silent(limit) => format!(
                "doesn't answer within {limit:?}; does the server run, and can it be reached from \
                 here?"
            ),
            Self::Broken(cause) => format!("can't be reached: {cause}"),
            Self::Reached => format!(
                "is reachable but gives no session; possible causes: no quorum, too many \
                 connections from here, {}",
                tls::doubts(is_secured),
            ),
            Self::Alone => "runs, and gives no session: it finds no quorum".to_owned(),
            Self::Serves => "serves, and gave no session in time: a leader election is in \
                             progress, or there are too many connections from here \
                             (maxClientCnxns)"
                .to_owned(),
        }
    }
}
