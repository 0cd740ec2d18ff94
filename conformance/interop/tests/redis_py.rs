//! Beside redis-py: its own lock, in a process of its own, on the same keys.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockwright_core::{
    Attempt, BootInstant, Busy, Claim, DistributedLock, Ended, Granted, Identity, LockName, Mode,
    Reason, Renew, Renewal, Settle, Token, Upkeep, Wait,
};
use lockwright_interop::{LIMIT, Peer};
use lockwright_redis::{Config, Redis};
use lockwright_testbed as testbed;

const VERSION: &str = "8.1.0";

/// redis-py of the pinned version, fetched once and kept beside the build.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(fetched)
}

fn fetched() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("redis-py-{VERSION}"));
    if !place.is_dir() {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (environment, fetched) = (folder.path().join("venv"), folder.path().join("library"));
        // Debian has no pip for everybody: the one of a virtual environment will do.
        python("python3", &["-m", "venv", path(&environment)]);
        python(
            path(&environment.join("bin/python")),
            &[
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--target",
                path(&fetched),
                &format!("redis=={VERSION}"),
            ],
        );
        // In one step, so that nobody finds half of it. Somebody else's is as good as this one.
        let renamed = std::fs::rename(&fetched, &place);
        assert!(renamed.is_ok() || place.is_dir(), "{renamed:?}");
    }
    place
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn python(binary: &str, arguments: &[&str]) {
    let output = Command::new(binary)
        .args(arguments)
        .output()
        .expect("python3 runs; on Debian it is in the package python3");
    assert!(
        output.status.success(),
        "python can't fetch redis-py (on Debian the package python3-venv is needed too): {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn redis_py(port: u16) -> Peer {
    let mut command = Command::new("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/redis_py.py");
    command.args([script, &port.to_string()]).env("PYTHONPATH", library());
    Peer::start(command)
}

async fn server_and_client() -> (testbed::Redis, Redis) {
    let server = testbed::Redis::start().unwrap();
    let config = Config::new(&server.url()).unwrap();
    let redis = config.response_timeout(LIMIT).connect_timeout(LIMIT).connect().await.unwrap();
    (server, redis)
}

fn claim(name: &str) -> Claim {
    claim_for(name, Duration::from_secs(30))
}

fn claim_for(name: &str, ttl: Duration) -> Claim {
    Claim {
        name: LockName::new(name).unwrap(),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("test"))),
        ttl,
        fences: 1,
        upkeep: Upkeep::Renewed,
    }
}

async fn grant(redis: &Redis, claim: &Claim) -> Granted {
    match redis.try_acquire(claim).await.unwrap() {
        Attempt::Granted(granted) => granted,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

async fn busy(redis: &Redis, claim: &Claim, wait: Wait) -> Busy {
    match redis.acquire(claim, wait).await.unwrap() {
        Attempt::Busy(busy) => busy,
        Attempt::Granted(granted) => panic!("granted: {granted:?}"),
    }
}

#[tokio::test]
async fn a_lock_held_by_redis_py_keeps_us_out_until_it_is_released() {
    let (server, redis) = server_and_client().await;
    let mut python = redis_py(server.port());
    assert_eq!(python.ask("try orders/42 30"), "yes");
    let ours = claim("orders/42");
    let busy = busy(&redis, &ours, Wait::Until(BootInstant::FAR_FUTURE)).await;
    let holder = busy.holder.unwrap();
    assert_eq!(holder.token, None, "it isn't one of ours");
    assert!(holder.remaining.unwrap() > Duration::from_secs(20));

    assert_eq!(redis.release(&ours, Settle::Unanswered).await.unwrap(), Ended::NotHeld);
    let renewal = redis.renew(&[Renew { claim: &ours, fences: 0 }]).await.unwrap();
    assert_eq!(renewal, [Renewal::not_held(Reason::Gone)]);
    assert_eq!(python.ask("extend orders/42 30"), "extended", "it still has it");
    assert_eq!(python.ask("release orders/42"), "released");
    grant(&redis, &claim("orders/42")).await;
}

#[tokio::test]
async fn a_lock_held_by_us_keeps_redis_py_out_until_it_is_released() {
    let (server, redis) = server_and_client().await;
    let mut python = redis_py(server.port());
    let ours = claim("orders/42");
    grant(&redis, &ours).await;
    assert_eq!(python.ask("try orders/42 30"), "no");
    let renewal = redis.renew(&[Renew { claim: &ours, fences: 0 }]).await.unwrap();
    assert_eq!(renewal, [Renewal::RENEWED]);
    assert_eq!(python.ask("try orders/42 30"), "no");

    python.send("wait orders/42 30 20");
    assert_eq!(redis.release(&ours, Settle::Answered).await.unwrap(), Ended::Released);
    assert_eq!(python.answer(), "yes", "it waits by polling");
    assert_eq!(python.ask("release orders/42"), "released");
}

#[tokio::test]
async fn neither_ends_what_the_other_took_over_after_an_expiry() {
    let (server, redis) = server_and_client().await;
    let mut python = redis_py(server.port());

    // Its lock runs out and we get it: it must not release ours.
    assert_eq!(python.ask("try a 0.1"), "yes");
    let ours = claim("a");
    let trying = async {
        loop {
            if let Attempt::Granted(granted) = redis.try_acquire(&ours).await.unwrap() {
                return granted;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let granted = tokio::time::timeout(LIMIT, trying).await.unwrap();
    assert_eq!(python.ask("extend a 30"), "not ours");
    assert_eq!(python.ask("release a"), "not ours");
    assert_eq!(server.command::<String>(&["GET", "a"]).unwrap(), ours.token.to_string());
    assert_eq!(grant(&redis, &ours).await.fence, granted.fence);
    assert_eq!(redis.release(&ours, Settle::Answered).await.unwrap(), Ended::Released);

    // Ours runs out and it gets it: we must not release its.
    let ours = claim_for("b", Duration::from_millis(100));
    grant(&redis, &ours).await;
    assert_eq!(python.ask("wait b 30 20"), "yes");
    let theirs: String = server.command(&["GET", "b"]).unwrap();
    let renewal = redis.renew(&[Renew { claim: &ours, fences: 0 }]).await.unwrap();
    assert_eq!(renewal, [Renewal::not_held(Reason::Gone)]);
    assert_eq!(redis.release(&ours, Settle::Answered).await.unwrap(), Ended::NotHeld);
    assert_eq!(redis.release(&ours, Settle::Unanswered).await.unwrap(), Ended::NotHeld);
    assert_eq!(server.command::<String>(&["GET", "b"]).unwrap(), theirs);
    assert_eq!(python.ask("release b"), "released");
}
