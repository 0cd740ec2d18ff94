//! Measures the figures of the crate's README.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, Identity, LockName, Mode, ReleaseMode, RenewalMode,
    Token,
};
use lockwright_sql::Postgres;
use lockwright_testbed as testbed;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() {
    tokio::spawn(figures()).await.unwrap();
}

async fn figures() {
    let server = testbed::Postgres::start().unwrap();
    let mut bare = PgConnection::connect(&server.url()).await.unwrap();
    bare.execute("CREATE TABLE bare (name text PRIMARY KEY, token text, expires bigint)")
        .await
        .unwrap();
    let postgres = Arc::new(Postgres::connect(&server.url()).await.unwrap());
    println!("pairs per second, {ROUNDS} rounds of {ROUND:?}, median (no waiting for the disk):");
    let mut rows: Vec<(&str, Vec<f64>)> = vec![
        ("two empty queries (SELECT 1) by sqlx", vec![]),
        ("bare upsert + delete by sqlx, prepared", vec![]),
        ("acquire + release", vec![]),
        ("the same by 8 tasks", vec![]),
    ];
    for _ in 0..ROUNDS {
        rows[0].1.push(empty(&mut bare).await);
        rows[1].1.push(upserts(&mut bare).await);
        rows[2].1.push(pairs(&postgres, "a").await);
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let postgres = Arc::clone(&postgres);
                tokio::spawn(async move { pairs(&postgres, &format!("t{task}")).await })
            })
            .collect();
        let mut sum = 0.0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        rows[3].1.push(sum);
    }
    for (what, figures) in &mut rows {
        figures.sort_by(f64::total_cmp);
        println!("{what:45} {:8.0} /s", figures[ROUNDS / 2]);
    }
}

async fn empty(bare: &mut PgConnection) -> f64 {
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < ROUND {
        for _ in 0..2 {
            sqlx::query("SELECT 1").execute(&mut *bare).await.unwrap();
        }
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

async fn upserts(bare: &mut PgConnection) -> f64 {
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < ROUND {
        sqlx::query(
            "INSERT INTO bare VALUES ($1, $2, 1) ON CONFLICT (name) DO UPDATE SET token = $2 \
             WHERE bare.expires < 1",
        )
        .bind("x")
        .bind("t")
        .execute(&mut *bare)
        .await
        .unwrap();
        sqlx::query("DELETE FROM bare WHERE name = $1 AND token = $2")
            .bind("x")
            .bind("t")
            .execute(&mut *bare)
            .await
            .unwrap();
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

async fn pairs(postgres: &Postgres, name: &str) -> f64 {
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
        let granted = postgres.try_acquire(&claim).await.unwrap();
        assert!(matches!(granted, AcquireOutcome::Granted(_)));
        postgres.release(&claim, ReleaseMode::Plain).await.unwrap();
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}
