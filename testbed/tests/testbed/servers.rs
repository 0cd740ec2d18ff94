//! One test for each kind of server. The backends' tests cover faults, failover, TLS and users.

use lockwright_testbed::etcd::Version;
use lockwright_testbed::{
    Cluster, Etcd, MariaDb, PgBouncer, Postgres, Redis, Sentinels, ZooKeeper, go,
};

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
    let pid = server.process().pid();
    drop(server);
    assert_gone(pid);
}

#[test]
fn postgres_and_pgbouncer() {
    let server = Postgres::options().password("it's a secret").start().unwrap();
    let pool = PgBouncer::in_front_of(&server).start().unwrap();
    assert_eq!(server.sql("SELECT 6 * 7").unwrap(), "42");
    assert_eq!(pool.sql("SELECT current_user").unwrap(), "lockwright");
    let (pids, folder) =
        ([pool.process().pid(), server.process().pid()], server.folder().to_owned());
    drop((pool, server));
    pids.into_iter().for_each(assert_gone);
    assert!(!folder.exists());
}

#[test]
fn mariadb() {
    let server = MariaDb::start().unwrap();
    assert_eq!(server.sql("SELECT 6 * 7").unwrap(), "42");
    let (pid, folder) = (server.process().pid(), server.folder().to_owned());
    drop(server);
    assert_gone(pid);
    assert!(!folder.exists());
}

#[test]
fn sentinels() {
    let set = Sentinels::start().unwrap();
    assert_eq!((set.servers.len(), set.sentinels.len(), set.master().unwrap()), (2, 3, 0));
    for one in &set.sentinels {
        let usable: String = one.command(&["SENTINEL", "CKQUORUM", set.master_name()]).unwrap();
        assert!(usable.starts_with("OK 3 usable"), "{usable}");
    }
    let servers = set.servers.iter().map(|server| server.process().pid());
    let pids: Vec<_> = servers.chain(set.sentinels.iter().map(|one| one.process().pid())).collect();
    drop(set);
    pids.into_iter().for_each(assert_gone);
}

#[test]
fn cluster() {
    let cluster = Cluster::start().unwrap();
    for (key, master) in [("a", 2), ("b", 0), ("c", 1)] {
        assert_eq!(cluster.master_of(key).unwrap(), master, "{key}");
        cluster.nodes[master].command::<()>(&["SET", key, "v"]).unwrap();
        let moved = cluster.nodes[(master + 1) % 3].command::<Option<String>>(&["GET", key]);
        assert!(moved.is_err_and(|error| error.to_string().contains("Moved")));
    }
    let pids: Vec<_> = cluster.nodes.iter().map(|node| node.process().pid()).collect();
    drop(cluster);
    pids.into_iter().for_each(assert_gone);
}

#[test]
fn etcd() {
    for version in [Version::Debian, Version::Current] {
        let etcd = Etcd::options().version(version).start().unwrap();
        etcd.members[0].ctl(&["put", "k", "v"]).unwrap();
        assert!(etcd.members[2].ctl(&["get", "k"]).unwrap().contains('v'));
        assert!(etcd.members[etcd.leader().unwrap()].is_leader());
    }
}

#[test]
fn zookeeper() {
    let zookeeper = ZooKeeper::start().unwrap();
    zookeeper.members[0].cli(&["create", "/k", "value"]).unwrap();
    let leader = zookeeper.leader().unwrap();
    assert_eq!(zookeeper.members[leader].mode().as_deref(), Some("leader"));
    assert_eq!(zookeeper.four_letter(leader, "ruok").unwrap(), "imok");
}

#[test]
fn go_programs() {
    let above = tempfile::tempdir().unwrap();
    // The names are fixed, because `build` would keep another program for each new name.
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
