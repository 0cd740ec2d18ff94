use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, Clock, DistributedLock, Granted, Identity, LockName, Locks, Mode,
    RenewalMode, Token, Wait,
};
use lockwright_sql::Postgres;
use lockwright_testbed as testbed;

pub(crate) const MODES: [&str; 2] = ["session", "row"];

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn server() -> testbed::Postgres {
    testbed::Postgres::start().unwrap()
}

pub(crate) fn in_mode(url: &str, mode: &str) -> String {
    format!("{url}?mode={mode}")
}

pub(crate) async fn backend(server: &testbed::Postgres, mode: &str) -> Postgres {
    Postgres::connect(&in_mode(&server.url(), mode)).await.unwrap()
}

pub(crate) async fn client(server: &testbed::Postgres, mode: &str, ttl: Duration) -> Locks {
    Locks::builder(backend(server, mode).await).ttl(ttl).build().unwrap()
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

pub(crate) fn reader(of: &str, ttl: Duration) -> Claim {
    Claim { mode: Mode::Shared, ..claim(of, ttl) }
}

pub(crate) async fn granted(backend: &dyn DistributedLock, claim: &Claim) -> Granted {
    match backend.acquire(claim, Wait::No).await.unwrap() {
        AcquireOutcome::Granted(granted) => granted,
        AcquireOutcome::Busy(busy) => panic!("{} is busy: {busy:?}", claim.name),
    }
}

pub(crate) async fn is_busy(backend: &dyn DistributedLock, claim: &Claim) -> bool {
    matches!(backend.acquire(claim, Wait::No).await.unwrap(), AcquireOutcome::Busy(_))
}

pub(crate) fn in_time(time: Duration) -> Wait {
    Wait::Until(Clock::boot().now() + time)
}

/// Waits until `done`, and returns how long it took.
pub(crate) async fn within(
    limit: Duration,
    what: &str,
    mut done: impl AsyncFnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    while !done().await {
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        tokio::time::sleep(ms(5)).await;
    }
    start.elapsed()
}

/// Counts sessions with this token's mark.
pub(crate) fn sessions_of(server: &testbed::Postgres, token: Token) -> usize {
    count(
        server,
        &format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'lockwright/{token}/%'"
        ),
    )
}

/// Counts sessions that wait for a lock.
pub(crate) fn queued(server: &testbed::Postgres) -> usize {
    count(server, "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted")
}

/// Counts sessions with advisory locks or an open transaction.
pub(crate) fn holding(server: &testbed::Postgres) -> usize {
    count(
        server,
        "SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted) \
              + (SELECT count(*) FROM pg_stat_activity \
                 WHERE usename = 'lockwright' AND state LIKE 'idle in transaction%')",
    )
}

pub(crate) fn count(server: &testbed::Postgres, sql: &str) -> usize {
    server.sql(sql).unwrap().parse().unwrap()
}

/// A child process of this test binary. Its role is in its environment.
pub(crate) struct Part {
    child: Child,
    from: Lines<BufReader<ChildStdout>>,
}

pub(crate) const ROLE: &str = "LOCKWRIGHT_TEST_ROLE";
pub(crate) const URL: &str = "LOCKWRIGHT_TEST_URL";
pub(crate) const TTL: &str = "LOCKWRIGHT_TEST_TTL_MS";

impl Part {
    pub(crate) fn start(role: &str, server: &testbed::Postgres, mode: &str, ttl: Duration) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "--quiet", "postgres::processes::part"])
            .env(ROLE, role)
            .env(URL, in_mode(&server.url(), mode))
            .env(TTL, ttl.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, from }
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

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal)
            .unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a message to the parent test.
pub(crate) fn say(what: impl std::fmt::Display) {
    println!("> {what}");
}
