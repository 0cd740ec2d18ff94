//! Measures the figures of the crate's README.
//!
//! The files are in the current folder, because a temporary folder may be in memory.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, Clock, DistributedLock, Event, Events, Identity, LockName, Mode,
    ReleaseMode, RenewalMode, Token, Wait,
};
use lockwright_sql::Sqlite;
use lockwright_sql::sqlite::{Config, Synchronous};
use rustix::time::{ClockId, clock_gettime};
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

const ROLE: &str = "SQLITE_FIGURES_ROLE";
const FILE: &str = "SQLITE_FIGURES_FILE";

#[tokio::main]
async fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("holder") => holder().await,
        Ok("busy") => busy().await,
        _ => tokio::spawn(figures()).await.unwrap(),
    }
}

async fn figures() {
    let folder = tempfile::tempdir_in(".").unwrap();
    println!("uncontended, 7 rounds of 1 s, median:");
    let mut rows: Vec<(&str, Vec<f64>)> = vec![
        ("two fdatasync of one appended page", vec![]),
        ("bare upsert + delete by sqlx, synchronous=full", vec![]),
        ("acquire + release, synchronous=full", vec![]),
        ("the same by 32 tasks", vec![]),
        ("bare upsert + delete by sqlx, synchronous=normal", vec![]),
        ("acquire + release, synchronous=normal", vec![]),
    ];
    let full = Arc::new(Sqlite::open(folder.path().join("full.db")).await.unwrap());
    let normal = Config::file(folder.path().join("normal.db"))
        .synchronous(Synchronous::Normal)
        .connect()
        .await
        .unwrap();
    let mut bare_full = bare_connection(&folder.path().join("bare.db"), "FULL").await;
    let mut bare_normal = bare_connection(&folder.path().join("bare2.db"), "NORMAL").await;
    for _ in 0..7 {
        rows[0].1.push(fdatasyncs(&folder.path().join("raw")));
        rows[1].1.push(bare(&mut bare_full).await);
        rows[2].1.push(pairs(&full, "a").await);
        let tasks: Vec<_> = (0..32)
            .map(|i| {
                let full = full.clone();
                tokio::spawn(async move { pairs(&full, &format!("t{i}")).await })
            })
            .collect();
        let mut sum = 0.0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        rows[3].1.push(sum);
        rows[4].1.push(bare(&mut bare_normal).await);
        rows[5].1.push(pairs(&normal, "a").await);
    }
    for (what, rounds) in &mut rows {
        println!("  {what:45} {:>8.0} /s", median(rounds));
    }
    drop((full, normal));

    println!("hand-over from one process to another, 300 times:");
    hand_over(folder.path()).await;
    println!("100 waiters, 5 s:");
    waiting(folder.path(), false).await;
    waiting(folder.path(), true).await;
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn fdatasyncs(path: &std::path::Path) -> f64 {
    let file = File::create(path).unwrap();
    // SQLite overwrites its log, so this baseline overwrites pages too.
    for page in 0..2_000 {
        file.write_all_at(&[1; 4096], page * 4096).unwrap();
    }
    file.sync_all().unwrap();
    let (start, mut n) = (Instant::now(), 0_u64);
    while start.elapsed() < Duration::from_secs(1) {
        for _ in 0..2 {
            file.write_all_at(&[2; 4096], (n % 2_000) * 4096).unwrap();
            file.sync_data().unwrap();
            n += 1;
        }
    }
    n as f64 / 2.0 / start.elapsed().as_secs_f64()
}

async fn bare_connection(path: &std::path::Path, synchronous: &str) -> SqliteConnection {
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .pragma("journal_mode", "WAL")
        .pragma("synchronous", synchronous.to_owned())
        .disable_statement_logging()
        .connect()
        .await
        .unwrap();
    sqlx::query("CREATE TABLE t (name TEXT PRIMARY KEY, token TEXT) WITHOUT ROWID")
        .execute(&mut connection)
        .await
        .unwrap();
    connection
}

/// Measures two bare statements, the minimum for a lock.
async fn bare(connection: &mut SqliteConnection) -> f64 {
    const UPSERT: &str = "INSERT INTO t VALUES (?1, ?2)
        ON CONFLICT DO UPDATE SET token = excluded.token WHERE token IS NULL RETURNING token";
    let (start, mut n) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(1) {
        let token = Token::random().to_string();
        let got =
            sqlx::query(UPSERT).bind("a").bind(&token).fetch_all(&mut *connection).await.unwrap();
        assert_eq!(got.len(), 1);
        sqlx::query("DELETE FROM t WHERE name = ?1 AND token = ?2")
            .bind("a")
            .bind(&token)
            .execute(&mut *connection)
            .await
            .unwrap();
        n += 1;
    }
    f64::from(n) / start.elapsed().as_secs_f64()
}

async fn pairs(backend: &Sqlite, name: &str) -> f64 {
    let (start, mut n) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(1) {
        let claim = claim(name);
        assert!(matches!(backend.try_acquire(&claim).await.unwrap(), AcquireOutcome::Granted(_)));
        backend.release(&claim, ReleaseMode::Plain).await.unwrap();
        n += 1;
    }
    f64::from(n) / start.elapsed().as_secs_f64()
}

fn claim(name: &str) -> Claim {
    Claim {
        name: LockName::new(name).unwrap(),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(None)),
        ttl: Duration::from_secs(60),
        fences: 1,
        renewal_mode: RenewalMode::Auto,
    }
}

fn child(role: &str, file: &std::path::Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .env(ROLE, role)
        .env(FILE, file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn holder() {
    let backend = Sqlite::open(std::env::var(FILE).unwrap()).await.unwrap();
    let mut line = String::new();
    loop {
        let claim = claim("x");
        while !matches!(backend.try_acquire(&claim).await.unwrap(), AcquireOutcome::Granted(_)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!("held");
        line.clear();
        if std::io::stdin().read_line(&mut line).unwrap() == 0 {
            return;
        }
        let begun = Clock::boot().now().as_nanos();
        backend.release(&claim, ReleaseMode::Plain).await.unwrap();
        println!("{begun}");
        line.clear();
        std::io::stdin().read_line(&mut line).unwrap();
    }
}

async fn hand_over(folder: &std::path::Path) {
    use std::io::{BufRead, BufReader};

    let file = folder.join("hand.db");
    let backend = Sqlite::open(&file).await.unwrap();
    let notify = Arc::new(tokio::sync::Notify::new());
    let wakeup = notify.clone();
    backend.attach(Events::to(move |event| {
        if matches!(event, Event::Wake(_)) {
            wakeup.notify_one();
        }
        true
    }));
    let mut holder = child("holder", &file);
    let mut to = holder.stdin.take().unwrap();
    let mut from = BufReader::new(holder.stdout.take().unwrap()).lines();
    let mut waits = Vec::new();
    let mut polled = 0;
    for _ in 0..300 {
        assert_eq!(from.next().unwrap().unwrap(), "held");
        let claim = claim("x");
        let far = Wait::Until(Clock::boot().now() + Duration::from_secs(60));
        assert!(matches!(backend.acquire(&claim, far).await.unwrap(), AcquireOutcome::Busy(_)));
        tokio::time::sleep(Duration::from_millis(5)).await;
        let _ = tokio::time::timeout(Duration::ZERO, notify.notified()).await;
        to.write_all(b"\n").unwrap();
        let granted = loop {
            if tokio::time::timeout(Duration::from_secs(1), notify.notified()).await.is_err() {
                polled += 1;
            }
            if let AcquireOutcome::Granted(_) = backend.acquire(&claim, far).await.unwrap() {
                break Clock::boot().now().as_nanos();
            }
        };
        let begun: u64 = from.next().unwrap().unwrap().parse().unwrap();
        waits.push((granted - begun) as f64 / 1e6);
        backend.release(&claim, ReleaseMode::Plain).await.unwrap();
        to.write_all(b"\n").unwrap();
    }
    drop(to);
    holder.wait().unwrap();
    waits.sort_by(f64::total_cmp);
    println!(
        "  from the start of the release to the grant: p50 {:.2} ms, p99 {:.2} ms; {polled} polled",
        waits[150], waits[297]
    );
}

async fn busy() {
    let backend = Sqlite::open(std::env::var(FILE).unwrap()).await.unwrap();
    loop {
        pairs(&backend, "unrelated").await;
    }
}

async fn waiting(folder: &std::path::Path, unrelated: bool) {
    let file = folder.join(format!("wait{unrelated}.db"));
    let backend = Sqlite::open(&file).await.unwrap();
    let far = Wait::Until(Clock::boot().now() + Duration::from_secs(3_600));
    let mut waiting = Vec::new();
    for i in 0..100 {
        let held = claim(&format!("n{i}"));
        assert!(matches!(backend.try_acquire(&held).await.unwrap(), AcquireOutcome::Granted(_)));
        waiting.push(claim(&format!("n{i}")));
    }
    let mut other = unrelated.then(|| child("busy", &file));
    let cpu = || clock_gettime(ClockId::ProcessCPUTime);
    let (before, start) = (cpu(), Instant::now());
    while start.elapsed() < Duration::from_secs(5) {
        for claim in &waiting {
            assert!(matches!(backend.acquire(claim, far).await.unwrap(), AcquireOutcome::Busy(_)));
        }
        tokio::time::sleep(backend.profile().slow_poll).await;
    }
    let after = cpu();
    let used =
        (after.tv_sec - before.tv_sec) as f64 + (after.tv_nsec - before.tv_nsec) as f64 / 1e9;
    if let Some(other) = &mut other {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    println!(
        "  {} {:.2} % of a core",
        if unrelated { "another process acquires and releases:" } else { "quiet:" },
        100.0 * used / start.elapsed().as_secs_f64()
    );
}
