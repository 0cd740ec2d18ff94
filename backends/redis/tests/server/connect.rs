use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use lockwright_core::{DistributedLock, Error, ErrorKind};
use lockwright_redis::{Config, Redis};
use lockwright_testbed as testbed;

use crate::common::{
    claim, connect, eventually, exists, fails, grant, patient, token_in, user, without_secret,
};

pub(crate) const SECRET: &str = "hush-hush";

pub(crate) async fn refused(url: &str) -> Error {
    let error = match Config::new(url) {
        Ok(config) => patient(config).connect().await.unwrap_err(),
        Err(error) => error,
    };
    without_secret(error, SECRET)
}

pub(crate) async fn wrong(url: &str, kind: ErrorKind, says: &str) -> Error {
    let error = refused(url).await;
    assert_eq!(error.kind(), kind, "{url}: {error}");
    assert!(error.to_string().contains(says), "{url}: {error}");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    error
}

#[tokio::test]
async fn a_connection_that_is_refused_says_so() {
    let port = testbed::port::free();
    let url = format!("redis://u:{SECRET}@127.0.0.1:{port}/");
    let error = wrong(&url, ErrorKind::Unavailable, "refuses connections").await;
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    wrong("redis://no-such-host.invalid/", ErrorKind::Unavailable, "").await;
}

#[tokio::test]
async fn client_of_the_user_keeps_its_connections() {
    let server = testbed::Redis::options().password(SECRET).start().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut own = client.get_multiplexed_async_connection().await.unwrap();
    let redis = patient(Config::from_client(&client)).connect().await.unwrap();
    grant(&redis, &claim("a")).await;
    assert!(!format!("{redis:?}").contains(SECRET), "{redis:?}");
    drop(redis);
    let list = || server.command::<String>(&["CLIENT", "LIST"]).unwrap();
    let of_tcp = |line: &&str| line.contains(&format!("laddr=127.0.0.1:{} ", server.port()));
    let left = eventually(async || {
        let left: Vec<_> = list().lines().filter(of_tcp).map(str::to_owned).collect();
        (left.len() == 1).then(|| left.concat())
    })
    .await;
    let id: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut own).await.unwrap();
    assert!(left.starts_with(&format!("id={id} ")) && left.contains(" resp=2"), "{left}");
}

#[tokio::test]
async fn a_password_is_asked_for_and_checked() {
    let server = testbed::Redis::options().password(SECRET).start().unwrap();
    let port = server.port();
    wrong(&format!("redis://127.0.0.1:{port}/"), ErrorKind::Denied, "requires a password").await;
    wrong(&format!("redis://:not-{SECRET}@127.0.0.1:{port}/"), ErrorKind::Denied, "").await;
    wrong(&format!("redis://nobody:{SECRET}@127.0.0.1:{port}/"), ErrorKind::Denied, "").await;

    let redis = connect(&server.url()).await;
    assert!(!format!("{redis:?}").contains(SECRET), "{redis:?}");
    grant(&redis, &claim("a")).await;
}

#[tokio::test]
async fn an_error_names_the_missing_permission() {
    let server = testbed::Redis::start().unwrap();
    // By default, a user may access no channels.
    let deaf = user(&server, "deaf", SECRET, "~* +@all resetchannels");
    wrong(&deaf, ErrorKind::Denied, "lockwright:*").await;

    let one_database = user(&server, "one-database", SECRET, "~* &lockwright:* +@all -select");
    wrong(&format!("{one_database}1"), ErrorKind::Denied, "+select").await;

    let halfway = user(&server, "halfway", SECRET, "~* &lockwright:* +@all -set");
    let redis = Redis::connect(&halfway).await.unwrap();
    fails(redis.try_acquire(&claim("a")).await, ErrorKind::Denied);
    assert!(!exists(&server, "a"));
}

#[tokio::test]
async fn other_server_is_not_taken_for_redis() {
    for (greeting, kind) in [
        (Some("HTTP/1.1 400 Bad Request\r\n\r\n"), ErrorKind::InvalidConfig),
        // The server closes the connection, or sends nothing.
        (None, ErrorKind::Unavailable),
        (Some(""), ErrorKind::Unavailable),
    ] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stranger = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let Some(greeting) = greeting else { return };
            let _ = socket.read(&mut [0; 64]);
            let _ = socket.write_all(greeting.as_bytes());
            while matches!(socket.read(&mut [0; 64]), Ok(read) if read > 0) {}
        });
        let config = Config::new(&format!("redis://:{SECRET}@127.0.0.1:{port}/")).unwrap();
        let config = config.connect_timeout(Duration::from_millis(300));
        let error = fails(config.connect().await, kind);
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        stranger.join().unwrap();
    }
}

#[tokio::test]
async fn a_replica_is_refused() {
    let master = testbed::Redis::start().unwrap();
    let replica = testbed::Redis::options().replica_of(&master).start().unwrap();
    wrong(&replica.url(), ErrorKind::Unsupported, &format!("127.0.0.1:{}", master.port())).await;
}

#[tokio::test]
async fn databases_and_prefixes_come_from_the_url() {
    let server = testbed::Redis::start().unwrap();
    let url = format!("{}3?prefix=shop:", server.url());
    let redis = Redis::connect(&url).await.unwrap();
    let claim = claim("a");
    grant(&redis, &claim).await;
    let keyspace: String = server.command(&["INFO", "keyspace"]).unwrap();
    assert!(keyspace.contains("db3:keys=2"), "{keyspace}");
    let mut connection = server.connection().unwrap();
    redis::cmd("SELECT").arg(3).exec(&mut connection).unwrap();
    let value: String = redis::cmd("GET").arg("shop:a").query(&mut connection).unwrap();
    assert_eq!(token_in(&value), claim.token.to_string());
    wrong(&format!("{}99", server.url()), ErrorKind::InvalidConfig, "no database").await;
    // The same name in another database is another lock.
    grant(&connect(&server.url()).await, &self::claim("a")).await;
}

#[tokio::test]
async fn a_unix_socket_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let socket = socket.to_str().unwrap();
    let server = testbed::Redis::options().set("unixsocket", socket).start().unwrap();
    let redis = Redis::connect(&format!("redis+unix://{socket}?db=2")).await.unwrap();
    grant(&redis, &claim("a")).await;
    let keyspace: String = server.command(&["INFO", "keyspace"]).unwrap();
    assert!(keyspace.contains("db2:"), "{keyspace}");
    wrong(&format!("redis+unix://{socket}.not"), ErrorKind::Unavailable, "").await;
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let connecting = Redis::connect("redis://127.0.0.1/");
    let mut connecting = std::pin::pin!(connecting);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match connecting.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => {
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains("tokio runtime"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_connection_lives_in_the_runtime_that_made_it() {
    let server = testbed::Redis::start().unwrap();
    let first = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let redis = first.block_on(Redis::connect(&server.url())).unwrap();
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    second.block_on(grant(&redis, &claim("a")));
    drop(first);
    let error = second.block_on(eventually(async || {
        let error = redis.try_acquire(&claim("b")).await.unwrap_err();
        (error.kind() == ErrorKind::Unavailable).then_some(error)
    }));
    assert!(error.to_string().contains("runtime"), "{error}");
}
