//! Tests of the limit on one client's server sessions, which are counted on the server.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;

use super::server::*;
use crate::support::*;

in_each_mode!(limited, ALL_MODES; burst_of_names_stays_within_the_limit,
    locked_table_stays_within_the_limit,
    frozen_server_stays_within_the_limit,
    missing_replica_stays_within_the_limit,
    holds_are_kept_and_released_at_the_limit,
    full_server_is_named);

const LIMIT: usize = 12;

const TTL: Duration = ms(4_000);

fn limited() -> Server {
    with_application(options().set("max_connections", "20"))
}

async fn count(session: &mut Connection) -> usize {
    let sessions: i64 = sqlx::query_scalar(SESSIONS).fetch_one(session).await.unwrap();
    sessions.try_into().unwrap()
}

async fn client(server: &Server, mode: &str) -> Locks {
    let mut session = session(server).await;
    within(ms(20_000), "the last client's sessions to end", async || {
        count(&mut session).await == 0
    })
    .await;
    locks(&format!("{}&connections={LIMIT}", in_mode(&server.url(), mode)), TTL).await
}

struct Sampler {
    over: Arc<AtomicBool>,
    /// A set of one task. Dropping the set ends the task before the server ends.
    samples: JoinSet<Vec<usize>>,
}

impl Sampler {
    async fn start(server: &Server) -> Self {
        let over = Arc::<AtomicBool>::default();
        let mut session = session(server).await;
        let mut sampler = Self { over: Arc::clone(&over), samples: JoinSet::new() };
        sampler.samples.spawn(async move {
            let mut samples = Vec::new();
            while !over.load(Ordering::SeqCst) {
                samples.push(count(&mut session).await);
                sleep(ms(2)).await;
            }
            samples
        });
        sampler
    }

    async fn most(mut self, mode: &str) -> usize {
        self.over.store(true, Ordering::SeqCst);
        let samples = self.samples.join_next().await.unwrap().unwrap();
        assert!(samples.len() > 10, "too few samples");
        let most = samples.into_iter().max().unwrap();
        assert!(most <= LIMIT, "{mode}: {most} sessions");
        most
    }
}

async fn burst_of_names_stays_within_the_limit(server: &Server, mode: &str) {
    let locks = client(server, mode).await;
    let sampler = Sampler::start(server).await;
    let mut all = JoinSet::new();
    for number in 0..300 {
        // In the mode `lease`, a request waits for a connection for only a part of its TTL, so the
        // TTL is long.
        let request = locks.mutex(format!("x{number}")).ttl(LONG);
        let asking = request.wait_for(LONG * 2).acquire();
        all.spawn(async move { asking.await?.release().await });
    }
    application_connects(server).await;
    while let Some(answer) = all.join_next().await {
        answer.unwrap().unwrap_or_else(|error| panic!("{mode}: {error:?}"));
    }
    let most = sampler.most(mode).await;
    // In the mode `session`, holds share sessions, so the client needs few.
    let least = if mode == "session" { 2 } else { LIMIT / 2 };
    assert!(most > least, "{mode}: it didn't use what it has: {most} sessions");
}

async fn locked_table_stays_within_the_limit(server: &Server, mode: &str) {
    let table = if mode == "lease" { "lockwright_lease" } else { "lockwright_hold" };
    let unlock = async |locked| {
        application_connects(server).await;
        drop(locked);
    };
    stays_within_the_limit(server, mode, lock_table(server, table), unlock).await;
}

async fn frozen_server_stays_within_the_limit(server: &Server, mode: &str) {
    let freeze = async { server.freeze() };
    let thaw = async |()| {
        server.thaw();
        application_connects(server).await;
    };
    stays_within_the_limit(server, mode, freeze, thaw).await;
}

async fn missing_replica_stays_within_the_limit(server: &Server, mode: &str) {
    let miss = async { wait_for_replica(server, true) };
    let stop = async |()| {
        application_connects(server).await;
        wait_for_replica(server, false);
    };
    stays_within_the_limit(server, mode, miss, stop).await;
}

/// Checks the limit while requests are stuck, from `begin` until `end`.
async fn stays_within_the_limit<T>(
    server: &Server,
    mode: &str,
    begin: impl Future<Output = T>,
    end: impl AsyncFnOnce(T),
) {
    let locks = client(server, mode).await;
    locks.mutex("warm").acquire().await.unwrap().release().await.unwrap();
    let sampler = Sampler::start(server).await;
    let begun = begin.await;
    let stuck = busily(&locks, mode);
    sleep(TTL * 2).await;
    end(begun).await;
    recovers(&locks, stuck).await;
    sampler.most(mode).await;
}

/// Acquires 30 names repeatedly until the returned flag is set, and ignores errors. In the mode
/// `lease`, half of the requests are dropped after 300 ms.
fn busily(locks: &Locks, mode: &str) -> (Arc<AtomicBool>, JoinSet<()>) {
    let over = Arc::<AtomicBool>::default();
    let limits = if mode == "lease" { [ms(300), LONG] } else { [LONG; 2] };
    let mut waiting = JoinSet::new();
    for number in 0..30 {
        let (locks, over) = (locks.clone(), Arc::clone(&over));
        waiting.spawn(async move {
            for limit in limits.into_iter().cycle() {
                let asking = locks.mutex(format!("stuck-{number}")).wait_for(ms(700)).acquire();
                if let Ok(Ok(guard)) = timeout(limit, asking).await {
                    let _ = guard.release().await;
                }
                if over.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
    }
    (over, waiting)
}

/// Stops the tasks of `busily`, and checks that the client works again.
async fn recovers(locks: &Locks, (over, waiting): (Arc<AtomicBool>, JoinSet<()>)) {
    sleep(ms(1_000)).await;
    over.store(true, Ordering::SeqCst);
    waiting.join_all().await;
    // On a busy machine, a request may fail because the server answers too late.
    within(ms(20_000), "the client to work again", async || {
        match locks.mutex("after").wait_for(ms(5_000)).acquire().await {
            Ok(guard) => guard.release().await.is_ok(),
            Err(_) => false,
        }
    })
    .await;
}

/// In the mode `row`, each hold needs its own session, so an acquire fails once the sessions for
/// holds are used up.
async fn holds_are_kept_and_released_at_the_limit(server: &Server, mode: &str) {
    let locks = client(server, mode).await;
    let mut held = Vec::new();
    let error = loop {
        let name = format!("x{}", held.len());
        match locks.mutex(name).wait_for(ms(1_000)).acquire().await {
            Ok(guard) => held.push(guard),
            Err(error) => break Some(error),
        }
        if held.len() == 2 * LIMIT {
            break None;
        }
    };
    assert_eq!(error.is_some(), mode == "row", "{mode}: {error:?}");
    if let Some(error) = error {
        assert!((LIMIT / 2..LIMIT).contains(&held.len()), "{mode}: {} holds", held.len());
        let text = chain(&error);
        assert!(text.contains("connections"), "{mode}: {text}");
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::TimedOut(_) | ErrorKind::Unavailable), "{error:?}");
    }
    let freed = held.pop().unwrap();
    let waiting = tokio::spawn(locks.mutex("next").wait_for(ms(10_000)).acquire());
    freed.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();

    let stuck = busily(&locks, mode);
    for _ in 0..4 {
        sleep(TTL / 4).await;
        for guard in &held {
            guard.check().unwrap();
        }
        locks.inspect("x0").await.unwrap();
    }
    for guard in held {
        let released = timeout(TTL, guard.release()).await;
        released.expect("it is released in time").unwrap();
    }
    recovers(&locks, stuck).await;
    within(ms(5_000), "the names to be free", async || {
        locks.inspect("x0").await.unwrap().holders.is_empty()
    })
    .await;
}

async fn full_server_is_named(server: &Server, mode: &str) {
    let locks = client(server, mode).await;
    let held = locks.mutex("held").acquire().await.unwrap();
    let mut full = Vec::new();
    while let Ok(connection) = Connection::connect(&server.admin_url()).await {
        full.push(connection);
    }
    let expect = |what: &str, error: &Error| {
        let text = chain(error);
        assert!(FULL.iter().any(|words| text.contains(words)), "{mode}, {what}: {text}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{mode}, {what}: {text}");
    };

    let url = in_mode(&server.url(), mode);
    expect("a new client", &Backend::connect(&url).await.expect_err("the server is full"));

    // In the mode `lease`, a request may use an idle connection, so the test sends several, in one
    // task, so that none ends before the last begins. In the other modes, each request needs a new
    // connection.
    let number = if mode == "lease" { 6 } else { 1 };
    let asking = (0..number).map(|number| locks.mutex(format!("x{number}")).try_acquire());
    let answers = join_all(asking).await;
    let errors: Vec<&Error> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(!errors.is_empty(), "{mode}: no request needs a connection");
    errors.into_iter().for_each(|error| expect("a request", error));
    drop(answers);

    held.check().unwrap();
    drop(full);
    let guard = locks.mutex("after").wait_for(ms(20_000)).acquire().await.unwrap();
    guard.release().await.unwrap();
    held.release().await.unwrap();
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
