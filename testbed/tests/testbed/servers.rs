//! Tests of the lifetime of servers and data. The backends' tests start the other kinds of servers.

use lockwright_testbed::{PgBouncer, Postgres, Redis, go};

use crate::assert_gone;

#[test]
fn redis() {
    let mut server =
        Redis::options().append_only("always").password("it's a secret").start().unwrap();
    let value = |server: &Redis| server.command::<Option<String>>(&["GET", "kept"]).unwrap();
    server.command::<()>(&["SET", "kept", "yes"]).unwrap();
    let port = server.port();
    server.restart(true).unwrap();
    assert_eq!((server.port(), value(&server).as_deref()), (port, Some("yes")));
    server.kill();
    server.restart(true).unwrap();
    assert_eq!(value(&server).as_deref(), Some("yes"));
    server.restart(false).unwrap();
    assert_eq!(value(&server), None);
    let pid = server.pid();
    drop(server);
    assert_gone(pid);
}

#[test]
fn postgres_and_pgbouncer() {
    let server = Postgres::options().password("it's a secret").start().unwrap();
    let pool = PgBouncer::in_front_of(&server).start().unwrap();
    assert_eq!(server.sql("SELECT 6 * 7").unwrap(), "42");
    assert_eq!(pool.sql("SELECT current_user").unwrap(), "lockwright");
    let (pids, folder) = ([pool.pid(), server.pid()], server.folder().to_owned());
    drop((pool, server));
    pids.into_iter().for_each(assert_gone);
    assert!(!folder.exists());
}

#[test]
fn go_programs() {
    let above = tempfile::tempdir().unwrap();
    // The names are fixed, because `build` keeps a program for each name.
    let build = |name: &str, go: &str| {
        let folder = above.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("go.mod"), format!("module example\n\ngo {go}\n")).unwrap();
        std::fs::write(folder.join("main.go"), "package main\n\nfunc main() {}\n").unwrap();
        go::build(&folder)
    };
    let program = build("small", "1.19").unwrap();
    assert!(std::process::Command::new(&program).status().unwrap().success());
    let built = || std::fs::metadata(&program).unwrap().modified().unwrap();
    let first = built();
    assert_eq!((build("small", "1.19").unwrap(), built()), (program.clone(), first));
    let error = build("too-new", "9.99").unwrap_err().to_string();
    assert!(error.contains("needs Go 9.99 or newer; `go version go1."), "{error}");
}
