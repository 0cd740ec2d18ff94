use lockwright_core::fencing::Fenced;
use lockwright_core::{ErrorKind, Fence, Reason, Result};
use lockwright_redis::fencing::FencedScript;
use lockwright_testbed as testbed;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::common::name;

const FENCE: &str = "order:42:fence";
const ORDER: &str = "order:42";

fn fenced(fence: u64) -> Fenced {
    Fenced { name: name("orders/42"), fence: Fence::new(fence) }
}

async fn server() -> (testbed::Redis, MultiplexedConnection) {
    let server = testbed::Redis::start().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    (server, connection)
}

async fn put(to: &mut MultiplexedConnection, fence: &Fenced, text: &str) -> Result<Vec<String>> {
    let write = FencedScript::new(
        "redis.call('SET', KEYS[1], ARGV[1]) \
         return {KEYS[1], ARGV[1], tostring(#KEYS), tostring(#ARGV)}",
    );
    write.invoke(to, FENCE, fence, &[ORDER], &[text]).await
}

async fn get(to: &mut MultiplexedConnection, key: &str) -> String {
    to.get(key).await.unwrap()
}

fn refused<T>(answer: Result<T>, kind: ErrorKind) {
    assert_eq!(answer.err().map(|error| error.kind()), Some(kind));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_below_the_highest_is_refused_and_no_other() {
    let (_server, mut connection) = server().await;
    let large = 1_795_000_000_000_001;
    for fence in [5, 5, 9, 10, 99, 100, large, large + 1, Fence::MAX.get()] {
        let text = fence.to_string();
        let seen = put(&mut connection, &fenced(fence), &text).await.unwrap();
        assert_eq!(seen, [ORDER, &text, "1", "1"]);
        assert_eq!(get(&mut connection, ORDER).await, text);
        assert_eq!(get(&mut connection, FENCE).await, text, "a number of Lua's isn't its text");
    }
    for late in [Fence::MAX.get() - 1, large, 100, 0] {
        let error = put(&mut connection, &fenced(late), "late").await.unwrap_err();
        assert_eq!(error.lost_reason(), Some(Reason::Superseded));
        assert!(error.to_string().contains(&Fence::MAX.to_string()), "{error}");
    }
    let above = fenced(Fence::MAX.get() + 1);
    refused(put(&mut connection, &above, "x").await, ErrorKind::InvalidInput);
    assert_eq!(get(&mut connection, ORDER).await, Fence::MAX.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_input_is_refused_and_changes_nothing() {
    let (_server, mut connection) = server().await;
    for other in ["", "x", "-1", "1.5", "1e3"] {
        let () = connection.set(FENCE, other).await.unwrap();
        refused(put(&mut connection, &fenced(5), "x").await, ErrorKind::Conflict);
        assert_eq!(get(&mut connection, FENCE).await, other);
    }
    let () = connection.del(FENCE).await.unwrap();
    let () = connection.lpush(FENCE, "x").await.unwrap();
    refused(put(&mut connection, &fenced(5), "x").await, ErrorKind::Conflict);
    let is_there: bool = connection.exists(ORDER).await.unwrap();
    assert!(!is_there);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_fails_has_noted_its_fence() {
    let (_server, mut connection) = server().await;
    put(&mut connection, &fenced(3), "begun").await.unwrap();
    let fails = FencedScript::new("redis.call('SET', KEYS[1], 'half') error('no more')");
    let nothing: [&str; 0] = [];
    let failed: Result<()> =
        fails.invoke(&mut connection, FENCE, &fenced(4), &[ORDER], &nothing).await;
    refused(failed, ErrorKind::Indeterminate);
    assert_eq!(get(&mut connection, ORDER).await, "half");
    let late = put(&mut connection, &fenced(3), "late").await;
    refused(late, ErrorKind::Lost(Reason::Superseded));
}

#[tokio::test]
async fn script_may_begin_with_flags() {
    let (_server, mut connection) = server().await;
    let text = "#!lua flags=allow-oom\nredis.call('SET', KEYS[1], ARGV[1]) return 'done'";
    let write = FencedScript::new(text);
    let answer: Result<String> =
        write.invoke(&mut connection, FENCE, &fenced(7), &[ORDER], &["flagged"]).await;
    assert_eq!(answer.unwrap(), "done");
    assert_eq!(get(&mut connection, ORDER).await, "flagged");
    let late: Result<String> =
        write.invoke(&mut connection, FENCE, &fenced(6), &[ORDER], &["late"]).await;
    refused(late, ErrorKind::Lost(Reason::Superseded));
}
