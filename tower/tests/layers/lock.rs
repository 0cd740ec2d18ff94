use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::Response;
use axum::routing::get;
use axum::{Extension, Router};
use lockwright_conformance::faults::{Fate, Faulty, Op};
use lockwright_core::fencing::Fenced;
use lockwright_core::{BreakMode, BreakTarget, Clock, ErrorKind, Locks, Reason, Step};
use lockwright_memory::Memory;
use lockwright_tower::LockLayer;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, ServiceExt};

use crate::{kind, request, status};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the service's client, its faults, and another client on the same store.
fn clients() -> (Locks, Faulty, Locks) {
    let clock = Clock::tokio();
    let memory = Memory::with_clock(clock.clone());
    let faulty = Faulty::new(Arc::new(memory.clone()), clock.clone());
    let build = |builder: lockwright_core::Builder| builder.clock(clock.clone()).build().unwrap();
    (build(Locks::builder(faulty.clone())), faulty, build(Locks::builder(memory)))
}

fn name<B>(request: &axum::http::Request<B>) -> Option<String> {
    request.uri().path().strip_prefix("/lock/").map(str::to_owned)
}

fn layer(locks: &Locks) -> LockLayer<fn(&Request) -> Option<String>> {
    LockLayer::new(locks.clone(), name as _).wait_for(SECOND)
}

/// Returns a service whose handler returns at once.
fn app(locks: &Locks) -> Router {
    Router::new().fallback(async || {}).layer(layer(locks))
}

#[derive(Clone, Default)]
struct Handler(Arc<State>);

#[derive(Default)]
struct State {
    running: AtomicUsize,
    most: AtomicUsize,
    started: Notify,
}

struct Running(Handler);

impl Handler {
    /// Counts the handler as running until the value is dropped.
    fn start(&self) -> Running {
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(running, Ordering::SeqCst);
        self.0.started.notify_one();
        Running(self.clone())
    }

    fn running(&self) -> usize {
        self.0.running.load(Ordering::SeqCst)
    }

    /// Returns a service whose handler doesn't return.
    fn endless(&self, locks: &Locks) -> Router {
        let handler = self.clone();
        let work = async move || {
            let _running = handler.start();
            pending::<()>().await
        };
        Router::new().fallback(work).layer(layer(locks))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_name_never_overlap() {
    for (second, most) in [("/lock/x", 1), ("/lock/y", 2), ("/free", 2)] {
        let (locks, _, other) = clients();
        let handler = Handler::default();
        let working = handler.clone();
        let work = async move || {
            let _running = working.start();
            sleep(SECOND / 2).await;
        };
        let router = Router::new().fallback(work);
        let (one, two) = (router.clone().layer(layer(&locks)), router.layer(layer(&other)));
        let statuses = tokio::join!(status(&one, "/lock/x"), status(&two, second));
        assert_eq!(statuses, (200, 200));
        assert_eq!(handler.0.most.load(Ordering::SeqCst), most, "{second}");
    }
}

#[tokio::test(start_paused = true)]
async fn handler_gets_the_fence_of_its_hold() {
    let locks = Locks::builder(Memory::new()).namespace("shop/").build().unwrap();
    let read = async |fenced: Option<Extension<Fenced>>| {
        fenced.map(|Extension(fenced)| fenced.to_string()).unwrap_or_default()
    };
    let router = Router::new().route("/lock/x", get(read)).route("/free", get(read));
    let app = router.layer(LockLayer::new(locks.clone(), name));
    let text = async |path| {
        let body = app.clone().oneshot(request(path)).await.unwrap().into_body();
        String::from_utf8(axum::body::to_bytes(body, 99).await.unwrap().to_vec()).unwrap()
    };
    let fenced: Fenced = text("/lock/x").await.parse().unwrap();
    assert_eq!(fenced.name.as_str(), "shop/x");
    assert!(fenced.fence < locks.mutex("x").acquire().await.unwrap().fence());
    assert_eq!(text("/free").await, "");
}

#[tokio::test(start_paused = true)]
async fn held_lock_is_a_conflict() {
    let (locks, _, other) = clients();
    for (holder, step) in [(&locks, Step::LocalTurn), (&other, Step::Holder)] {
        let guard = holder.mutex("x").acquire().await.unwrap();
        let start = Instant::now();
        let response = app(&locks).oneshot(request("/lock/x")).await.unwrap();
        assert_eq!(response.status(), 409);
        assert!((SECOND..SECOND * 2).contains(&start.elapsed()));
        assert_eq!(kind(&response), ErrorKind::TimedOut(step));
        assert_eq!(status(&app(&locks), "/free").await, 200);
        guard.release().await.unwrap();
        assert_eq!(status(&app(&locks), "/lock/x").await, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn other_failures_have_their_statuses() {
    for (fate, expected) in [
        (Fate::UNAVAILABLE, 503),
        (Fate::Hang, 503),
        (Fate::Refuse(ErrorKind::Denied), 500),
        (Fate::Refuse(ErrorKind::Conflict), 500),
    ] {
        let (locks, faulty, _) = clients();
        faulty.always(Op::Acquire, fate);
        assert_eq!(status(&app(&locks), "/lock/x").await, expected, "{fate:?}");
    }
    let (locks, ..) = clients();
    assert_eq!(status(&app(&locks), "/lock/").await, 400);
    locks.close().await;
    assert_eq!(status(&app(&locks), "/lock/x").await, 503);
}

#[tokio::test(start_paused = true)]
async fn handler_is_dropped_when_the_hold_is_lost() {
    let (locks, _, other) = clients();
    let handler = Handler::default();
    let response = tokio::spawn(handler.endless(&locks).oneshot(request("/lock/x")));
    handler.0.started.notified().await;
    other.break_lock("x", BreakTarget::Any, BreakMode::Now, "a test").await.unwrap();
    let response = timeout(SECOND, response).await.expect("it is dropped at once");
    let response = response.unwrap().unwrap();
    assert_eq!((response.status().as_u16(), handler.running()), (503, 0));
    assert_eq!(kind(&response), ErrorKind::Lost(Reason::Broken));
}

#[tokio::test(start_paused = true)]
async fn only_a_loss_at_the_release_replaces_the_response() {
    let (locks, faulty, other) = clients();
    faulty.next(Op::Release, [Fate::LoseAnswer]);
    assert_eq!(status(&app(&locks), "/lock/x").await, 200);

    faulty.next(Op::Release, [Fate::Slow(SECOND)]);
    let app = app(&locks);
    let response = tokio::spawn(async move { app.oneshot(request("/lock/y")).await.unwrap() });
    faulty.called(Op::Release, 2).await;
    other.break_lock("y", BreakTarget::Any, BreakMode::Now, "a test").await.unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(matches!(kind(&response), ErrorKind::Lost(_)));
}

#[tokio::test(start_paused = true)]
async fn lock_is_free_when_the_response_arrives() {
    let (locks, _, other) = clients();
    let request = || Request::builder().uri("/lock/x").body(()).unwrap();
    let fails = tower::service_fn(async |_| Err::<Response<()>, _>("it failed"));
    let fails = LockLayer::new(locks.clone(), name).layer(fails);
    assert_eq!(fails.oneshot(request()).await.unwrap_err(), "it failed");
    assert!(other.mutex("x").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn dropped_response_future_releases_the_lock() {
    let (locks, _, other) = clients();
    let handler = Handler::default();
    let response = tokio::spawn(handler.endless(&locks).oneshot(request("/lock/x")));
    handler.0.started.notified().await;
    assert!(other.mutex("x").try_acquire().await.unwrap().is_none());
    response.abort();
    assert!(response.await.unwrap_err().is_cancelled());
    assert_eq!(handler.running(), 0);
    other.mutex("x").wait_for(SECOND).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_ready_service_is_called() {
    let (locks, ..) = clients();
    // This service panics if it is called without being ready.
    let limited = tower::limit::ConcurrencyLimitLayer::new(1)
        .layer(tower::service_fn(async |_| Ok::<_, ()>(Response::new(()))));
    let request = Request::builder().uri("/lock/x").body(()).unwrap();
    let layer = LockLayer::new(locks, name);
    assert_eq!(layer.layer(limited).oneshot(request).await.unwrap().status(), 200);
}
