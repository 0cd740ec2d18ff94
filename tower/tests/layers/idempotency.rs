use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Response;
use lockwright_core::fencing::Fenced;
use lockwright_core::{BreakMode, BreakTarget, Clock, ErrorKind, Locks};
use lockwright_memory::Memory;
use lockwright_tower::{IdempotencyLayer, LockLayer, Responses};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tower::{Layer, ServiceExt};

use crate::kind;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Default)]
struct Store {
    responses: Arc<Mutex<HashMap<String, Response<Bytes>>>>,
    get_fails: bool,
    put_fails: bool,
}

impl Responses for Store {
    type Error = std::io::Error;

    async fn get(&self, key: &str) -> std::io::Result<Option<Response<Bytes>>> {
        let failed = || Err(std::io::Error::other("cannot read"));
        if self.get_fails { failed() } else { Ok(self.responses.lock().unwrap().get(key).cloned()) }
    }

    async fn put(&self, key: &str, response: Response<Bytes>) -> std::io::Result<()> {
        if self.put_fails {
            return Err(std::io::Error::other("cannot write"));
        }
        self.responses.lock().unwrap().entry(key.to_owned()).or_insert(response);
        Ok(())
    }
}

#[derive(Default)]
struct Service {
    runs: AtomicUsize,
    started: Notify,
}

impl Service {
    /// Answers after a second, with the number of the run. The path is the status.
    async fn answer(&self, request: Request) -> Response<Body> {
        let has_key = request.headers().contains_key("idempotency-key");
        assert_eq!(request.extensions().get::<Fenced>().is_some(), has_key);
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        self.started.notify_one();
        sleep(SECOND).await;
        let response = Response::builder().status(&request.uri().path()[1..]).header("run", run);
        response.body(Body::from(format!("run {run}"))).unwrap()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

fn app(locks: &Locks, store: Store) -> (Router, Arc<Service>) {
    let service = Arc::new(Service::default());
    let answering = Arc::clone(&service);
    let answer = async move |request| answering.answer(request).await;
    let key = |request: &Request| {
        let key = request.headers().get("idempotency-key")?.to_str().ok()?;
        Some(format!("pay/{key}"))
    };
    let layer = IdempotencyLayer::new(locks.clone(), store, key).wait_for(SECOND * 5);
    (Router::new().fallback(answer).layer(layer), service)
}

fn locks() -> Locks {
    let clock = Clock::tokio();
    Locks::builder(Memory::with_clock(clock.clone())).clock(clock).build().unwrap()
}

async fn send(app: &Router, path: &str, key: Option<&str>) -> Response<Body> {
    let mut request = Request::builder().uri(path);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

/// Returns the status, the run, whether the response was stored, and the body.
async fn shown(response: Response<Body>) -> String {
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 99).await.unwrap();
    let header = |name| head.headers.get(name).map_or("", |value| value.to_str().unwrap());
    let (status, run, replayed) = (head.status, header("run"), header("idempotent-replayed"));
    format!("{} {run} {replayed} {}", status.as_u16(), String::from_utf8_lossy(&body))
}

#[tokio::test(start_paused = true)]
async fn retry_gets_the_stored_response() {
    let (app, service) = app(&locks(), Store::default());
    for status in ["/201", "/404"] {
        let run = service.runs() + 1;
        let first = format!("{} {run}  run {run}", &status[1..]);
        assert_eq!(shown(send(&app, status, Some(status)).await).await, first);
        let replayed = format!("{} {run} true run {run}", &status[1..]);
        assert_eq!(shown(send(&app, "/200", Some(status)).await).await, replayed);
    }
    assert_eq!(shown(send(&app, "/200", Some("other")).await).await, "200 3  run 3");
    assert_eq!(shown(send(&app, "/200", None).await).await, "200 4  run 4");
    assert_eq!(shown(send(&app, "/200", None).await).await, "200 5  run 5");
}

#[tokio::test(start_paused = true)]
async fn simultaneous_retries_run_the_service_once() {
    let (app, service) = app(&locks(), Store::default());
    let send = || async { shown(send(&app, "/200", Some("a")).await).await };
    let mut answers = <[String; 3]>::from(tokio::join!(send(), send(), send()));
    answers.sort();
    assert_eq!(answers, ["200 1  run 1", "200 1 true run 1", "200 1 true run 1"]);
    assert_eq!(service.runs(), 1);
}

/// The first client disconnects while the service runs.
#[tokio::test(start_paused = true)]
async fn service_ends_and_is_stored_although_the_client_is_gone() {
    let (app, service) = app(&locks(), Store::default());
    timeout(SECOND / 2, send(&app, "/200", Some("a"))).await.unwrap_err();
    assert_eq!(shown(send(&app, "/200", Some("a")).await).await, "200 1 true run 1");
    assert_eq!(service.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn server_errors_are_not_stored() {
    let (app, _) = app(&locks(), Store::default());
    assert_eq!(shown(send(&app, "/500", Some("a")).await).await, "500 1  run 1");
    assert_eq!(shown(send(&app, "/200", Some("a")).await).await, "200 2  run 2");
}

/// A service may work in `call` already, such as tower's buffer.
#[tokio::test(start_paused = true)]
async fn service_that_works_in_its_call_runs_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let service = tower::service_fn(move |_: Request| {
        counter.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Body::empty())))
    });
    let key = |_: &Request| Some("a".to_owned());
    let app = IdempotencyLayer::new(locks(), Store::default(), key).layer(service);
    for _ in 0..2 {
        app.clone().oneshot(Request::new(Body::empty())).await.unwrap();
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn refusals_of_a_layer_inside_are_not_stored() {
    let locks = locks();
    let guard = locks.mutex("inner").acquire().await.unwrap();
    let inner = LockLayer::new(locks.clone(), |_: &Request| Some("inner".to_owned()));
    let key = |_: &Request| Some("a".to_owned());
    let layer = IdempotencyLayer::new(locks.clone(), Store::default(), key);
    let app = Router::new().fallback(async || "done").layer(inner.wait_for(SECOND)).layer(layer);
    assert_eq!(send(&app, "/", None).await.status(), 409);
    guard.release().await.unwrap();
    assert_eq!(send(&app, "/", None).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn service_does_not_run_if_the_stored_responses_cannot_be_read() {
    let (app, service) = app(&locks(), Store { get_fails: true, ..Store::default() });
    let response = send(&app, "/200", Some("a")).await;
    assert_eq!((response.status().as_u16(), kind(&response)), (503, ErrorKind::Unavailable));
    assert_eq!(service.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn response_that_cannot_be_stored_still_reaches_the_client() {
    let (app, _) = app(&locks(), Store { put_fails: true, ..Store::default() });
    assert_eq!(shown(send(&app, "/200", Some("a")).await).await, "200 1  run 1");
}

#[tokio::test(start_paused = true)]
async fn response_after_a_loss_is_not_stored() {
    let locks = locks();
    let store = Store::default();
    let (app, service) = app(&locks, store.clone());
    let operator = async {
        service.started.notified().await;
        locks.break_lock("pay/a", BreakTarget::Any, BreakMode::Now, "a test").await.unwrap();
    };
    let (response, ()) = tokio::join!(send(&app, "/200", Some("a")), operator);
    assert_eq!(response.status(), 503);
    assert!(matches!(kind(&response), ErrorKind::Lost(_)));
    assert!(store.responses.lock().unwrap().is_empty());
}
