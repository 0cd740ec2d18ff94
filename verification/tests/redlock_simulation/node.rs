//! A node as a client sees it: requests to a simulated server.

use std::fmt::Debug;
use std::sync::Arc;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, Events, Fence, Finding, Inspection, LockName,
    Page, ReleaseMode, ReleaseOutcome, Renew, RenewalOutcome, Result, async_trait,
};
use lockwright_redlock::node::{Incarnation, Node, Vote};

use crate::server::{Answer, Asked, Micros, Request};

/// A client's connection to a server.
#[async_trait]
pub(crate) trait Link: Debug + Send + Sync + 'static {
    fn attach(&self, events: Events);

    async fn call(&self, request: Request) -> Result<Answer>;

    /// Returns whether the client has seen this run of the server on its present connection.
    fn has_seen(&self, run: &str) -> bool;

    /// Returns a number for a new incarnation.
    fn number(&self) -> Micros;
}

#[derive(Debug)]
pub(crate) struct SimulatedNode {
    link: Arc<dyn Link>,
    address: String,
}

impl SimulatedNode {
    pub(crate) fn over(link: Arc<dyn Link>, number: usize) -> Arc<dyn Node> {
        Arc::new(Self { link, address: format!("node:{number}") })
    }

    /// Returns whether the node's vote counts: it may vote in `incarnation`, and the client has
    /// received the incarnation's `run` on its present connection. A real node has the same rule.
    fn counts(&self, incarnation: &Incarnation) -> bool {
        incarnation.votes && self.link.has_seen(&incarnation.run)
    }
}

fn asked(claim: &Claim) -> Asked {
    Asked { name: claim.name.clone(), token: claim.token, ttl: claim.ttl }
}

macro_rules! answer {
    ($self:ident, $request:expr, $kind:ident) => {
        match $self.link.call($request).await? {
            Answer::$kind(answer) => Ok(answer),
            other => unreachable!("the answer to another request: {other:?}"),
        }
    };
}

#[async_trait]
impl Node for SimulatedNode {
    fn address(&self) -> &str {
        &self.address
    }

    fn attach(&self, events: Events) {
        self.link.attach(events);
    }

    async fn look(&self) -> Result<Incarnation> {
        answer!(self, Request::Look { number: self.link.number() }, Incarnation)
    }

    async fn admit(&self, seen: &Incarnation) -> Result<Incarnation> {
        let number = self.link.number();
        if !self.link.has_seen(&seen.run) {
            return answer!(self, Request::Look { number }, Incarnation);
        }
        answer!(self, Request::Admit { seen: seen.text.clone(), number }, Incarnation)
    }

    async fn attempt(
        &self,
        incarnation: &Incarnation,
        claim: &Claim,
        candidate: Fence,
        waits: bool,
    ) -> Result<Vote> {
        if !self.counts(incarnation) {
            return Ok(Vote::WrongIncarnation);
        }
        let (incarnation, claim) = (incarnation.text.clone(), asked(claim));
        answer!(self, Request::Attempt { incarnation, claim, candidate, waits }, Vote)
    }

    async fn raise(&self, incarnation: &Incarnation, claim: &Claim, fence: Fence) -> Result<bool> {
        if !self.counts(incarnation) {
            return Ok(false);
        }
        let (incarnation, claim) = (incarnation.text.clone(), asked(claim));
        answer!(self, Request::Raise { incarnation, claim, fence }, Raised)
    }

    async fn renew(
        &self,
        incarnation: &Incarnation,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>> {
        if !self.counts(incarnation) {
            return Ok(None);
        }
        let incarnation = incarnation.text.clone();
        let holds = holds.iter().map(|hold| asked(hold.claim)).collect();
        answer!(self, Request::Renew { incarnation, holds }, Renewed)
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        answer!(self, Request::Release { claim: asked(claim), release_mode }, Ended)
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        answer!(self, Request::Inspect { name: name.clone() }, Inspection)
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        answer!(self, Request::List { prefix: prefix.to_owned(), from }, Page)
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let (name, note) = (name.clone(), format!("{by}: {reason}"));
        answer!(self, Request::Break { name, seen, how, note }, Broken)
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        answer!(self, Request::Doctor, Findings)
    }
}
