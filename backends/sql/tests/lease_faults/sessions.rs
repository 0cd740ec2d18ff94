use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockwright_core::Locks;
use tokio::task::JoinSet;

use super::server::*;
use crate::support::{LIMIT as PATIENCE, within};

const TTL: Duration = Duration::from_secs(2);
const LIMIT: usize = 6;
const FOR: Duration = Duration::from_secs(12);

pub(super) async fn locks(url: &str, ttl: Duration) -> Locks {
    let backend = Backend::connect(url).await.unwrap();
    Locks::builder(backend).ttl(ttl).wait(Some(PATIENCE)).build().unwrap()
}

struct Asking {
    over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
    answers: Arc<AtomicUsize>,
}

/// Acquires many names repeatedly with one client, until `over` is set.
async fn ask(server: &Server) -> Asking {
    let url = format!("{}?connections={LIMIT}", server.url());
    let client = locks(&url, TTL).await;
    let (over, answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let mut tasks = JoinSet::new();
    for task in 0..30 {
        let (client, over, answers) = (client.clone(), Arc::clone(&over), Arc::clone(&answers));
        tasks.spawn(async move {
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                number += 1;
                let asking = client.mutex(format!("name-{task}-{}", number % 5)).try_acquire();
                let limit = Duration::from_millis(if number % 2 == 0 { 300 } else { 3_000 });
                if let Ok(Ok(Some(guard))) = tokio::time::timeout(limit, asking).await {
                    answers.fetch_add(1, Ordering::Relaxed);
                    let _ = guard.release().await;
                }
            }
        });
    }
    Asking { over, tasks, answers }
}

impl Asking {
    /// Checks that the client works again, and stops its tasks.
    async fn end(self) {
        let enough = self.answers.load(Ordering::Relaxed) + 30;
        let are_enough = async || self.answers.load(Ordering::Relaxed) >= enough;
        within(PATIENCE, "30 grants", are_enough).await;
        self.over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

/// Checks for `time` that there are no more sessions than the limit. A busy server may list ended
/// sessions for a moment.
async fn count(server: &Server, time: Duration) {
    let begun = Instant::now();
    let mut exceeded: Option<Instant> = None;
    while begun.elapsed() < time || exceeded.is_some() {
        let sessions = sessions(server);
        if sessions <= LIMIT {
            exceeded = None;
        } else {
            let since = *exceeded.get_or_insert_with(Instant::now);
            assert!(
                since.elapsed() < Duration::from_secs(1) && sessions <= 2 * LIMIT,
                "late: {sessions} sessions after {:?}, and too many for {:?}",
                begun.elapsed(),
                since.elapsed()
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_table_leaves_the_limit_of_sessions() {
    let server = with_application(options());
    let asking = ask(&server).await;
    let locking = lock_table(&server, "lockwright_lease").await;
    count(&server, FOR).await;
    application_connects(&server).await;
    drop(locking);
    asking.end().await;
    count(&server, Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_replica_leaves_the_limit_of_sessions() {
    let server = with_application(options());
    let asking = ask(&server).await;
    wait_for_replica(&server, true);
    count(&server, FOR).await;
    application_connects(&server).await;
    wait_for_replica(&server, false);
    asking.end().await;
    count(&server, Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_server_leaves_the_limit_of_sessions() {
    let server = with_application(options());
    let asking = ask(&server).await;
    server.freeze();
    tokio::time::sleep(FOR).await;
    server.thaw();
    count(&server, Duration::from_secs(3)).await;
    application_connects(&server).await;
    asking.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn burst_of_names_leaves_the_limit_of_sessions() {
    let server = with_application(options());
    let url = format!("{}?connections={LIMIT}", server.url());
    let client = locks(&url, Duration::from_secs(30)).await;
    let mut requests = JoinSet::new();
    for number in 0..1_000 {
        let request = client.mutex(format!("burst-{number}"));
        requests.spawn(async move { request.acquire().await.unwrap() });
    }
    count(&server, Duration::from_secs(1)).await;
    application_connects(&server).await;
    let _guards = requests.join_all().await;
    count(&server, Duration::from_millis(300)).await;
}
