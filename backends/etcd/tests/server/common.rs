pub(crate) use lockwright_conformance::test_helpers::*;
use lockwright_etcd::{Config, Etcd};
use lockwright_testbed as testbed;

pub(crate) async fn connect(url: &str) -> Etcd {
    patient(Config::new(url).unwrap()).connect().await.unwrap()
}

pub(crate) fn patient(config: Config) -> Config {
    config.response_timeout(LIMIT).connect_timeout(LIMIT)
}

pub(crate) async fn member_and_client() -> (testbed::Etcd, Etcd) {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let etcd = connect(&cluster.url()).await;
    (cluster, etcd)
}
