//! A server whose replies can be late or lost.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{Claim, Error, Event, Events, LockName, Result, Token, async_trait};
use lockwright_redlock::node::Node;
use tokio::time::{Instant, sleep};

use crate::node::{Link, SimulatedNode};
use crate::server::{Answer, Flaws, Hold, Micros, Request, Restart, Server};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Answered,
    Down,
    /// The request is executed, and never answered.
    Unanswered,
    /// The request is executed, and the connection breaks before the reply.
    Broken,
    /// The request is executed after this delay.
    Late(Duration),
}

#[derive(Debug)]
pub(crate) struct TestNode {
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) fate: Fate,
    /// `releases`, `raises` and `attempts` override `fate` for their requests, unless they are
    /// `Answered`.
    pub(crate) releases: Fate,
    pub(crate) raises: Fate,
    pub(crate) attempts: Fate,
    pub(crate) server: Server,
    requests: Vec<&'static str>,
    events: Vec<Events>,
}

impl TestNode {
    pub(crate) fn new(number: usize, largest_ttl: Duration) -> Arc<Self> {
        let server = Server::new(number, true, largest_ttl, 1_000_000, Flaws::default());
        Arc::new(Self {
            begun: Instant::now(),
            state: Mutex::new(State {
                fate: Fate::default(),
                releases: Fate::default(),
                raises: Fate::default(),
                attempts: Fate::default(),
                server: server.seasoned(),
                requests: Vec::new(),
                events: Vec::new(),
            }),
        })
    }

    pub(crate) fn node(self: &Arc<Self>) -> Arc<dyn Node> {
        SimulatedNode::over(Arc::clone(self) as _, self.state().server.number)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        state.server.expire(self.number());
        state
    }

    pub(crate) fn fate(&self, fate: Fate) {
        self.state().fate = fate;
    }

    pub(crate) fn restart(&self, how: Restart) {
        self.state().server.restart(how);
    }

    pub(crate) fn holder(&self, name: &LockName) -> Option<Token> {
        self.state().server.data.holds.get(name).map(|hold| hold.token)
    }

    pub(crate) fn hold(&self, claim: &Claim) {
        let (token, mut state) = (claim.token, self.state());
        let expires = state.server.clock(self.number()) + claim.ttl.as_micros() as Micros;
        let hold = Hold { token, fence: 1, expires, waited: false, broken: None };
        state.server.data.holds.insert(claim.name.clone(), hold);
    }

    pub(crate) fn asked(&self, what: &str) -> usize {
        self.state().requests.iter().filter(|request| **request == what).count()
    }

    pub(crate) fn send_event(&self, event: &Event) {
        let events = self.state().events.clone();
        for events in events {
            events.send(event.clone());
        }
    }

    fn execute(&self, request: &Request) -> Answer {
        let (answer, event) = self.state().server.execute(request, self.number());
        if let Some(event) = event {
            self.send_event(&event);
        }
        answer
    }
}

#[async_trait]
impl Link for TestNode {
    fn attach(&self, events: Events) {
        self.state().events.push(events);
    }

    async fn call(&self, request: Request) -> Result<Answer> {
        let fate = {
            let mut state = self.state();
            state.requests.push(request.kind());
            match request {
                Request::Release { .. } if state.releases != Fate::Answered => state.releases,
                Request::Attempt { .. } if state.attempts != Fate::Answered => state.attempts,
                Request::Raise { .. } if state.raises != Fate::Answered => state.raises,
                _ => state.fate,
            }
        };
        match fate {
            Fate::Answered => Ok(self.execute(&request)),
            Fate::Down => Err(Error::unavailable("no server answers there")),
            Fate::Unanswered => {
                self.execute(&request);
                std::future::pending().await
            }
            Fate::Broken => {
                self.execute(&request);
                Err(Error::indeterminate("the connection broke"))
            }
            Fate::Late(time) => {
                sleep(time).await;
                Ok(self.execute(&request))
            }
        }
    }

    fn has_seen(&self, run: &str) -> bool {
        self.state().server.run_id() == run
    }

    fn number(&self) -> Micros {
        self.begun.elapsed().as_micros() as Micros
    }
}
