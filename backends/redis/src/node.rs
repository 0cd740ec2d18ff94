//! The interface of a quorum to one independent server, real or simulated.
//!
//! # Incarnations
//!
//! After a loss of its data, a node must not vote until all lost holds have expired: for the
//! largest TTL of all clients. So each node stores an [`Incarnation`], which is lost with the data.
//!
//! Requests for votes and renewals carry the incarnation that the client read. The node compares it
//! in the same atomic step. The client must read the incarnation again after each reconnect,
//! because the server may have restarted.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock, ErrorKind, Events, Fence,
    Finding, Granted, Holder, Inspection, LockName, Mode, Page, ReleaseMode, ReleaseOutcome, Renew,
    RenewalOutcome, Result, Token, async_trait,
};
use redis::{FromRedisValue, Value};

use crate::acquire::{self, Outcome, millis_rounded_up};
use crate::answer::{Reply, read, released};
use crate::backend::tombstone_life;
use crate::connection::{Link, Live, Shared};
use crate::doctor::Server;
use crate::errors::{Effect, error, odd_answer};
use crate::keys::Keys;
use crate::renew::Batch;
use crate::scripts::{self, IDLE_FENCE};
use crate::servers::Servers;
use crate::topology::{Topology, Whereabouts};
use crate::{Config, Redis, profile_of};

/// The identity of a node's data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// The server's run id: new at each restart, the same at all addresses of one server.
    pub run: String,
    /// A random number, shared only by copies of the data.
    pub data: String,
    /// The stored incarnation. Scripts compare it byte by byte.
    pub text: String,
    /// Set if the node may vote. A client [admits](Node::admit) a new node one `largest_ttl` after
    /// it first read the incarnation.
    pub votes: bool,
    /// The largest TTL of the quorum's clients.
    pub largest_ttl: Duration,
}

/// A node's reply to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// The claim's token holds the lock, for the full TTL.
    Yes(Yes),
    /// Another token holds the lock.
    No(No),
    /// The claim's token was released or broken.
    Ended,
    /// The node has another incarnation, and did nothing.
    WrongIncarnation,
}

/// A vote for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Yes {
    /// The fence of the hold; of a new hold, `max(counter + 1, candidate)`: see [`Node::attempt`].
    pub fence: Fence,
    /// Set if the token already held the lock.
    pub repeated: bool,
    /// The time left, if the hold was broken and can't be extended.
    pub valid: Option<Duration>,
}

/// A vote against a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct No {
    /// Time until the present hold expires; `None` if never.
    pub left: Option<Duration>,
    /// The present holder.
    pub holder: Option<Box<Holder>>,
}

/// One of the independent nodes.
///
/// A request may still take effect after its future is dropped, or after an `Indeterminate` error.
/// After any other error, it has no effect.
#[async_trait]
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// Returns the address for display, without secrets.
    fn address(&self) -> &str;

    /// Attaches a channel for wake-ups and breaks.
    fn attach(&self, events: Events);

    /// Returns the node's incarnation. If it is missing, or a restart may have lost writes, the
    /// node gets a new one, which doesn't vote.
    ///
    /// A restart keeps the incarnation only if the server persists every write, both before and
    /// after the restart, and wasn't a replica in the meantime.
    ///
    /// # Errors
    /// - [`Unsupported`](ErrorKind::Unsupported): the server is a replica.
    /// - [`InvalidConfig`](ErrorKind::InvalidConfig): the server is a node of a Cluster, or may
    ///   evict keys.
    /// - [`Denied`](ErrorKind::Denied): the user may not run `INFO`, which shows restarts.
    async fn look(&self) -> Result<Incarnation>;

    /// Lets the node vote if its incarnation is `seen`. Returns the resulting incarnation.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    async fn admit(&self, seen: &Incarnation) -> Result<Incarnation>;

    /// Requests a vote, atomically, and idempotently per token. If `waits` is set, the present
    /// hold's release sends a wake-up.
    async fn attempt(
        &self,
        incarnation: &Incarnation,
        claim: &Claim,
        candidate: Fence,
        waits: bool,
    ) -> Result<Vote>;

    /// If the token still holds the lock, records `fence` for the hold and raises the counter to
    /// it. Returns whether the token holds the lock.
    async fn raise(&self, incarnation: &Incarnation, claim: &Claim, fence: Fence) -> Result<bool>;

    /// Renews holds for their full TTL. Returns one outcome per hold, or `None` if the incarnation
    /// differs.
    async fn renew(
        &self,
        incarnation: &Incarnation,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>>;

    /// Releases a claim, even an unanswered one, in any incarnation.
    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome>;

    /// Returns the holder of `name` on this node.
    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    /// Lists the names held on this node, in byte order.
    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// Breaks a hold on this node.
    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken>;

    /// Diagnoses this node.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}

/// One Redis server of a quorum. Errors are those of [`Redis`].
pub struct RedisNode {
    redis: Redis,
    link: Arc<Link>,
    address: String,
    largest_ttl: Duration,
    incarnation_key: String,
    looked: Mutex<Option<Looked>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Looked {
    connection: u64,
    run: String,
}

impl RedisNode {
    /// Creates the node at `config`, for TTLs up to `largest_ttl`. The node connects in the
    /// background, so an unreachable server is no error.
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
        let servers = Arc::new(Servers::One(Arc::clone(&link)));
        let redis = Redis::new(servers, profile_of("redis", false));
        let address = short(&link.shared.config.shown);
        let looked = Mutex::default();
        Ok(Self { redis, link, address, largest_ttl, incarnation_key, looked })
    }

    async fn look_at(&self, live: &Arc<Live>) -> Result<Incarnation> {
        let server = Server::look(&self.link, live).await?;
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
        // A master that was a replica may lack data, which only its replication id shows.
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
        *lock(&self.looked) = Some(Looked { connection: live.number, run });
        Ok(incarnation)
    }

    fn keys(&self, name: &LockName) -> Result<Keys> {
        Keys::new(&self.link.shared.config.key_prefix, name)
    }

    /// Returns the connection if `incarnation` votes and is the last one seen.
    async fn voting_connection(&self, incarnation: &Incarnation) -> Result<Option<Arc<Live>>> {
        let live = self.link.live().await?;
        let votes = incarnation.votes && self.is_known(&live, incarnation);
        Ok(votes.then_some(live))
    }

    fn is_known(&self, live: &Arc<Live>, incarnation: &Incarnation) -> bool {
        let looked = lock(&self.looked);
        let is_it = |it: &Looked| it.connection == live.number && it.run == incarnation.run;
        looked.as_ref().is_some_and(is_it)
    }
}

#[async_trait]
impl Node for RedisNode {
    fn address(&self) -> &str {
        &self.address
    }

    lockwright_core::delegate!(|this| this.redis; attach, break_lock, doctor);

    async fn look(&self) -> Result<Incarnation> {
        let live = self.link.live().await?;
        self.look_at(&live).await
    }

    async fn admit(&self, seen: &Incarnation) -> Result<Incarnation> {
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

    async fn attempt(
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
        let Some(live) = self.voting_connection(incarnation).await? else {
            return Ok(Vote::WrongIncarnation);
        };
        let value = self.link.shared.wakeups.hold_value(claim);
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
        let yes = |granted: Granted, repeated: bool| {
            Vote::Yes(Yes { fence: granted.fence, repeated, valid: granted.valid })
        };
        if is_other_incarnation(&answer) {
            return Ok(Vote::WrongIncarnation);
        }
        Ok(match acquire::outcome(answer, &keys, claim.mode) {
            Ok(Outcome::Granted(granted)) => yes(granted, false),
            Ok(Outcome::Again(granted)) => yes(granted, true),
            Ok(Outcome::Busy(busy) | Outcome::Queued(busy, _)) => {
                if waits {
                    self.link.shared.wakeups.subscribers.waits(&claim.name);
                }
                Vote::No(No { left: busy.retry_after, holder: busy.holder })
            }
            Err(error) if error.lost_reason().is_some() => Vote::Ended,
            Err(error) => return Err(error),
        })
    }

    async fn raise(&self, incarnation: &Incarnation, claim: &Claim, fence: Fence) -> Result<bool> {
        let keys = self.keys(&claim.name)?;
        let Some(live) = self.voting_connection(incarnation).await? else { return Ok(false) };
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

    async fn renew(
        &self,
        incarnation: &Incarnation,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>> {
        let Some(live) = self.voting_connection(incarnation).await? else { return Ok(None) };
        let batch = Batch::new(&self.link.shared.config.key_prefix, holds)?;
        let mut keys = batch.keys();
        keys.push(&self.incarnation_key);
        let arguments = batch.arguments(&incarnation.text);
        if holds.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let call = scripts::RENEW.call(&keys, &arguments, batch.effect);
        let answer = self.link.run_on(&live, call).await?;
        if is_other_incarnation(&answer) {
            return Ok(None);
        }
        let mut renewals = batch.renewals(answer)?;
        batch.find_reasons(&self.redis.servers, &mut renewals).await;
        Ok(Some(renewals.into_iter().map(|renewal| renewal.outcome).collect()))
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let (keys, token) = (self.keys(&claim.name)?, claim.token.to_string());
        let tombstone = keys.tombstone(claim.token);
        let tombstone_life = tombstone_life(claim, release_mode).to_string();
        let scripted = [keys.lock(), keys.queue(), &tombstone];
        let channel = &*self.link.shared.wakeups.released;
        let arguments = [&*token, &tombstone_life, channel, claim.name.as_str()];
        let effect = Effect::changes_within(claim.patience());
        let call = scripts::WITHDRAW.call(&scripted, &arguments, effect);
        let ended = self.link.run(call).await.and_then(released);
        ended.map_err(|error| error.with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let mut inspection = self.redis.inspect(name).await?;
        inspection.waiters = None;
        Ok(inspection)
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        let mut page = self.redis.list(prefix, from).await?;
        page.names.iter_mut().for_each(|inspection| inspection.waiters = None);
        Ok(page)
    }
}

fn is_other_incarnation(answer: &Value) -> bool {
    let Value::Array(words) = answer else { return false };
    matches!(&words[..], [Value::BulkString(word)] if word == b"other-incarnation")
}

/// A server's databases share one vote.
fn short(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    if scheme.contains("unix") {
        return rest.split('?').next().unwrap_or(rest).to_owned();
    }
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    rest[..end].to_owned()
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

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_node_is_reported_by_host_and_port() {
        for (url, address) in [
            ("redis://127.0.0.1:7001", "127.0.0.1:7001"),
            ("redis://me:***@db:7001/3?prefix=p:", "db:7001"),
            ("rediss://[::1]:7001/", "[::1]:7001"),
            ("redis+unix:///run/redis.sock?db=1", "/run/redis.sock"),
        ] {
            assert_eq!(short(url), address);
        }
    }
}
