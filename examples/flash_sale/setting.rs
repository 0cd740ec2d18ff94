//! The configuration file.

use std::path::{Path, PathBuf};

use lockwright::backend::redact;
use lockwright::{Config, Error, Result};
use lockwright_testbed::{Cluster, Etcd, Fleet, MariaDb, Postgres, Redis, Sentinels, ZooKeeper};

pub(crate) struct Setting {
    pub(crate) config: PathBuf,
    pub(crate) kill: bool,
    /// True if this run started the servers, so that no lock can be held on them.
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
            let mut value = || {
                arguments.next().ok_or_else(|| Error::invalid_input(format!("{argument} what?")))
            };
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
                    return Err(Error::invalid_input(format!("{other:?} is unknown; {USAGE}")));
                }
            }
        }
        if written {
            let text = format!(
                "url = {url:?}\nttl = \"2s\"\nlabel = \"flash-sale\"\nrequire = {require:?}\n"
            );
            std::fs::write(&setting.config, text).map_err(crate::io)?;
        }
        Ok(setting)
    }
}

fn start(name: &str) -> Result<(Box<dyn Send>, String)> {
    let (server, mode) = name.split_once('/').unwrap_or((name, "lease"));
    let failed = |error: lockwright_testbed::Error| Error::unavailable(error.to_string());
    Ok(match server {
        "redis" => {
            let redis = Redis::start().map_err(failed)?;
            let url = redis.url();
            (Box::new(redis), url)
        }
        "sentinel" => {
            let sentinels = Sentinels::start().map_err(failed)?;
            let url = sentinels.url();
            (Box::new(sentinels), url)
        }
        "cluster" => {
            let cluster = Cluster::start().map_err(failed)?;
            let url = cluster.url();
            (Box::new(cluster), url)
        }
        "redlock" => {
            let fleet = Fleet::start(5).map_err(failed)?;
            // All nodes are on one machine, so round trips take longer.
            let url = format!("redlock:{}?node_timeout=200ms", fleet.urls().join(","));
            (Box::new(fleet), url)
        }
        "postgres" => {
            let postgres = Postgres::start().map_err(failed)?;
            let url = format!("{}?mode={mode}", postgres.url());
            (Box::new(postgres), url)
        }
        "mariadb" => {
            let mariadb = MariaDb::start().map_err(failed)?;
            let url = format!("{}?mode={mode}", mariadb.url());
            (Box::new(mariadb), url)
        }
        "etcd" => {
            let etcd = Etcd::start().map_err(failed)?;
            let url = etcd.url();
            (Box::new(etcd), url)
        }
        "zookeeper" => {
            let zookeeper = ZooKeeper::start().map_err(failed)?;
            let url = zookeeper.url();
            (Box::new(zookeeper), url)
        }
        _ => {
            return Err(Error::invalid_input(
                "--on takes redis, sentinel, cluster, redlock, etcd, zookeeper, postgres or mariadb, \
                 and for the last two also a mode, as in postgres/session",
            ));
        }
    })
}

pub(crate) fn read(file: &Path) -> Result<Config> {
    let text = std::fs::read_to_string(file).map_err(crate::io)?;
    toml::from_str(&text).map_err(|error| {
        Error::invalid_config(format!("{} can't be read", file.display())).with_source(error)
    })
}

pub(crate) fn shown(config: &Config) -> String {
    redact::url(&config.url)
}
