//! PostgreSQL servers start, answer, and end with their value.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lockwright_testbed::{Postgres, wait};

mod support;
use support::{assert_gone, assert_gone_with_the_process_of, is_helper, tell_and_wait};

/// Returns the ids of a server's processes, the main one first.
fn family(server: &Postgres) -> Vec<u32> {
    let pid = server.process().pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    [pid].into_iter().chain(children).collect()
}

struct Session {
    psql: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn open(url: &str) -> Self {
        let mut psql = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = psql.stdin.take().unwrap();
        let output = BufReader::new(psql.stdout.take().unwrap());
        let mut this = Self { psql, input, output };
        this.send("SELECT 'ready';");
        assert_eq!(this.line(), "ready\n");
        this
    }

    fn send(&mut self, sql: &str) {
        let _ = writeln!(self.input, "{sql}");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Returns whether the session has ended. `psql` notices this at its next request, and ends.
    fn is_over(&mut self) -> bool {
        self.send("SELECT 'still here';");
        self.line().is_empty()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}

#[test]
fn it_answers_and_is_gone_when_dropped() {
    let server = Postgres::start().unwrap();
    let all = family(&server);
    assert!(all.len() > 3, "{all:?}");
    let folder = server.folder().to_owned();
    assert_eq!(server.sql("SELECT 6 * 7").unwrap(), "42");
    let mut session = Session::open(&server.url());
    drop(server);
    all.into_iter().for_each(assert_gone);
    assert!(session.is_over());
    assert!(!folder.exists());
}

#[test]
fn its_user_may_make_tables_and_is_nobody_special() {
    let server = Postgres::start().unwrap();
    let sql = "CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2); SELECT sum(n) FROM t";
    assert_eq!(server.sql_as_user(sql).unwrap(), "3");
    let sql = "SELECT rolsuper OR rolcreaterole OR pg_has_role('pg_monitor', 'MEMBER') \
               OR pg_has_role('pg_signal_backend', 'MEMBER') FROM pg_roles \
               WHERE rolname = current_user";
    assert_eq!(server.sql_as_user(sql).unwrap(), "f");
    let error = server.sql_as_user("SELECT 1 FROM pg_authid").unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");
}

#[test]
fn a_url_needs_its_password() {
    let server = Postgres::options().password("it's/a:s@cret %").start().unwrap();
    let ask =
        |url: &str| Command::new("psql").args(["-X", "-c", "SELECT 1", url]).output().unwrap();
    let right = ask(&server.url());
    assert!(right.status.success(), "{right:?}");
    assert!(ask(&server.admin_url()).status.success());
    assert!(!ask(&server.url().replace("cret", "kret")).status.success());
}

#[test]
fn a_restart_keeps_the_port_and_the_data_unless_told_otherwise() {
    let mut server = Postgres::options().set("max_connections", "23").start().unwrap();
    let port = server.port();
    server.sql_as_user("CREATE TABLE kept (n int)").unwrap();
    let mut session = Session::open(&server.url());
    server.restart(true).unwrap();
    assert!(session.is_over(), "a client doesn't hold a restart up");
    assert_eq!(server.port(), port);
    assert_eq!(server.sql("SHOW max_connections").unwrap(), "23");
    server.sql_as_user("INSERT INTO kept VALUES (5)").unwrap();
    let all = family(&server);
    server.kill();
    all.into_iter().for_each(assert_gone);
    server.restart(true).unwrap();
    assert_eq!(server.sql("SELECT n FROM kept").unwrap(), "5", "a crash loses nothing");
    server.stop();
    server.restart(false).unwrap();
    assert_eq!(server.sql("SELECT to_regclass('kept') IS NULL").unwrap(), "t");
}

#[test]
fn while_it_is_frozen_no_session_gets_an_answer() {
    let server = Postgres::start().unwrap();
    let mut session = Session::open(&server.url());
    server.freeze();
    session.send("SELECT 'late';");
    let (lines, received) = channel();
    let reader = std::thread::spawn(move || lines.send(session.line()).map(|()| session));
    let early = received.recv_timeout(Duration::from_millis(300));
    assert_eq!(early, Err(RecvTimeoutError::Timeout));
    server.thaw();
    assert_eq!(received.recv_timeout(wait::LIMIT).unwrap(), "late\n");
    drop(reader.join().unwrap().unwrap());
    assert_eq!(server.sql("SELECT 1").unwrap(), "1");
}

#[test]
fn a_frozen_one_is_gone_when_dropped() {
    let server = Postgres::start().unwrap();
    let _session = Session::open(&server.url());
    let all = family(&server);
    server.freeze();
    drop(server);
    all.into_iter().for_each(assert_gone);
}

/// A helper process: see [`it_is_gone_when_the_test_process_is_killed`].
#[test]
fn helper_that_starts_a_server_and_waits() {
    if is_helper() {
        let server = std::thread::spawn(|| Postgres::start().unwrap()).join().unwrap();
        tell_and_wait(&family(&server));
    }
}

/// A helper process: see [`it_is_gone_when_the_test_process_is_killed`].
#[test]
fn helper_that_freezes_a_server_and_waits() {
    if is_helper() {
        let server = Postgres::start().unwrap();
        server.freeze();
        tell_and_wait(&family(&server));
    }
}

#[test]
fn it_is_gone_when_the_test_process_is_killed() {
    for helper in
        ["helper_that_starts_a_server_and_waits", "helper_that_freezes_a_server_and_waits"]
    {
        assert_gone_with_the_process_of(helper);
    }
}

#[test]
fn sessions_can_be_ended_from_the_servers_side() {
    let server = Postgres::start().unwrap();
    let mut sessions = [Session::open(&server.url()), Session::open(&server.url())];
    assert_eq!(server.terminate_sessions().unwrap(), 2);
    for session in &mut sessions {
        assert!(session.is_over());
    }
    assert_eq!(server.terminate_sessions().unwrap(), 0);
}

#[test]
fn a_replica_follows_and_only_reads() {
    let primary = Postgres::options().set("max_connections", "150").start().unwrap();
    primary.sql_as_user("CREATE TABLE t (n int)").unwrap();
    let replica = Postgres::options().replica_of(&primary).start().unwrap();
    assert_eq!(replica.sql("SELECT pg_is_in_recovery()").unwrap(), "t");
    primary.sql_as_user("INSERT INTO t VALUES (5)").unwrap();
    let followed = wait::until(wait::LIMIT, || {
        replica.sql_as_user("SELECT n FROM t").ok().filter(|n| n == "5")
    });
    assert!(followed.is_some());
    let refused = replica.sql_as_user("INSERT INTO t VALUES (6)").unwrap_err();
    assert!(refused.to_string().contains("read-only"), "{refused}");
}
