use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use futures_util::FutureExt as _;
use lockwright_conformance::test_helpers::claim_for;
use lockwright_core::{Clock, ErrorKind, Fence, async_trait};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::super::{Ended, Grant};
use super::task::KEPT;
use super::*;

const TTL: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
struct Fake {
    log: Arc<Mutex<Vec<String>>>,
    ends: Arc<Notify>,
    is_silent: Arc<AtomicBool>,
}

impl Fake {
    async fn statement(&self, text: String) {
        self.log.lock().unwrap().push(text);
        if self.is_silent.load(SeqCst) {
            std::future::pending::<()>().await;
        }
        yield_now().await;
    }

    fn log(&self) -> String {
        std::mem::take(&mut *self.log.lock().unwrap()).join(", ")
    }
}

#[async_trait]
impl Session for Fake {
    fn id(&self) -> SessionId {
        1
    }

    async fn lock(&mut self, claim: &Claim, _: Option<Duration>, _: bool) -> Result<Locked> {
        self.statement(format!("lock {}", claim.name)).await;
        Ok(Locked::Yes(Grant { fence: Some(Fence::new(1)), ..Grant::default() }))
    }

    async fn join(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }

    async fn keep(&mut self, claims: &[Claim]) -> Result<Vec<Kept>> {
        self.statement(format!("keep {}", claims.len())).await;
        let kept = |claim: &Claim| match claim.name.as_str() {
            "broken" => Kept::Broken,
            _ => Kept::Renewed,
        };
        Ok(claims.iter().map(kept).collect())
    }

    async fn shorten(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }

    async fn leave(&mut self) -> Result<()> {
        Ok(())
    }

    async fn unlock(&mut self, claim: &Claim) -> Result<bool> {
        self.statement(format!("unlock {}", claim.name)).await;
        Ok(true)
    }

    async fn ended(&mut self) -> Ended {
        self.ends.notified().await;
        Ended::Session
    }

    async fn close(self) {
        self.log.lock().unwrap().push("close".to_owned());
    }
}

fn start(session: &Fake) -> JointSession {
    super::start(session.clone(), TTL, Clock::boot(), "fake", Box::new(|_| ()))
}

fn send_lock(joint: &JointSession, name: &str) -> impl Future<Output = Option<Attempt>> + use<> {
    let (slot, claim) = (joint.slot().unwrap(), claim_for(name, TTL));
    let mut attempt = Box::pin(async move { slot.lock(&claim).await });
    assert!((&mut attempt).now_or_never().is_none());
    attempt
}

type Attempt = Result<(Locked, BootInstant, Member)>;

async fn member(joint: &JointSession, name: &str) -> Member {
    let (locked, _, member) = send_lock(joint, name).await.unwrap().unwrap();
    assert!(matches!(locked, Locked::Yes(_)), "{locked:?}");
    member
}

async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

#[tokio::test]
async fn session_is_closed_after_its_holds_are_reported() {
    let session = Fake::default();
    let joint = start(&session);
    let (mut one, mut two) = (member(&joint, "a").await, member(&joint, "b").await);
    session.log();
    session.ends.notify_one();
    one.ended().await;
    two.ended().await;
    drop(one);
    settle().await;
    assert_eq!(session.log(), "");
    drop(two);
    settle().await;
    assert_eq!(session.log(), "close");
}

#[test]
fn losses_are_reported_when_the_runtime_ends() {
    let lost = Arc::new(AtomicBool::new(false));
    let session = Fake::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = {
        let (lost, session) = (Arc::clone(&lost), session.clone());
        // The session, which has the third reference to `log`, must still exist at the report.
        Box::new(move |_: &Claim| lost.store(Arc::strong_count(&session.log) == 3, SeqCst))
    };
    let _member = runtime.block_on(async {
        let joint = super::start(session.clone(), TTL, Clock::boot(), "fake", report);
        member(&joint, "a").await
    });
    drop(runtime);
    assert!(lost.load(SeqCst));
}

#[tokio::test]
async fn renewals_go_first_and_share_statements() {
    let session = Fake::default();
    let joint = start(&session);
    let (one, two) = (member(&joint, "a").await, member(&joint, "broken").await);
    session.log();
    let locking = (send_lock(&joint, "c"), send_lock(&joint, "d"));
    let kept = tokio::join!(one.keep(), two.keep());
    assert_eq!((kept.0.unwrap(), kept.1.unwrap()), (Kept::Renewed, Kept::Broken));
    settle().await;
    assert_eq!(session.log(), "keep 2, lock c, lock d");
    drop(locking);
}

#[tokio::test]
async fn unreceived_lock_is_released() {
    let session = Fake::default();
    let joint = start(&session);
    drop(send_lock(&joint, "a"));
    settle().await;
    assert_eq!(session.log(), "lock a, unlock a");
    let again = member(&joint, "a").await;
    let (locked, ..) = send_lock(&joint, "a").await.unwrap().unwrap();
    assert_eq!(locked, Locked::No { same_token: false });
    drop(again);
    settle().await;
    assert_eq!(session.log(), "lock a, unlock a");
}

#[tokio::test(start_paused = true)]
async fn silent_session_is_closed() {
    let session = Fake::default();
    let joint = start(&session);
    let mut one = member(&joint, "a").await;
    session.is_silent.store(true, SeqCst);
    let begun = Instant::now();
    let (attempt, queued) = (send_lock(&joint, "b"), send_lock(&joint, "c"));
    let error = attempt.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(queued.await.is_none());
    one.ended().await;
    assert!(one.unlock().await.is_err());
    drop(one);
    settle().await;
    assert_eq!(session.log(), "lock a, lock b, close");
    assert_eq!(begun.elapsed(), MOST_LIMIT + MARGIN);
    assert!(joint.orders.locks.is_closed());
}

#[tokio::test(start_paused = true)]
async fn session_without_holds_is_closed() {
    let session = Fake::default();
    let joint = start(&session);
    let mut one = member(&joint, "a").await;
    tokio::time::sleep(2 * KEPT).await;
    assert_eq!(session.log(), "lock a");
    one.unlock().await.unwrap();
    drop(one);
    tokio::time::sleep(2 * KEPT).await;
    assert_eq!(session.log(), "unlock a, close");
    assert!(joint.orders.locks.is_closed());
}
