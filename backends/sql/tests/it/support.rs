use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, Granted, Identity, LockName, Mode, RenewalMode, Token,
    Wait,
};
use lockwright_sql::Sqlite;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;

/// A temporary folder with a lock file.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    pub(crate) async fn open(&self) -> Sqlite {
        Sqlite::open(self.file()).await.unwrap()
    }

    /// Opens a connection that bypasses the backend.
    pub(crate) async fn raw(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.file()).create_if_missing(true);
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    /// Closes the file's last backend, and waits for the end.
    pub(crate) async fn close(&self, backend: Sqlite) {
        drop(backend);
        let log = self.folder.path().join("locks.db-wal");
        within(Duration::from_secs(5), "the log to be folded in", || !log.exists()).await;
    }
}

pub(crate) async fn within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        tokio::time::sleep(ms(2)).await;
    }
}

pub(crate) async fn sql(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(crate) fn claim(of: &str, ttl: Duration) -> Claim {
    Claim {
        name: name(of),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("test"))),
        ttl,
        fences: 1,
        renewal_mode: RenewalMode::Auto,
    }
}

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) async fn granted(backend: &Sqlite, claim: &Claim) -> Granted {
    match backend.acquire(claim, Wait::No).await.unwrap() {
        AcquireOutcome::Granted(granted) => granted,
        AcquireOutcome::Busy(busy) => panic!("{} is busy: {busy:?}", claim.name),
    }
}

pub(crate) async fn is_busy(backend: &Sqlite, claim: &Claim) -> bool {
    matches!(backend.acquire(claim, Wait::No).await.unwrap(), AcquireOutcome::Busy(_))
}

/// Queues `requests` behind a request that waits for the write lock, to share a transaction.
pub(crate) async fn in_one_transaction<T>(
    place: &Place,
    backend: &Sqlite,
    requests: impl Future<Output = T>,
) -> T {
    let mut raw = place.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE").await;
    let first = backend.renew(&[]);
    let open_the_gate = async {
        tokio::time::sleep(ms(50)).await;
        sql(&mut raw, "COMMIT").await;
    };
    let behind = async {
        tokio::time::sleep(ms(25)).await;
        requests.await
    };
    let (renewed, (), result) = tokio::join!(first, open_the_gate, behind);
    assert!(renewed.unwrap().is_empty());
    result
}

/// A child process of this test binary. Its role is in its environment.
pub(crate) struct Process {
    pub(crate) child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

pub(crate) const ROLE: &str = "LOCKWRIGHT_TEST_ROLE";
pub(crate) const FOLDER: &str = "LOCKWRIGHT_TEST_FOLDER";

impl Process {
    pub(crate) fn start(role: &str, folder: &Path) -> Self {
        Self::start_as(Command::new(std::env::current_exe().unwrap()), role, folder)
    }

    pub(crate) fn start_as(mut command: Command, role: &str, folder: &Path) -> Self {
        let mut child = command
            .args(["--ignored", "--exact", "--nocapture", "--quiet", "processes::part"])
            .env(ROLE, role)
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, to, from }
    }

    /// Returns the next message, without the output of the test harness.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let line = self.from.next().expect("the process says something").unwrap();
            if let Some(said) = line.split_once("> ").map(|(_, said)| said) {
                return said.to_owned();
            }
        }
    }

    pub(crate) fn tell(&mut self) {
        self.to.write_all(b"\n").unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn finish(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a message to the parent test.
pub(crate) fn say(what: impl std::fmt::Display) {
    println!("> {what}");
}

/// Waits for a line from the parent test.
pub(crate) fn listen() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
