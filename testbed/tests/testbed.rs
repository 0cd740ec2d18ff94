//! Servers start, answer, and end with their value, even if the test process is killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{Program, Proxy, Redis, wait};

mod support;
use support::{assert_gone, assert_gone_with_the_process_of, is_helper, tell_and_wait};

#[test]
fn it_answers_and_is_gone_when_dropped() {
    let server = Redis::start().unwrap();
    let pid = server.process().pid();
    assert_eq!(server.command::<String>(&["PING"]).unwrap(), "PONG");
    drop(server);
    assert_gone(pid);
}

#[test]
fn it_is_gone_after_a_panic() {
    let (pids, received) = std::sync::mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let server = Redis::start().unwrap();
        pids.send(server.process().pid()).unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(panicked.is_err());
    assert_gone(received.recv().unwrap());
}

/// A helper process: `it_is_gone_when_the_test_process_is_killed` starts and kills it.
#[test]
fn helper_that_starts_a_server_and_waits() {
    if !is_helper() {
        return;
    }
    // The server must outlive this short thread, but not the process.
    let server = std::thread::spawn(|| Redis::start().unwrap()).join().unwrap();
    assert_eq!(server.command::<String>(&["PING"]).unwrap(), "PONG");
    tell_and_wait(&[server.process().pid()]);
}

#[test]
fn it_is_gone_when_the_test_process_is_killed() {
    assert_gone_with_the_process_of("helper_that_starts_a_server_and_waits");
}

#[test]
fn a_restart_keeps_the_port_and_what_was_persisted() {
    let mut server =
        Redis::options().append_only("always").password("it's a secret").start().unwrap();
    let port = server.port();
    server.command::<()>(&["SET", "kept", "yes"]).unwrap();
    server.restart(true).unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(server.command::<String>(&["GET", "kept"]).unwrap(), "yes");
    server.kill();
    server.restart(true).unwrap();
    assert_eq!(server.command::<String>(&["GET", "kept"]).unwrap(), "yes");
    server.restart(false).unwrap();
    assert_eq!(server.command::<Option<String>>(&["GET", "kept"]).unwrap(), None);
}

#[test]
fn a_replica_follows() {
    let master = Redis::start().unwrap();
    let replica = Redis::options().replica_of(&master).start().unwrap();
    master.command::<()>(&["SET", "k", "v"]).unwrap();
    let followed = wait::until(wait::LIMIT, || {
        replica.command::<String>(&["GET", "k"]).ok().filter(|value| value == "v")
    });
    assert!(followed.is_some());
}

#[test]
fn a_missing_binary_names_its_package() {
    let missing = Program::new("no-such-server", "some-package").locate().unwrap_err();
    assert!(missing.to_string().contains("package some-package"), "{missing}");
}

#[test]
fn a_program_is_run_to_its_end_and_no_longer_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let shell = |script: &str| Program::new("sh", "dash").args(["-c", script]);
    // More than a pipe's buffer, in both directions.
    let long = "x".repeat(300_000);
    assert_eq!(shell("cat").run(folder.path(), &long).unwrap(), long);
    let failed = shell("echo out; echo err >&2; exit 3").run(folder.path(), &long).unwrap_err();
    let said = failed.to_string();
    assert!(["exit status: 3", "out\n", "err\n"].iter().all(|it| said.contains(it)), "{said}");
    let hangs = shell("echo $$; exec sleep 1000").within(Duration::from_millis(500));
    let hung = hangs.run(folder.path(), &long).unwrap_err().to_string();
    assert!(hung.contains("did not end within 500ms"), "{hung}");
    assert_gone(hung.lines().last().unwrap().parse().unwrap());
}

fn ping(socket: &mut TcpStream) -> std::io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(300)))?;
    socket.write_all(b"PING\r\n")?;
    socket.read_exact(&mut [0; 7])
}

#[test]
fn the_proxy_does_what_it_says() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let connect = || TcpStream::connect(proxy.address());

    let mut healthy = connect().unwrap();
    ping(&mut healthy).unwrap();

    proxy.cut();
    assert!(ping(&mut healthy).is_err(), "cut");
    assert!(connect().is_err(), "refused");
    proxy.mend();
    ping(&mut connect().unwrap()).unwrap();

    let mut held = connect().unwrap();
    proxy.set(Traffic::Hold);
    assert!(ping(&mut held).is_err(), "nothing comes while it is held");
    proxy.set(Traffic::Forward);
    held.read_exact(&mut [0; 7]).expect("it comes afterwards");

    let mut half_open = connect().unwrap();
    proxy.set(Traffic::SwallowAll);
    assert!(ping(&mut half_open).is_err(), "swallowed");
    assert!(ping(&mut connect().unwrap()).is_err(), "new connections too");
    proxy.set(Traffic::Forward);
    assert!(ping(&mut half_open).is_err(), "TCP never goes on after a gap");

    let mut deaf = connect().unwrap();
    proxy.set(Traffic::SwallowAnswers);
    deaf.write_all(b"SET arrived yes\r\n").unwrap();
    assert!(proxy.wait_for_swallowed_answer());
    assert_eq!(server.command::<String>(&["GET", "arrived"]).unwrap(), "yes");
    assert!(ping(&mut deaf).is_err(), "the answer is lost");

    proxy.set(Traffic::Delay(Duration::from_millis(50)));
    let start = std::time::Instant::now();
    ping(&mut connect().unwrap()).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(100), "both ways are slow");
}

#[test]
fn silenced_connections_stay_open_while_new_ones_are_served() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let connect = || TcpStream::connect(proxy.address()).unwrap();
    let is_silent = |socket: &mut TcpStream| {
        ping(socket).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };

    let mut present = connect();
    ping(&mut present).unwrap();
    proxy.silence_present();
    assert!(is_silent(&mut present));
    let mut new = connect();
    ping(&mut new).unwrap();
    assert!(is_silent(&mut present), "for good");

    proxy.silence_present();
    assert!(is_silent(&mut new));
    ping(&mut connect()).unwrap();
}
