use std::path::{Path, PathBuf};

use lockwright::Config;
use lockwright_testbed::{Cluster, Etcd, Fleet, MariaDb, Postgres, Redis, Sentinels, ZooKeeper};

use crate::support::Result;

pub(crate) struct Setting {
    pub(crate) config: PathBuf,
    pub(crate) kill: bool,
    /// This run started the servers, so no lock can be held on them.
    pub(crate) is_new: bool,
    _server: Option<Box<dyn Send>>,
}

const USAGE: &str = "there are --config FILE, --url URL, --on SERVER, --require PROMISE and --kill";

impl Setting {
    pub(crate) fn from_arguments(folder: &Path) -> Result<Self> {
        let mut setting =
            Self { config: folder.join("sale.toml"), kill: false, is_new: false, _server: None };
        let mut url = format!("sqlite:{}", folder.join("locks.db").display());
        let mut require = Vec::new();
        let mut written = true;
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} what?"));
            match argument.as_str() {
                "--kill" => setting.kill = true,
                "--config" => (setting.config, written) = (value()?.into(), false),
                "--url" => url = value()?,
                "--on" => {
                    let (server, its_url) = start(&value()?)?;
                    (setting._server, url) = (Some(server), its_url);
                    setting.is_new = true;
                }
                "--require" => require.push(value()?),
                other => {
                    return Err(format!("{other:?} is unknown; {USAGE}").into());
                }
            }
        }
        if written {
            let text = format!(
                "url = {url:?}\nttl = \"2s\"\nlabel = \"flash-sale\"\nrequire = {require:?}\n"
            );
            std::fs::write(&setting.config, text)?;
        }
        Ok(setting)
    }
}

type Running = (Box<dyn Send>, String);

fn running<S: Send + 'static>(
    server: lockwright_testbed::Result<S>,
    url: impl FnOnce(&S) -> String,
) -> Result<Running> {
    let server = server?;
    let url = url(&server);
    Ok((Box::new(server), url))
}

fn start(name: &str) -> Result<Running> {
    let (server, mode) = name.split_once('/').unwrap_or((name, "lease"));
    match server {
        "redis" => running(Redis::start(), Redis::url),
        "sentinel" => running(Sentinels::start(), Sentinels::url),
        "cluster" => running(Cluster::start(), Cluster::url),
        // All nodes are on one busy machine, so the timeout is long.
        "redlock" => running(Fleet::start(5), |fleet| {
            format!("redlock:{}?node_timeout=200ms", fleet.urls().join(","))
        }),
        "postgres" => running(Postgres::start(), |one| format!("{}?mode={mode}", one.url())),
        "mariadb" => running(MariaDb::start(), |one| format!("{}?mode={mode}", one.url())),
        "etcd" => running(Etcd::start(), Etcd::url),
        "zookeeper" => running(ZooKeeper::start(), ZooKeeper::url),
        _ => Err(
            "--on takes redis, sentinel, cluster, redlock, etcd, zookeeper, postgres or mariadb, \
             and for the last two also a mode, as in postgres/session"
                .into(),
        ),
    }
}

pub(crate) fn read(file: &Path) -> Result<Config> {
    let text = std::fs::read_to_string(file)?;
    let config = toml::from_str(&text);
    config.map_err(|error| format!("{} can't be read: {error}", file.display()).into())
}
