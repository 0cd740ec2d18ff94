//! Runs each script without the permission for one of its commands. A script that fails midway
//! must let in no second holder, and its error must be accurate.

use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, DistributedLock, Error, ErrorKind, Event, Fence,
    Mode, ReleaseMode, Renew, Token,
};
use lockwright_redis::node::{Node, RedisNode};
use lockwright_redis::{Config, Redis};
use lockwright_testbed as testbed;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::acl::SCRIPTED;
use crate::common::{
    FOR_EVER, LIMIT, busy, claim, connect, events, eventually, grant, name, patient, token_in,
    weak_user,
};

fn commands() -> impl Iterator<Item = &'static str> {
    SCRIPTED.split_whitespace().chain(["publish"])
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Request {
    Acquire,
    Queue,
    AcquireBehindTheDead,
    ReleaseWaiting,
    Release,
    BreakNow,
    BreakRunOut,
    Swap,
    Renew,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    request: Request,
    held: &'static [Mode],
    waiting: &'static [Mode],
    wanted: Mode,
}

const X: Mode = Mode::Exclusive;
const S: Mode = Mode::Shared;
const P: Mode = Mode::Permits { count: 1, of: 2 };

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |request, held, waiting, wanted| {
        cases.push(Case { request, held, waiting, wanted });
    };
    for mode in [X, S, P] {
        add(Request::Acquire, &[], &[], mode);
    }
    add(Request::Acquire, &[S], &[], S);
    add(Request::Acquire, &[P], &[], P);
    for (held, wanted) in [(&[X], X), (&[X], S), (&[S], X)] {
        add(Request::Queue, held, &[], wanted);
        add(Request::Queue, held, &[X], wanted);
        add(Request::ReleaseWaiting, held, &[X], wanted);
    }
    add(Request::Queue, &[P, P], &[], P);
    add(Request::AcquireBehindTheDead, &[], &[X], X);
    add(Request::AcquireBehindTheDead, &[], &[S, S], X);
    add(Request::Release, &[X], &[X], X);
    add(Request::BreakNow, &[X], &[X], X);
    let ends = [Request::Release, Request::BreakNow, Request::BreakRunOut];
    for request in ends.into_iter().chain([Request::Swap, Request::Renew]) {
        add(request, &[X], &[], X);
        add(request, &[X], &[X, X], X);
        add(request, &[X], &[S, S, X], X);
        add(request, &[S], &[X], S);
        add(request, &[S, S], &[X], S);
        add(request, &[P, P], &[P, P], P);
    }
    cases
}

struct Setting {
    server: testbed::Redis,
    strong: Redis,
    weak: Redis,
    waiter: Redis,
    told: UnboundedReceiver<Event>,
}

impl Setting {
    async fn new() -> Self {
        let server = testbed::Redis::start().unwrap();
        let strong = connect(&server.url()).await;
        let weak = connect(&weak_user(&server, "")).await;
        let waiter = connect(&server.url()).await;
        let told = events(&waiter);
        Self { server, strong, weak, waiter, told }
    }

    async fn holders(&self) -> Vec<(Token, bool)> {
        let seen = self.strong.inspect(&name("a")).await.unwrap();
        let holders = seen.holders.iter();
        holders.map(|it| (it.token.unwrap(), it.broken.is_some())).collect()
    }

    async fn play(&mut self, case: Case, missing: &str) {
        let of = |mode| Claim { mode, ..claim("a") };
        self.server.command::<()>(&["FLUSHALL"]).unwrap();
        while self.told.try_recv().is_ok() {}
        let held: Vec<Claim> = case.held.iter().map(|mode| of(*mode)).collect();
        for claim in &held {
            grant(&self.strong, claim).await;
        }
        let blocker = claim("a");
        if case.request == Request::AcquireBehindTheDead {
            grant(&self.strong, &blocker).await;
        }
        let waiting: Vec<Claim> = case.waiting.iter().map(|mode| of(*mode)).collect();
        for claim in &waiting {
            busy(&self.waiter, claim, FOR_EVER).await;
        }
        let wanted = of(case.wanted);
        match case.request {
            Request::AcquireBehindTheDead => {
                // The hold ends as if it had expired: no waiter gets an offer.
                self.server.command::<()>(&["DEL", "a"]).unwrap();
            }
            Request::ReleaseWaiting => drop(busy(&self.strong, &wanted, FOR_EVER).await),
            _ => {}
        }
        let waited = self.strong.inspect(&name("a")).await.unwrap().waiters;

        self.server.command::<()>(&["ACL", "SETUSER", "weak", &format!("-{missing}")]).unwrap();
        let ends = held.first().map(|first| first.token);
        let weak = &self.weak;
        let granted = |attempt| match attempt {
            AcquireOutcome::Granted(_) => Some(wanted.token),
            _ => None,
        };
        let done: Result<Option<Token>, Error> = match case.request {
            Request::Acquire | Request::Queue | Request::AcquireBehindTheDead => {
                weak.acquire(&wanted, FOR_EVER).await.map(granted)
            }
            Request::ReleaseWaiting => {
                weak.release(&wanted, ReleaseMode::Plain).await.map(|_| None)
            }
            Request::Release => weak.release(&held[0], ReleaseMode::Plain).await.map(|_| None),
            Request::BreakNow | Request::BreakRunOut => {
                let now = case.request == Request::BreakNow;
                let how = if now { BreakMode::Now } else { BreakMode::RunOut };
                let seen = BreakTarget::Token(held[0].token);
                weak.break_lock(&name("a"), seen, how, "ops", "test").await.map(|_| None)
            }
            Request::Swap => weak.swap(held[0].token, &wanted).await.map(granted),
            Request::Renew => weak.renew(&[Renew::of(&held[0])]).await.map(|_| None),
        };
        let holders = self.holders().await;
        let waits = self.strong.inspect(&name("a")).await.unwrap().waiters;
        self.server.command::<()>(&["ACL", "SETUSER", "weak", "+@all"]).unwrap();

        let context = format!("{case:?} without {missing}: {done:?}, then {holders:?}");
        let holds = |token| holders.iter().any(|(holder, _)| *holder == token);
        let is_intact = |token| holders.contains(&(token, false));
        let ended = matches!(case.request, Request::Release | Request::BreakNow | Request::Swap);
        let held_on = held.iter().skip(usize::from(ended));
        let mut claimants: Vec<_> = held_on.map(|claim| (claim.token, claim.mode)).collect();
        match &done {
            Ok(granted) => claimants.extend(granted.map(|token| (token, case.wanted))),
            Err(error) => {
                let is_honest = match (error.kind(), case.request) {
                    (ErrorKind::Indeterminate, _) => true,
                    (_, Request::Acquire | Request::Queue | Request::AcquireBehindTheDead) => {
                        !holds(wanted.token) && waits <= waited
                    }
                    (_, Request::ReleaseWaiting) => waits == waited,
                    (_, Request::Swap) => !holds(wanted.token) && ends.is_some_and(is_intact),
                    _ => ends.is_some_and(is_intact),
                };
                assert!(is_honest, "{context}");
                if case.request == Request::BreakNow && ends.is_some_and(is_intact) {
                    claimants.push((held[0].token, held[0].mode));
                }
            }
        }
        // Messages arrive in order, so the marker is the last.
        let marker = claim("marker").token;
        let broken = format!("now {marker}");
        let arrived = self.server.command::<i64>(&["PUBLISH", "lockwright:broken:0:", &broken]);
        assert!(arrived.unwrap() > 0);
        loop {
            match tokio::time::timeout(LIMIT, self.told.recv()).await.unwrap() {
                Some(Event::Lost(token, _)) if token == marker => break,
                Some(Event::Handed(token, granted)) if granted.valid != Some(Duration::ZERO) => {
                    assert!(holds(token), "{token} was offered it and doesn't hold: {context}");
                    let mode = waiting.iter().find(|claim| claim.token == token).unwrap().mode;
                    claimants.push((token, mode));
                }
                _ => {}
            }
        }
        for (token, mode) in &claimants {
            assert!(holds(*token), "{token} ({mode}) doesn't hold: {context}");
        }
        let writes = claimants.iter().any(|(_, mode)| *mode == X);
        assert!(!writes || claimants.len() == 1, "{claimants:?}: {context}");
        let permits = claimants.iter().filter(|(_, mode)| *mode == P).count();
        assert!(permits <= 2, "{claimants:?}: {context}");
    }
}

#[tokio::test]
async fn script_that_fails_halfway_makes_no_second_holder() {
    let mut setting = Setting::new().await;
    for case in cases() {
        for missing in commands() {
            setting.play(case, missing).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_reports_a_script_that_fails_halfway() {
    let server = testbed::Redis::start().unwrap();
    let config = Config::new(&weak_user(&server, "")).unwrap();
    let weak = RedisNode::new(patient(config), Duration::from_secs(60)).unwrap();
    let new = eventually(async || weak.look().await.ok()).await;
    let incarnation = weak.admit(&new).await.unwrap();
    for missing in commands() {
        for request in 0..5 {
            let (held, wanted) = (claim("a"), claim("a"));
            server.command::<i64>(&["DEL", "a"]).unwrap();
            if request > 0 {
                weak.attempt(&incarnation, &held, Fence::new(5), false).await.unwrap();
            }
            let rule = format!("-{missing}");
            server.command::<()>(&["ACL", "SETUSER", "weak", &rule]).unwrap();
            let failure = match request {
                0 => weak.attempt(&incarnation, &wanted, Fence::new(5), true).await.err(),
                1 => weak.raise(&incarnation, &held, Fence::new(9)).await.err(),
                2 => weak.renew(&incarnation, &[Renew::of(&held)]).await.err(),
                3 => weak.release(&held, ReleaseMode::Reconcile).await.err(),
                _ => {
                    let (name, seen) = (name("a"), BreakTarget::Token(held.token));
                    weak.break_lock(&name, seen, BreakMode::Now, "ops", "test").await.err()
                }
            };
            server.command::<()>(&["ACL", "SETUSER", "weak", "+@all"]).unwrap();
            if let Some(failure) = failure.filter(|it| it.kind() != ErrorKind::Indeterminate) {
                let value: Option<String> = server.command(&["GET", "a"]).unwrap();
                let before = (request > 0).then(|| held.token.to_string());
                let value = value.map(|value| token_in(&value).to_owned());
                assert_eq!(value, before, "{request} without {missing}: {failure}");
            }
        }
    }
}
