use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, Error, EventType, GetOptions, LeaseKeepAliveStream,
    LeaseKeeper, PutOptions, Txn, TxnOp, WatchOptions, WatchStream,
};
use lockwright_bench_protocol::{Library, Result};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::interval;

use super::{held, lost, servers};

const PREFIX: &str = "bench-baseline/";

const END: char = '\0';

pub(super) struct Etcd {
    client: Client,
    lease: OnceCell<i64>,
    queues: OnceCell<Arc<Mutex<Queues>>>,
    asked: Cell<u64>,
}

#[derive(Default)]
struct Queues {
    keys: HashMap<String, BTreeMap<i64, String>>,
    waiting: HashMap<String, oneshot::Sender<()>>,
    /// The revision at which `keys` was read; the watch's earlier events are skipped.
    revision: i64,
}

impl Etcd {
    async fn lease(&self, ttl: Duration) -> Result<i64> {
        let begin = async || {
            let mut client = self.client.clone();
            let seconds = ttl.as_millis().div_ceil(1000) as i64;
            let id = client.lease_grant(seconds, None).await?.id();
            let (keeper, answers) = client.lease_keep_alive(id).await?;
            tokio::spawn(keep(keeper, answers, ttl / 3));
            Ok::<_, Error>(id)
        };
        Ok(*self.lease.get_or_try_init(begin).await?)
    }

    async fn queues(&self) -> Result<&Arc<Mutex<Queues>>> {
        let begin = async || {
            let mut client = self.client.clone();
            let mut watch = client.watch(PREFIX, Some(WatchOptions::new().with_prefix())).await?;
            watch.message().await?;
            let there = client.get(PREFIX, Some(GetOptions::new().with_prefix().with_keys_only()));
            let there = there.await?;
            let mut queues = Queues {
                revision: there.header().map_or(0, |header| header.revision()),
                ..Queues::default()
            };
            for entry in there.kvs() {
                queues.came(entry.key_str()?, entry.create_revision());
            }
            let queues = Arc::new(Mutex::new(queues));
            tokio::spawn(follow(watch, Arc::clone(&queues)));
            Ok::<_, Error>(queues)
        };
        Ok(self.queues.get_or_try_init(begin).await?)
    }
}

impl Library for Etcd {
    type Hold = Box<str>;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        // The client connects to only one member, as Lockwright does.
        let member = servers(urls).split(',').next();
        let options = ConnectOptions::new().with_require_leader(true);
        let mut client = Client::connect(member.as_slice(), Some(options)).await?;
        client.get(PREFIX, None).await?;
        Ok(Self { client, lease: OnceCell::new(), queues: OnceCell::new(), asked: Cell::new(0) })
    }

    async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Box<str>> {
        let options = PutOptions::new().with_lease(self.lease(ttl).await?);
        let key = format!("{PREFIX}{name}{END}");
        let put = Txn::new()
            .when([Compare::create_revision(&*key, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(&*key, "", Some(options))]);
        if self.client.clone().txn(put).await?.succeeded() {
            Ok(key.into())
        } else {
            Err(held(name))
        }
    }

    async fn lock(&self, name: &str, ttl: Duration) -> Result<Box<str>> {
        let options = PutOptions::new().with_lease(self.lease(ttl).await?);
        let queues = self.queues().await?;
        let number = self.asked.get();
        self.asked.set(number + 1);
        let key = format!("{PREFIX}{name}{END}{}/{number}", process::id());
        let (front, in_front) = oneshot::channel();
        // Insert the waiter before the key exists, so that it misses no event.
        locked(queues).waiting.insert(key.clone(), front);
        self.client.clone().put(&*key, "", Some(options)).await?;
        in_front.await?;
        Ok(key.into())
    }

    async fn unlock(&self, key: Box<str>) -> Result<()> {
        let deleted = self.client.clone().delete(&*key, None).await?.deleted();
        if deleted == 1 { Ok(()) } else { Err(lost(&key)) }
    }
}

impl Queues {
    fn came(&mut self, key: &str, revision: i64) {
        let Some(name) = name_of(key) else { return };
        self.keys.entry(name.to_owned()).or_default().insert(revision, key.to_owned());
        self.look(name);
    }

    fn went(&mut self, key: &str) {
        let Some(name) = name_of(key) else { return };
        if let Some(queue) = self.keys.get_mut(name) {
            queue.retain(|_, other| other != key);
        }
        self.look(name);
    }

    fn look(&mut self, name: &str) {
        let front = self.keys.get(name).and_then(BTreeMap::first_key_value);
        if let Some((_, key)) = front
            && let Some(waiter) = self.waiting.remove(key)
        {
            let _ = waiter.send(());
        }
    }
}

async fn keep(
    mut keeper: LeaseKeeper,
    mut answers: LeaseKeepAliveStream,
    pause: Duration,
) -> Result<(), Error> {
    let mut ticks = interval(pause);
    loop {
        ticks.tick().await;
        keeper.keep_alive().await?;
        if answers.message().await?.is_none() {
            return Ok(());
        }
    }
}

async fn follow(mut watch: WatchStream, queues: Arc<Mutex<Queues>>) -> Result<(), Error> {
    while let Some(message) = watch.message().await? {
        let mut queues = locked(&queues);
        for event in message.events() {
            let Some(entry) = event.kv() else { continue };
            if entry.mod_revision() <= queues.revision {
                continue;
            }
            match event.event_type() {
                EventType::Put => queues.came(entry.key_str()?, entry.create_revision()),
                EventType::Delete => queues.went(entry.key_str()?),
            }
        }
    }
    Ok(())
}

fn name_of(key: &str) -> Option<&str> {
    key.strip_prefix(PREFIX)?.split(END).next()
}

fn locked(queues: &Mutex<Queues>) -> std::sync::MutexGuard<'_, Queues> {
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}
