//! Which servers there are, and where a connection leads.

use redis::{ConnectionAddr, ConnectionInfo};

/// The servers that a URL names.
#[derive(Debug, Clone)]
pub(crate) enum Topology {
    /// One server.
    One(ConnectionInfo),
    /// Servers of which one is the master, and Sentinels that know which.
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        /// What the Sentinels call it.
        master: String,
        /// What the master is reached with, but for its address.
        server: ConnectionInfo,
    },
    /// A Cluster, by some of its nodes.
    Cluster { seeds: Vec<ConnectionInfo> },
}

impl Topology {
    /// What the backend is called in errors and in its profile.
    pub(crate) fn backend(&self) -> &'static str {
        match self {
            Self::One(_) => "redis",
            Self::Sentinel { .. } => "redis-sentinel",
            Self::Cluster { .. } => "redis-cluster",
        }
    }

    /// Who logs in to the servers.
    pub(crate) fn user(&self) -> Option<&str> {
        let server = match self {
            Self::One(server) | Self::Sentinel { server, .. } => Some(server),
            Self::Cluster { seeds } => seeds.first(),
        };
        server?.redis_settings().username()
    }

    /// The number of the database.
    pub(crate) fn database(&self) -> i64 {
        match self {
            Self::One(server) | Self::Sentinel { server, .. } => server.redis_settings().db(),
            Self::Cluster { .. } => 0,
        }
    }
}

/// The server at another address, reached with the same login and the same TLS.
pub(crate) fn moved_to(server: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let host = host.to_owned();
    let address = match server.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    };
    server.clone().set_addr(address)
}

/// Where a link connects to, each time.
#[derive(Debug, Clone)]
pub(crate) enum Whereabouts {
    /// To this server.
    At(Box<ConnectionInfo>),
    /// To the one that the Sentinels say is the master then.
    Master,
}

impl Whereabouts {
    pub(crate) fn at(server: ConnectionInfo) -> Self {
        Self::At(Box::new(server))
    }

    /// Whether it is always this server.
    pub(crate) fn is_at(&self, wanted: &str, wanted_port: u16) -> bool {
        let Self::At(server) = self else { return false };
        match server.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                host == wanted && *port == wanted_port
            }
            _ => false,
        }
    }
}
