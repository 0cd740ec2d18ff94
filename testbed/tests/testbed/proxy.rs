use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{Proxy, Redis};

fn ping(socket: &mut TcpStream) -> Result<()> {
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
    let start = Instant::now();
    ping(&mut connect().unwrap()).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(100), "both ways are slow");
}

#[test]
fn silenced_connections_stay_open_while_new_ones_are_served() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let connect = || TcpStream::connect(proxy.address()).unwrap();
    let is_silent = |socket: &mut TcpStream| {
        ping(socket).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
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
