//! Queries to each server: the command `srvr`, which can't be forbidden, and `conf`, which an
//! operator must allow.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::Config;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) status: Status,
    pub(crate) tick: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Serves {
        version: String,
        mode: String,
    },
    /// The server has no quorum.
    Alone,
    Refuses(String),
    Silent(String),
}

pub(crate) async fn look(config: &Config) -> Vec<Server> {
    let ask_one = |host: &String| {
        let (host, limit) = (host.clone(), config.response_timeout);
        tokio::spawn(async move {
            let (status, tick) = tokio::join!(ask(&host, limit), tick(&host, limit));
            Server { host, status, tick }
        })
    };
    let asked: Vec<_> = config.contents.hosts.iter().map(ask_one).collect();
    let mut servers = Vec::with_capacity(asked.len());
    for server in asked {
        servers.extend(server.await.ok());
    }
    servers
}

pub(crate) async fn ask(host: &str, limit: Duration) -> Status {
    match tokio::time::timeout(limit, says(host, "srvr")).await {
        Ok(Ok(answer)) => read(&answer),
        Ok(Err(cause)) => Status::Silent(cause.to_string()),
        Err(_) => Status::Silent(format!("nothing came within {limit:?}")),
    }
}

async fn tick(host: &str, limit: Duration) -> Option<Duration> {
    let answer = tokio::time::timeout(limit, says(host, "conf")).await.ok()?.ok()?;
    let tick = answer.lines().find_map(|line| line.strip_prefix("tickTime="))?;
    tick.trim().parse().ok().map(Duration::from_millis)
}

async fn says(host: &str, command: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(host).await?;
    connection.write_all(command.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn read(answer: &str) -> Status {
    let after = |start: &str| {
        let mut lines = answer.lines();
        lines.find_map(|line| line.trim().strip_prefix(start)).map(|rest| rest.trim().to_owned())
    };
    match (after("Zookeeper version:"), after("Mode:")) {
        (Some(version), Some(mode)) => Status::Serves {
            version: version.split(['-', ',']).next().unwrap_or_default().to_owned(),
            mode,
        },
        _ if answer.contains("not currently serving") => Status::Alone,
        _ if answer.is_empty() => Status::Refuses("it hung up".to_owned()),
        _ => Status::Refuses(answer.lines().next().unwrap_or_default().trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_responses_are_parsed() {
        let serves = "Zookeeper version: 3.8.0-1, built on 2022-02-25\nLatency min/avg/max: 0/0/0\n\
                      Zxid: 0x100000002\nMode: follower\nNode count: 5\n";
        let (version, mode) = ("3.8.0".to_owned(), "follower".to_owned());
        assert_eq!(read(serves), Status::Serves { version, mode });
        let alone = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(read(alone), Status::Alone);
        let forbidden = "srvr is not executed because it is not in the whitelist.\n";
        assert_eq!(read(forbidden), Status::Refuses(forbidden.trim().to_owned()));
        assert!(matches!(read(""), Status::Refuses(_)));
    }
}
