//! Tests and helpers for etcd and ZooKeeper. The including crate's module `common` names the
//! backend and its servers.

pub(crate) mod faults;
mod participants;
pub(crate) mod shared;

use lockwright_core::Locks;
use lockwright_testbed::Proxy;

use crate::common::{Backend, Cluster, connect};

pub(crate) fn one_server() -> Cluster {
    Cluster::options().members(1).start().unwrap()
}

pub(crate) async fn server_and_client() -> (Cluster, Backend) {
    let server = one_server();
    let backend = connect(&server.url()).await;
    (server, backend)
}

pub(crate) fn server_and_proxy() -> (Cluster, Proxy, String) {
    let server = one_server();
    let proxy = Proxy::start(server.members[0].address()).unwrap();
    let url = server.url_through([proxy.port()]);
    (server, proxy, url)
}

pub(crate) async fn locks(url: impl AsRef<str>) -> Locks {
    Locks::new(Backend::connect(url.as_ref()).await.unwrap()).unwrap()
}
