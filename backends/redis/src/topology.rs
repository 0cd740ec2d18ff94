use redis::{ConnectionAddr, ConnectionInfo};

use crate::cluster::Address;

#[derive(Debug, Clone)]
pub(crate) enum Topology {
    One(ConnectionInfo),
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        master: String,
        /// The master's connection settings, except the address.
        server: ConnectionInfo,
    },
    Cluster {
        seeds: Vec<ConnectionInfo>,
    },
}

impl Topology {
    pub(crate) fn backend(&self) -> &'static str {
        match self {
            Self::One(_) => "redis",
            Self::Sentinel { .. } => "redis-sentinel",
            Self::Cluster { .. } => "redis-cluster",
        }
    }

    pub(crate) fn database(&self) -> i64 {
        match self {
            Self::One(server) | Self::Sentinel { server, .. } => server.redis_settings().db(),
            Self::Cluster { .. } => 0,
        }
    }
}

pub(crate) fn moved_to(server: &ConnectionInfo, at: &Address) -> ConnectionInfo {
    let Address { host, port } = at.clone();
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

#[derive(Debug, Clone)]
pub(crate) enum Whereabouts {
    At(Box<ConnectionInfo>),
    Master,
}

impl Whereabouts {
    pub(crate) fn at(server: ConnectionInfo) -> Self {
        Self::At(Box::new(server))
    }

    pub(crate) fn is_at(&self, wanted: &Address) -> bool {
        let Self::At(server) = self else { return false };
        Address::of(server.addr()).as_ref() == Some(wanted)
    }
}
