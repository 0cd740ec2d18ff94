use std::sync::Arc;

use etcd_client::Client;
use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode, Wait};
use lockwright_testbed as testbed;
use tokio::task::JoinSet;

use crate::common::{claim, connect, grant};
use crate::queue::queue;

/// If the space runs out while requests are in flight, etcd reports that some had no space,
/// although it carries them out.
#[tokio::test(flavor = "multi_thread")]
async fn write_to_a_nearly_full_database_is_indeterminate() {
    let mut shown = 0;
    for _ in 0..40 {
        let small = testbed::Etcd::options().members(1).set("quota-backend-bytes", "4000000");
        let cluster = small.start().unwrap();
        let etcd = Arc::new(connect(&cluster.url()).await);
        grant(&*etcd, &claim("first")).await;
        let client = Client::connect(cluster.endpoints(), None).await.unwrap();
        let mut filling = JoinSet::new();
        for at in 0..8 {
            let mut kv = client.kv_client();
            filling.spawn(async move {
                let mut number = 0;
                while kv.put(format!("fill/{at}/{number}"), vec![b'x'; 6_000], None).await.is_ok() {
                    number += 1;
                }
            });
        }
        let mut asking = JoinSet::new();
        for at in 0..32 {
            let etcd = Arc::clone(&etcd);
            asking.spawn(async move {
                loop {
                    let claim = claim(&format!("name-{at}"));
                    match etcd.acquire(&claim, Wait::No).await {
                        Ok(_) => drop(etcd.release(&claim, ReleaseMode::Plain).await),
                        Err(failure) => return (claim, failure),
                    }
                }
            });
        }
        for (claim, failure) in asking.join_all().await {
            let source = std::error::Error::source(&failure).map(ToString::to_string);
            assert!(source.is_some_and(|said| said.contains("space exceeded")), "{failure:?}");
            let was_put = !queue(&cluster, claim.name.as_str()).await.is_empty();
            if !was_put {
                continue;
            }
            shown += 1;
            assert_eq!(failure.kind(), ErrorKind::Indeterminate, "{failure} and it was put");
            // The lock is freed although there is no space for a tombstone.
            let _ = etcd.release(&claim, ReleaseMode::Reconcile).await;
            assert!(queue(&cluster, claim.name.as_str()).await.is_empty());
        }
        filling.shutdown().await;
        if shown > 0 {
            return;
        }
    }
    panic!("nothing was put into the last space: it showed nothing");
}
