use std::time::Duration;

macro_rules! named {
    ($name:ident { $($(#[$attribute:meta])* $variant:ident,)+ }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub(crate) enum $name { $($(#[$attribute])* $variant,)+ }

        impl $name {
            pub(crate) const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    };
}
pub(crate) use named;

named! { Configuration {
    Sqlite,
    PostgresLease,
    PostgresSession,
    PostgresRow,
    MysqlLease,
    MysqlSession,
    MysqlRow,
    Redis,
    RedisSentinel,
    RedisCluster,
    Redlock,
    Etcd,
    #[serde(rename = "zookeeper")]
    ZooKeeper,
} }

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    Mysql,
    Redis,
    Etcd,
    ZooKeeper,
}

use Configuration::*;

impl Configuration {
    pub(crate) fn named(text: &str) -> Vec<Self> {
        let exact = Self::ALL.into_iter().filter(|one| one.to_string() == text);
        let family = format!("{text}-");
        let modes = Self::ALL.into_iter().filter(|one| one.to_string().starts_with(&family));
        let exact: Vec<_> = exact.collect();
        if exact.is_empty() { modes.collect() } else { exact }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Sqlite => Kind::Sqlite,
            PostgresLease | PostgresSession | PostgresRow => Kind::Postgres,
            MysqlLease | MysqlSession | MysqlRow => Kind::Mysql,
            Redis | RedisSentinel | RedisCluster | Redlock => Kind::Redis,
            Etcd => Kind::Etcd,
            ZooKeeper => Kind::ZooKeeper,
        }
    }

    pub(crate) fn holds_by_connection(self) -> bool {
        matches!(self, PostgresSession | PostgresRow | MysqlSession | MysqlRow)
    }

    pub(crate) fn has_several_servers(self) -> bool {
        matches!(self, RedisSentinel | RedisCluster | Redlock | Etcd | ZooKeeper)
    }

    pub(crate) fn mode(self) -> Option<&'static str> {
        match self {
            PostgresSession | MysqlSession => Some("session"),
            PostgresRow | MysqlRow => Some("row"),
            _ => None,
        }
    }

    /// Limits each client's connections for some seeds, so that its holds share sessions.
    pub(crate) fn with_connections(self, url: String, seed: u64) -> String {
        match (self.mode(), seed % 3) {
            (Some("session"), 0) => format!("{url}&connections=5"),
            (Some("session"), 1) => format!("{url}&connections=7"),
            _ => url,
        }
    }

    pub(crate) fn ttl(self) -> Duration {
        match self {
            // etcd's shortest TTL is 2 s. For the others, 1 s is too short: MySQL counts idle time
            // in seconds, and clients of Sentinels and of a Cluster must find the master.
            Etcd | MysqlSession | MysqlRow | RedisSentinel | RedisCluster => Duration::from_secs(2),
            _ => Duration::from_secs(1),
        }
    }

    /// Returns the size in MiB of the disk for the servers' data.
    pub(crate) fn data_size(self) -> u64 {
        match self.kind() {
            Kind::Sqlite => 16,
            Kind::Redis => 64,
            Kind::Postgres => 192,
            Kind::Mysql => 384,
            Kind::ZooKeeper => 128,
            // etcd preallocates log files of 64 MB.
            Kind::Etcd => 1024,
        }
    }
}
