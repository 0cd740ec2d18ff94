//! Measures the cost of holds on MariaDB, compared with bare statements on one connection.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, Identity, LockName, Locks, Mode, ReleaseMode,
    RenewalMode, Token,
};
use lockwright_sql::Mysql;
use lockwright_testbed as testbed;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Executor};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(1);
const HAND_OVERS: usize = 100;

#[tokio::main]
async fn main() {
    tokio::spawn(figures()).await.unwrap();
}

async fn figures() {
    let server = testbed::MariaDb::options().set("max_connections", "300").start().unwrap();
    let mut bare = MySqlConnection::connect(&server.url()).await.unwrap();
    bare.execute("CREATE TABLE bare (name VARCHAR(99) PRIMARY KEY, token TEXT, expires BIGINT)")
        .await
        .unwrap();
    let mut backends = Vec::new();
    for mode in ["lease", "session", "row"] {
        let url = format!("{}?mode={mode}", server.url());
        backends.push((mode, Arc::new(Mysql::connect(&url).await.unwrap()), Vec::new()));
    }
    let (mut empty, mut upserts, mut eight) = (Vec::new(), Vec::new(), Vec::new());
    println!("pairs per second, {ROUNDS} rounds of {ROUND:?}, median (no waiting for the disk):");
    for _ in 0..ROUNDS {
        empty.push(bare_pairs(&mut bare, ["SELECT 1", "SELECT 1"]).await);
        let statements = [
            "INSERT INTO bare VALUES ('x', 't', 1) ON DUPLICATE KEY UPDATE \
             token = IF(expires < 1, 't', token)",
            "DELETE FROM bare WHERE name = 'x' AND token = 't'",
        ];
        upserts.push(bare_pairs(&mut bare, statements).await);
        for (_, backend, figures) in &mut backends {
            figures.push(pairs(backend, "a").await);
        }
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let lease = Arc::clone(&backends[0].1);
                tokio::spawn(async move { pairs(&lease, &format!("t{task}")).await })
            })
            .collect();
        let mut sum = 0.0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        eight.push(sum);
    }
    show("two empty queries by sqlx", empty);
    show("bare upsert and delete by sqlx", upserts);
    for (mode, _, figures) in &mut backends {
        show(&format!("{mode}: acquire and release"), std::mem::take(figures));
    }
    show("lease: the same by 8 tasks", eight);
    println!("from one client's release to another's grant, {HAND_OVERS} times:");
    for (mode, ..) in &backends {
        hand_overs(&format!("{}?mode={mode}", server.url()), mode).await;
    }
}

fn show(what: &str, mut figures: Vec<f64>) {
    figures.sort_by(f64::total_cmp);
    println!("{what:45} {:8.0} /s", figures[ROUNDS / 2]);
}

async fn bare_pairs(bare: &mut MySqlConnection, statements: [&'static str; 2]) -> f64 {
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < ROUND {
        for statement in statements {
            sqlx::query(statement).execute(&mut *bare).await.unwrap();
        }
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

async fn pairs(backend: &Mysql, name: &str) -> f64 {
    let identity = Arc::new(Identity::of_this_process(None));
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < ROUND {
        let claim = Claim {
            name: LockName::new(name).unwrap(),
            mode: Mode::Exclusive,
            token: Token::random(),
            identity: Arc::clone(&identity),
            ttl: Duration::from_secs(30),
            fences: 1,
            renewal_mode: RenewalMode::Auto,
        };
        let granted = backend.try_acquire(&claim).await.unwrap();
        assert!(matches!(granted, AcquireOutcome::Granted(_)));
        backend.release(&claim, ReleaseMode::Plain).await.unwrap();
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

async fn hand_overs(url: &str, mode: &str) {
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(Locks::new(Mysql::connect(url).await.unwrap()).unwrap());
    }
    let mut times = Vec::with_capacity(HAND_OVERS);
    let mut guard = clients[0].mutex("x").acquire().await.unwrap();
    for round in 1..=HAND_OVERS {
        let next = clients[round % 2].clone();
        let waiting = tokio::spawn(async move {
            let guard = next.mutex("x").acquire().await.unwrap();
            (guard, Instant::now())
        });
        // Each round releases at another time within the polling interval.
        tokio::time::sleep(Duration::from_millis(60 + (round as u64 * 7) % 50)).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let (granted, at) = waiting.await.unwrap();
        times.push(at - released);
        guard = granted;
    }
    guard.release().await.unwrap();
    times.sort();
    println!(
        "{mode:45} p50 {:.1?}, p99 {:.1?}",
        times[HAND_OVERS / 2],
        times[HAND_OVERS * 99 / 100]
    );
}
