use std::sync::Arc;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, Error, ErrorKind, Events, Fence, Finding,
    Inspection, LockName, Page, ReleaseMode, ReleaseOutcome, Renew, RenewalOutcome, Result,
    async_trait,
};
use lockwright_redlock::node::{Incarnation, Node, Vote};

use crate::network::Net;
use crate::server::{Answer, Asked, Request};

#[derive(Debug)]
pub(crate) struct SimulatedNode {
    net: Arc<Net>,
    client: usize,
    node: usize,
    address: String,
}

impl SimulatedNode {
    pub(crate) fn seen_by(net: &Arc<Net>, client: usize, node: usize) -> Self {
        Self { net: Arc::clone(net), client, node, address: format!("sim:{node}") }
    }

    async fn ask(&self, request: Request) -> Result<Answer> {
        self.net.call(self.client, self.node, request).await
    }

    /// Returns whether the node may vote in `incarnation`. As with a real node, the client must
    /// also have received that incarnation's `run` on its present connection.
    fn counts(&self, incarnation: &Incarnation) -> bool {
        incarnation.votes && self.net.is_known(self.client, self.node, &incarnation.run)
    }

    fn number(&self) -> u64 {
        self.net.now() << 8 | self.client as u64
    }
}

fn asked(claim: &Claim) -> Asked {
    Asked { name: claim.name.clone(), token: claim.token, ttl: claim.ttl }
}

fn not_simulated(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("simulated nodes don't {what}"))
}

macro_rules! answer {
    ($self:ident, $request:expr, $kind:ident) => {
        match $self.ask($request).await? {
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
        self.net.attach(self.client, events);
    }

    async fn look(&self) -> Result<Incarnation> {
        answer!(self, Request::Look { number: self.number() }, Incarnation)
    }

    async fn admit(&self, seen: &Incarnation) -> Result<Incarnation> {
        let number = self.number();
        if !self.net.is_known(self.client, self.node, &seen.run) {
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

    async fn list(&self, _: &str, _: Option<Cursor>) -> Result<Page> {
        Err(not_simulated("list"))
    }

    async fn break_lock(
        &self,
        _: &LockName,
        _: BreakTarget,
        _: BreakMode,
        _: &str,
        _: &str,
    ) -> Result<Broken> {
        Err(not_simulated("break"))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Err(not_simulated("diagnose"))
    }
}
