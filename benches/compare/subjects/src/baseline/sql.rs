use std::hash::{DefaultHasher, Hash, Hasher};
use std::process;
use std::time::Duration;

use lockwright_bench_protocol::{Library, Result};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::pool::{Lent, Pool};
use super::{are_all, held, lost};

/// The number of connections for requests, as in Lockwright's pool.
const REQUESTS: usize = 4;

/// The number of a process's connections that hold contended names, or queue for them on the
/// server.
const IN_TURN: usize = 3;

const AGAIN: Duration = Duration::from_secs(1);

pub(super) trait Server: Sized + 'static {
    type Connection: 'static;

    fn new(url: &str) -> Result<Self>;

    async fn connect(&self) -> Result<Self::Connection>;

    /// Returns `false` if the name has a lease. With `in_turn`, first waits in the server's queue,
    /// which each [`Self::delete`] with `in_turn` advances.
    async fn insert(on: &mut Self::Connection, lease: &Lease<'_>, in_turn: bool) -> Result<bool>;

    /// Returns `false` if there was no lease.
    async fn delete(on: &mut Self::Connection, name: &str, in_turn: bool) -> Result<bool>;

    async fn renew(on: &mut Self::Connection, ttl: Duration) -> Result<u64>;

    async fn take(on: &mut Self::Connection, name: &str, waits: bool) -> Result<bool>;

    async fn free(on: &mut Self::Connection, name: &str) -> Result<bool>;

    async fn lock_row(on: &mut Self::Connection, name: &str) -> Result<()>;

    async fn unlock_row(on: &mut Self::Connection) -> Result<()>;

    async fn ping(on: &mut Self::Connection) -> Result<()>;
}

pub(super) struct Lease<'a> {
    pub(super) name: &'a str,
    pub(super) ttl: Duration,
}

enum Mode {
    Lease,
    Session,
    Row,
}

pub(super) struct Sql<S: Server> {
    server: S,
    mode: Mode,
    requests: Pool<S::Connection>,
    waiting: Pool<S::Connection>,
    holding: Pool<S::Connection>,
}

pub(super) enum Hold<C> {
    Lease(Box<str>),
    LeaseInTurn(Box<str>, Lent<C>),
    /// If `waited`, the connection is from the pool `waiting`, else from `holding`.
    Connection {
        name: Box<str>,
        lent: Mutex<Lent<C>>,
        waited: bool,
    },
}

impl<S: Server> Sql<S> {
    async fn lend(&self, pool: &Pool<S::Connection>) -> Result<Lent<S::Connection>> {
        pool.take(async || self.server.connect().await).await
    }

    async fn lock_with(&self, name: &str, waits: bool) -> Result<Hold<S::Connection>> {
        let pool = if waits { &self.waiting } else { &self.holding };
        let mut lent = self.lend(pool).await?;
        let on = &mut lent.connection;
        match self.mode {
            Mode::Row => S::lock_row(on, name).await?,
            _ if S::take(on, name, waits).await? => {}
            _ => return Err(held(name)),
        }
        Ok(Hold::Connection { name: name.into(), lent: lent.into(), waited: waits })
    }
}

impl<S: Server> Library for Sql<S> {
    type Hold = Hold<S::Connection>;

    async fn open(backend: &str, urls: &[String]) -> Result<Self> {
        let mode = match backend.split_once('-') {
            Some((_, "session")) => Mode::Session,
            Some((_, "row")) => Mode::Row,
            _ => Mode::Lease,
        };
        let baseline = Self {
            // The URL's `mode` is for Lockwright only.
            server: S::new(urls[0].split('?').next().unwrap_or_default())?,
            mode,
            requests: Pool::of(REQUESTS),
            waiting: Pool::of(IN_TURN),
            holding: Pool::unlimited(),
        };
        let alone = match baseline.mode {
            Mode::Lease => &baseline.requests,
            _ => &baseline.holding,
        };
        for pool in [alone, &baseline.waiting] {
            pool.give_back(baseline.lend(pool).await?);
        }
        Ok(baseline)
    }

    async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Self::Hold> {
        if !matches!(self.mode, Mode::Lease) {
            return self.lock_with(name, false).await;
        }
        let lease = Lease { name, ttl };
        let mut lent = self.lend(&self.requests).await?;
        let granted = S::insert(&mut lent.connection, &lease, false).await?;
        self.requests.give_back(lent);
        if granted { Ok(Hold::Lease(name.into())) } else { Err(held(name)) }
    }

    async fn lock(&self, name: &str, ttl: Duration) -> Result<Self::Hold> {
        if !matches!(self.mode, Mode::Lease) {
            return self.lock_with(name, true).await;
        }
        let lease = Lease { name, ttl };
        let mut lent = self.lend(&self.waiting).await?;
        let mut granted = S::insert(&mut lent.connection, &lease, true).await?;
        while !granted {
            sleep(AGAIN).await;
            granted = S::insert(&mut lent.connection, &lease, false).await?;
        }
        Ok(Hold::LeaseInTurn(name.into(), lent))
    }

    async fn unlock(&self, hold: Self::Hold) -> Result<()> {
        let (pool, lent, name, released) = match hold {
            Hold::Lease(name) => {
                let mut lent = self.lend(&self.requests).await?;
                let released = S::delete(&mut lent.connection, &name, false).await?;
                (&self.requests, lent, name, released)
            }
            Hold::LeaseInTurn(name, mut lent) => {
                let released = S::delete(&mut lent.connection, &name, true).await?;
                (&self.waiting, lent, name, released)
            }
            Hold::Connection { name, lent, waited } => {
                let mut lent = lent.into_inner();
                let on = &mut lent.connection;
                let released = match self.mode {
                    Mode::Row => S::unlock_row(on).await.map(|()| true)?,
                    _ => S::free(on, &name).await?,
                };
                (if waited { &self.waiting } else { &self.holding }, lent, name, released)
            }
        };
        pool.give_back(lent);
        if released { Ok(()) } else { Err(lost(&name)) }
    }

    async fn renew(&self, holds: &[Self::Hold], ttl: Duration) -> Result<()> {
        if matches!(self.mode, Mode::Lease) {
            let mut lent = self.lend(&self.requests).await?;
            let renewed = S::renew(&mut lent.connection, ttl).await?;
            self.requests.give_back(lent);
            return are_all(holds.len(), renewed as usize);
        }
        for hold in holds {
            if let Hold::Connection { lent, .. } = hold {
                S::ping(&mut lent.lock().await.connection).await?;
            }
        }
        Ok(())
    }
}

pub(super) fn token() -> i64 {
    i64::from(process::id())
}

/// Returns a hash that is equal in all processes.
pub(super) fn key(name: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish().cast_signed()
}
