//! Measures the cost of holds in sessions of PostgreSQL, compared with bare statements on one
//! connection.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, Identity, LockName, Locks, Mode, ReleaseMode,
    RenewalMode, Token, Wait,
};
use lockwright_sql::Postgres;
use lockwright_testbed as testbed;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

const ROUNDS: usize = 1_000;
const ROUNDS_WITH_CONNECTION: usize = 100;

#[tokio::main]
async fn main() {
    let server = testbed::Postgres::start().unwrap();
    bare(&server.url()).await;
    for mode in ["session", "row"] {
        held(&format!("{}?mode={mode}", server.url()), mode).await;
    }
}

async fn bare(url: &str) {
    let begun = Instant::now();
    let mut connection = PgConnection::connect(url).await.unwrap();
    println!("bare connection: {:?}", begun.elapsed());
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for statement in
            ["SELECT pg_try_advisory_lock(1)", "SELECT 2", "SELECT pg_advisory_unlock(1)"]
        {
            sqlx::raw_sql(statement).fetch_all(&mut connection).await.unwrap();
        }
        times.push(begun.elapsed());
    }
    report("bare: lock, one more statement, unlock", times);
    sqlx::raw_sql("CREATE TABLE t (id int PRIMARY KEY, fence bigint); INSERT INTO t VALUES (1, 1)")
        .execute(&mut connection)
        .await
        .unwrap();
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        let begun = Instant::now();
        for statement in [
            "SELECT pg_try_advisory_lock(1)".to_owned(),
            format!("UPDATE t SET fence = {round} WHERE id = 1 RETURNING fence"),
            "SELECT pg_advisory_unlock(1)".to_owned(),
        ] {
            sqlx::raw_sql(AssertSqlSafe(statement)).fetch_all(&mut connection).await.unwrap();
        }
        times.push(begun.elapsed());
    }
    report("bare: lock, write a row, unlock", times);
}

async fn held(url: &str, mode: &str) {
    let begun = Instant::now();
    let backend = Arc::new(Postgres::connect(url).await.unwrap());
    println!("{mode}: backend connected in {:?}", begun.elapsed());

    let mut times = Vec::new();
    let claims: Vec<Claim> =
        (0..ROUNDS_WITH_CONNECTION / 2).map(|n| claim(&format!("n{n}"))).collect();
    for claim in &claims {
        let begun = Instant::now();
        acquire(&backend, claim).await;
        times.push(begun.elapsed());
    }
    report(&format!("{mode}: acquire with a new connection"), times);
    for claim in &claims {
        backend.release(claim, ReleaseMode::Plain).await.unwrap();
    }

    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let claim = claim("x");
        let begun = Instant::now();
        acquire(&backend, &claim).await;
        backend.release(&claim, ReleaseMode::Plain).await.unwrap();
        times.push(begun.elapsed());
    }
    report(&format!("{mode}: acquire and release, the backend"), times);

    let locks = Locks::builder(Arc::clone(&backend)).ttl(Duration::from_secs(60)).build().unwrap();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
        times.push(begun.elapsed());
    }
    report(&format!("{mode}: acquire and release, the client"), times);

    let other = Locks::builder(Postgres::connect(url).await.unwrap()).build().unwrap();
    let mut times = Vec::new();
    for _ in 0..50 {
        let guard = locks.mutex("x").acquire().await.unwrap();
        let other = other.clone();
        let waiter = tokio::spawn(async move {
            let guard = other.mutex("x").acquire().await.unwrap();
            (guard, Instant::now())
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let begun = Instant::now();
        guard.release().await.unwrap();
        let (guard, granted) = waiter.await.unwrap();
        times.push(granted.saturating_duration_since(begun));
        guard.release().await.unwrap();
    }
    report(&format!("{mode}: from a release to the next client's grant"), times);
}

async fn acquire(backend: &Postgres, claim: &Claim) {
    let answer = backend.acquire(claim, Wait::No).await.unwrap();
    assert!(matches!(answer, AcquireOutcome::Granted(_)), "{answer:?}");
}

fn claim(name: &str) -> Claim {
    Claim {
        name: LockName::new(name).unwrap(),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("figures"))),
        ttl: Duration::from_secs(60),
        fences: 1,
        renewal_mode: RenewalMode::Off,
    }
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!("{what}: median {:?}, 10 % {:?}, 90 % {:?}", at(50), at(10), at(90));
}
