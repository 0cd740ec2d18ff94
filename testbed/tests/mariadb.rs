//! MariaDB servers start, answer, and end with their value.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lockwright_testbed::{MariaDb, wait};

mod support;
use support::{assert_gone, assert_gone_with_the_process_of, is_helper, tell_and_wait};

/// Returns a client for a URL of the testbed. MariaDB's client doesn't accept URLs.
fn client(server: &MariaDb, password: &str) -> Command {
    let mut command = Command::new("mariadb");
    command
        .args(["--no-defaults", "--batch", "--skip-column-names", "--unbuffered"])
        .args(["--protocol=tcp", "--host=127.0.0.1", "--user=lockwright"])
        .arg(format!("--port={}", server.port()))
        .arg("lockwright")
        .env("MYSQL_PWD", password);
    command
}

struct Session {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn open(server: &MariaDb) -> Self {
        let mut client = client(server, server.password())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = client.stdin.take().unwrap();
        let output = BufReader::new(client.stdout.take().unwrap());
        let mut this = Self { client, input, output };
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

    /// Returns whether the session has ended. The client notices this at its next request, and
    /// ends.
    fn is_over(&mut self) -> bool {
        self.send("SELECT 'still here';");
        self.line().is_empty()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

#[test]
fn it_answers_and_is_gone_when_dropped() {
    let server = MariaDb::start().unwrap();
    let pid = server.process().pid();
    let folder = server.folder().to_owned();
    assert_eq!(server.sql("SELECT 6 * 7").unwrap(), "42");
    let mut session = Session::open(&server);
    drop(server);
    assert_gone(pid);
    assert!(session.is_over());
    assert!(!folder.exists());
}

#[test]
fn its_user_may_make_tables_and_is_nobody_special() {
    let server = MariaDb::start().unwrap();
    let sql = "CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2); SELECT sum(n) FROM t";
    assert_eq!(server.sql_as_user(sql).unwrap(), "3");
    for sql in ["SELECT user FROM mysql.user", "CREATE DATABASE another"] {
        let error = server.sql_as_user(sql).unwrap_err();
        assert!(error.to_string().contains("denied"), "{error}");
    }
}

#[test]
fn it_needs_its_password() {
    let server = MariaDb::options().password("it's/a:s@cret\\ %").start().unwrap();
    assert!(
        server.url().contains(":it%27s%2Fa%3As%40cret%5C%20%25@127.0.0.1:"),
        "{}",
        server.url()
    );
    let ask = |password| client(&server, password).args(["-e", "SELECT 1"]).output().unwrap();
    let right = ask(server.password());
    assert!(right.status.success(), "{right:?}");
    assert!(!ask("another").status.success());
    assert!(!ask("").status.success());
}

#[test]
fn a_restart_keeps_the_port_and_the_data_unless_told_otherwise() {
    let mut server = MariaDb::options().set("max_connections", "23").start().unwrap();
    let port = server.port();
    server.sql_as_user("CREATE TABLE kept (n int)").unwrap();
    let mut session = Session::open(&server);
    server.restart(true).unwrap();
    assert!(session.is_over(), "a client doesn't hold a restart up");
    assert_eq!(server.port(), port);
    assert_eq!(server.sql("SELECT @@max_connections").unwrap(), "23");
    server.sql_as_user("INSERT INTO kept VALUES (5)").unwrap();
    server.kill();
    server.restart(true).unwrap();
    assert_eq!(server.sql("SELECT n FROM kept").unwrap(), "5", "a crash loses nothing");
    server.stop();
    server.restart(false).unwrap();
    assert_eq!(server.sql("SHOW TABLES").unwrap(), "");
}

#[test]
fn while_it_is_frozen_no_session_gets_an_answer() {
    let server = MariaDb::start().unwrap();
    let mut session = Session::open(&server);
    server.freeze();
    session.send("SELECT 'late';");
    let (lines, received) = channel();
    let reader = std::thread::spawn(move || lines.send(session.line()).map(|()| session));
    let early = received.recv_timeout(Duration::from_millis(300));
    assert_eq!(early, Err(RecvTimeoutError::Timeout));
    server.thaw();
    assert_eq!(received.recv_timeout(wait::LIMIT).unwrap(), "late\n");
    drop(reader.join().unwrap().unwrap());
    server.freeze();
    let pid = server.process().pid();
    drop(server);
    assert_gone(pid);
}

/// A helper process: see [`it_is_gone_when_the_test_process_is_killed`].
#[test]
fn helper_that_starts_a_server_and_waits() {
    if is_helper() {
        let server = std::thread::spawn(|| MariaDb::start().unwrap()).join().unwrap();
        tell_and_wait(&[server.process().pid()]);
    }
}

#[test]
fn it_is_gone_when_the_test_process_is_killed() {
    assert_gone_with_the_process_of("helper_that_starts_a_server_and_waits");
}

#[test]
fn sessions_can_be_ended_from_the_servers_side() {
    let server = MariaDb::start().unwrap();
    let mut sessions = [Session::open(&server), Session::open(&server)];
    assert_eq!(server.terminate_sessions().unwrap(), 2);
    assert!(sessions.iter_mut().all(Session::is_over));
    assert_eq!(server.terminate_sessions().unwrap(), 0);
}

#[test]
fn it_can_be_one_that_only_reads() {
    let server = MariaDb::options().set("read_only", "1").start().unwrap();
    assert_eq!(server.sql("SELECT @@read_only").unwrap(), "1");
    let refused = server.sql_as_user("CREATE TABLE t (n int)").unwrap_err();
    assert!(refused.to_string().contains("read-only"), "{refused}");
}
