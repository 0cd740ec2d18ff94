//! One of the independent servers of a quorum.
//!
//! A request counts only on the [`Incarnation`] that the client read. After each reconnect, the
//! client must read it again, because the server may have restarted.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock, ErrorKind, Events, Fence,
    Finding, Granted, Inspection, LockName, Mode, Page, ReleaseMode, ReleaseOutcome, Renew,
    RenewalOutcome, Result, Token,
};
use redis::FromRedisValue;

use crate::acquire::{self, Outcome, millis_rounded_up};
use crate::answer::{Reply, read};
use crate::connection::{Link, Live, Shared};
use crate::doctor::Server;
use crate::errors::{Effect, error, odd_answer};
use crate::keys::Keys;
use crate::renew::Batch;
use crate::scripts::{self, IDLE_FENCE};
use crate::servers::Servers;
use crate::topology::{Topology, Whereabouts};
use crate::{Config, Redis, profile_of};

/// The identity of a node's data. It is lost with the data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// The server's run id: new at each restart, the same at all addresses of one server.
    pub run: String,
    /// A random number, shared only by copies of the data.
    pub data: String,
    /// The value on the server, which scripts compare byte by byte.
    pub text: String,
    /// Set if the node may vote. A new node is [admitted](Node::admit) one largest TTL after it was
    /// first seen.
    pub votes: bool,
    /// The largest TTL of the fleet.
    pub largest_ttl: Duration,
}

/// A node's reply to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// The claim's token holds the lock.
    Yes {
        /// The fence, and the time left if it isn't the requested TTL.
        granted: Granted,
        /// Set if the token already held the lock.
        repeated: bool,
    },
    /// Another token holds the lock.
    No(Box<lockwright_core::Busy>),
    /// The token was released or broken before.
    Ended,
    /// The node has another incarnation, and did nothing.
    WrongIncarnation,
}

/// One of the independent servers of a quorum.
///
/// Unless documented otherwise, errors are those of [`Redis`], and a request may take effect after
/// its future is dropped.
pub struct Node {
    redis: Redis,
    link: Arc<Link>,
    largest_ttl: Duration,
    incarnation_key: String,
    looked: Mutex<Option<Looked>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Looked {
    connection: u64,
    run: String,
}

impl Node {
    /// Creates the node at `config`, in a fleet whose TTLs are at most `largest_ttl`. It connects
    /// in the background, so an unreachable server is no error.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig): a setting is out of range or unsuitable for a
    /// node, or there is no tokio runtime.
    pub fn new(config: Config, largest_ttl: Duration) -> Result<Self> {
        let config = config.checked()?;
        let Topology::One(server) = &config.topology else {
            return Err(error(
                ErrorKind::InvalidConfig,
                "a node of a quorum is one server, not one of Sentinel's or a Cluster",
            ));
        };
        if config.replicas.is_some() {
            return Err(error(
                ErrorKind::InvalidConfig,
                "a node of a quorum can't wait for replicas; remove replicas from its URL",
            ));
        }
        let database = server.redis_settings().db();
        let incarnation_key = Keys::incarnation(&config.key_prefix, database);
        let to = Whereabouts::at(server.clone());
        let link = Link::connect_later(Shared::new(config)?, to);
        let servers = Servers::One(Arc::clone(&link));
        let redis = Redis::new(servers, profile_of("redis", false));
        Ok(Self { redis, link, largest_ttl, incarnation_key, looked: Mutex::default() })
    }

    /// Returns the node's URL without secrets.
    pub fn address(&self) -> &str {
        &self.link.shared.config.shown
    }

    /// Attaches a channel for wake-ups and breaks.
    pub fn attach(&self, events: Events) {
        self.redis.attach(events);
    }

    /// Returns the node's incarnation. If the node has none, or may have lost holds, it gets a new
    /// incarnation, which doesn't vote.
    ///
    /// # Errors
    /// - [`Unsupported`](ErrorKind::Unsupported): it is a replica.
    /// - [`InvalidConfig`](ErrorKind::InvalidConfig): it is a node of a Cluster, or may evict keys.
    /// - [`Denied`](ErrorKind::Denied): the user may not run `INFO`, which shows restarts.
    pub async fn look(&self) -> Result<Incarnation> {
        let live = self.link.live().await?;
        self.look_at(&live).await
    }

    async fn look_at(&self, live: &Arc<Live>) -> Result<Incarnation> {
        let server = Server::behind(&self.link, live).await?;
        server.can_lock()?;
        if let Some(policy) = server.says("maxmemory_policy").filter(|is| *is != "noeviction") {
            return Err(error(
                ErrorKind::InvalidConfig,
                format!(
                    "the eviction policy is {policy}, so the node may evict held locks; CONFIG \
                     SET maxmemory-policy noeviction"
                ),
            ));
        }
        let Some(run) = server.says("run_id").map(str::to_owned) else {
            return Err(error(
                ErrorKind::Denied,
                "a node of a quorum is identified by its run id, and the user may not run INFO; \
                 permit it: ACL SETUSER … +info",
            ));
        };
        // A master that was demoted and promoted again may lack data. Only its replication id shows
        // this.
        let run_and_history = format!("{run}+{}", server.says("master_replid").unwrap_or_default());
        // A promoted replica has its former master's replication id here.
        let was_replica =
            server.says("master_replid2").is_some_and(|id| id.bytes().any(|byte| byte != b'0'));
        let flag = |is: bool| if is { "1" } else { "0" };
        let arguments = [
            &*run_and_history,
            &Token::random().to_string(),
            &millis_rounded_up(self.largest_ttl).to_string(),
            flag(server.keeps_every_write()),
            flag(was_replica),
        ];
        let key = [&*self.incarnation_key];
        let call = scripts::LOOK.call(&key, &arguments, Effect::Reads);
        let text = self.link.run_on(live, call).await.and_then(read)?;
        let incarnation = Incarnation::read(text)?;
        *self.looked() = Some(Looked { connection: live.number, run });
        Ok(incarnation)
    }

    /// Lets the node vote if its incarnation is still `seen`. Returns the incarnation in either
    /// case.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub async fn admit(&self, seen: &Incarnation) -> Result<Incarnation> {
        let live = self.link.live().await?;
        if self.is_known(&live, seen) {
            let (key, argument) = ([&*self.incarnation_key], [&*seen.text]);
            let call = scripts::ADMIT.call(&key, &argument, Effect::Reads);
            if let Ok(text) = String::from_redis_value(self.link.run_on(&live, call).await?) {
                return Incarnation::read(text);
            }
        }
        self.look_at(&live).await
    }

    /// Requests a vote, atomically. A new hold's fence is at least `candidate`. `waits` makes the
    /// present hold's release send a wake-up.
    pub async fn attempt(
        &self,
        incarnation: &Incarnation,
        claim: &Claim,
        candidate: Fence,
        waits: bool,
    ) -> Result<Vote> {
        if claim.mode != Mode::Exclusive {
            return Err(lockwright_core::Error::unsupported(
                &format!("the mode {}", claim.mode),
                self.redis.profile(),
            ));
        }
        let keys = self.keys(&claim.name)?;
        let live = self.link.live().await?;
        if !self.counts(&live, incarnation) {
            return Ok(Vote::WrongIncarnation);
        }
        let value = self.link.shared.wakeups.fast_path().hold_value(claim);
        let [ttl, life] =
            [claim.ttl, claim.ttl + IDLE_FENCE].map(|it| millis_rounded_up(it).to_string());
        let candidate = candidate.get().to_string();
        let waits_too = if waits { "1" } else { "0" };
        let tombstone = keys.tombstone(claim.token);
        let scripted = [keys.lock(), keys.fence(), keys.queue(), &tombstone, &self.incarnation_key];
        let arguments = [&*value, &ttl, &candidate, &incarnation.text, &life, waits_too];
        let effect = Effect::changes_within(claim.patience());
        let call = scripts::VOTE.call(&scripted, &arguments, effect);
        let answer = self.link.run_on(&live, call).await?;
        if let Some(granted) = acquire::granted_one_fence(&answer) {
            return Ok(Vote::Yes { granted, repeated: false });
        }
        Ok(match acquire::outcome(answer, &keys, claim.mode)? {
            Outcome::Granted(granted) => Vote::Yes { granted, repeated: false },
            Outcome::Again(granted) => Vote::Yes { granted, repeated: true },
            Outcome::Busy(busy) | Outcome::Queued(busy, _) => {
                if waits {
                    self.link.shared.wakeups.subscribers().waits(&claim.name);
                }
                Vote::No(Box::new(busy))
            }
            Outcome::Ended => Vote::Ended,
            Outcome::WrongIncarnation => Vote::WrongIncarnation,
        })
    }

    /// Records `fence` in the hold and raises the counter to it, if the token still holds the lock.
    /// Returns whether it does.
    pub async fn raise(
        &self,
        incarnation: &Incarnation,
        claim: &Claim,
        fence: Fence,
    ) -> Result<bool> {
        let keys = self.keys(&claim.name)?;
        let live = self.link.live().await?;
        if !self.counts(&live, incarnation) {
            return Ok(false);
        }
        let scripted = [keys.lock(), keys.fence(), &self.incarnation_key];
        let arguments = [
            &*claim.token.to_string(),
            &fence.get().to_string(),
            &incarnation.text,
            &millis_rounded_up(claim.ttl + IDLE_FENCE).to_string(),
        ];
        let effect = Effect::changes_within(claim.patience());
        let call = scripts::RAISE.call(&scripted, &arguments, effect);
        let reply = Reply::of(self.link.run_on(&live, call).await?, Effect::Changes)?;
        match reply.word(0)? {
            "raised" => Ok(true),
            "gone" | "other-incarnation" => Ok(false),
            _ => Err(odd_answer(Effect::Changes, reply)),
        }
    }

    /// Renews holds for their full TTL. Returns `None`, having done nothing, if the incarnation
    /// differs.
    pub async fn renew(
        &self,
        incarnation: &Incarnation,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>> {
        let live = self.link.live().await?;
        if !self.counts(&live, incarnation) {
            return Ok(None);
        }
        let batch = Batch::new(&self.link.shared.config.key_prefix, holds)?;
        let mut keys = batch.keys();
        keys.push(&self.incarnation_key);
        let arguments = batch.arguments(&incarnation.text);
        if holds.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let call = scripts::RENEW.call(&keys, &arguments, batch.effect());
        let mut renewals = batch.renewals_of_a_node(self.link.run_on(&live, call).await?)?;
        if let Some(renewals) = &mut renewals {
            batch.find_reasons(&self.redis.servers, renewals).await;
        }
        Ok(renewals.map(|renewals| renewals.into_iter().map(|renewal| renewal.outcome).collect()))
    }

    /// Releases a claim, also if the node didn't answer it.
    pub async fn release(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
    ) -> Result<ReleaseOutcome> {
        self.redis.withdraw(claim, release_mode).await
    }

    /// Returns the holder of `name` on this node.
    pub async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let mut inspection = self.redis.inspect(name).await?;
        inspection.waiters = None;
        Ok(inspection)
    }

    /// Lists the names held on this node, in byte order.
    pub async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        let mut page = self.redis.list(prefix, from).await?;
        page.names.iter_mut().for_each(|inspection| inspection.waiters = None);
        Ok(page)
    }

    /// Releases a lock by force, on this node.
    pub async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        self.redis.break_lock(name, seen, how, by, reason).await
    }

    /// Diagnoses this server.
    pub async fn doctor(&self) -> Result<Vec<Finding>> {
        self.redis.doctor().await
    }

    fn keys(&self, name: &LockName) -> Result<Keys> {
        Keys::new(&self.link.shared.config.key_prefix, name)
    }

    fn counts(&self, live: &Arc<Live>, incarnation: &Incarnation) -> bool {
        incarnation.votes && self.is_known(live, incarnation)
    }

    fn is_known(&self, live: &Arc<Live>, incarnation: &Incarnation) -> bool {
        self.looked()
            .as_ref()
            .is_some_and(|looked| looked.connection == live.number && looked.run == incarnation.run)
    }

    fn looked(&self) -> std::sync::MutexGuard<'_, Option<Looked>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Incarnation {
    fn read(text: String) -> Result<Self> {
        let reply: Vec<&str> = text.split(' ').collect();
        if let [state @ ("votes" | "new"), run, data, largest_ttl, _] = reply[..]
            && let Ok(largest_ttl) = largest_ttl.parse().map(Duration::from_millis)
        {
            let run = run.split('+').next().unwrap_or(run).to_owned();
            let (data, votes) = (data.to_owned(), state == "votes");
            return Ok(Self { run, data, text, votes, largest_ttl });
        }
        Err(error(
            ErrorKind::Conflict,
            format!("the key of the node's incarnation holds {text:?}, which is none; delete it"),
        ))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("address", &self.address()).finish_non_exhaustive()
    }
}
