//! Ours and theirs on a server.

use std::fmt::Debug;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use lockwright_interop::{LIMIT, Peer, Side};

/// As long as it takes for what must not happen to happen.
pub(crate) const MOMENT: Duration = Duration::from_millis(300);

/// How long a lease or session of a test lives that isn't renewed; whole seconds.
pub(crate) const TTL: Duration = Duration::from_secs(3);

/// Another program, which has a lease or session of this life on these servers.
pub(crate) type Start = fn(ttl: &str, servers: &str) -> Peer;

/// Where both lock. Tests share it.
pub(crate) trait Server: Debug + Send + Sync {
    /// How ours connect.
    fn url(&self) -> String;

    /// How theirs connect.
    fn servers(&self) -> String;

    /// What theirs call the lock that ours call so; nothing in it needs to be escaped.
    fn in_their_words(&self, name: &str) -> String;

    /// How ours connect, and what they call the lock then, if theirs call it by this and `/` and that.
    fn below(&self, name: &str, child: &str) -> (String, String);

    /// The places in the queue, by what theirs call the lock; the first comes first.
    fn queue(&self, name: &str) -> Vec<String>;

    /// The least time in which this place goes if whoever has it, and renewed it for a life of
    /// [`TTL`], is dead.
    fn runs_out_in(&self, place: &str) -> Duration;
}

/// A server that lives as long as a test has it, and no longer.
pub(crate) struct Shared<S>(Mutex<Weak<S>>);

impl<S> Shared<S> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// The one that other tests have, if there is one now.
    pub(crate) fn get(&self, start: impl FnOnce() -> S) -> Arc<S> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let server = shared.upgrade().unwrap_or_else(|| Arc::new(start()));
        *shared = Arc::downgrade(&server);
        server
    }
}

/// One lock, and who may lock it.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) server: Arc<dyn Server>,
    start: Start,
    /// What ours call the lock. No other test has it.
    pub(crate) name: String,
}

impl Scene {
    pub(crate) fn of(server: Arc<dyn Server>, start: Start) -> Self {
        static SCENES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("orders-{}", SCENES.fetch_add(1, Ordering::Relaxed));
        Self { server, start, name }
    }

    /// A program of this side, in a process of its own.
    pub(crate) fn client(&self, side: Side) -> Client {
        match side {
            Side::Ours => Client::of_ours(&self.server.url(), self.name.clone()),
            Side::Theirs => self.theirs(&self.name),
        }
    }

    /// A program of this side that locks a child of the lock's name, as theirs have such.
    pub(crate) fn client_below(&self, side: Side, child: &str) -> Client {
        match side {
            Side::Ours => {
                let (url, name) = self.server.below(&self.name, child);
                Client::of_ours(&url, name)
            }
            Side::Theirs => self.theirs(&format!("{}/{child}", self.name)),
        }
    }

    fn theirs(&self, name: &str) -> Client {
        let peer = (self.start)(&TTL.as_secs().to_string(), &self.server.servers());
        Client { peer, name: self.server.in_their_words(name) }
    }

    /// A program of this side that has the lock.
    pub(crate) fn holder(&self, side: Side) -> Client {
        let mut client = self.client(side);
        client.acquire();
        client
    }

    /// A program of this side that stands in the queue, as the last one.
    pub(crate) fn waiter(&self, side: Side) -> Client {
        let before = self.queue().len();
        let mut client = self.client(side);
        client.wait();
        self.queue_until("it is queued", |queue| queue.len() == before + 1);
        client
    }

    /// The places in the lock's queue.
    pub(crate) fn queue(&self) -> Vec<String> {
        self.server.queue(&self.server.in_their_words(&self.name))
    }

    /// Waits until the queue is so.
    pub(crate) fn queue_until(&self, what: &str, so: impl Fn(&[String]) -> bool) {
        let begun = Instant::now();
        loop {
            let queue = self.queue();
            if so(&queue) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{what}: {queue:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A program that locks the lock of a scene.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    /// What it calls the lock.
    pub(crate) name: String,
}

impl Client {
    fn of_ours(url: &str, name: String) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interop-ours"));
        command.args([url, &TTL.as_millis().to_string()]);
        Self { peer: Peer::start(command), name }
    }

    /// Begins to wait for the lock.
    pub(crate) fn wait(&mut self) {
        self.peer.send(&format!("wait {}", self.name));
    }

    /// It has what it waited for.
    pub(crate) fn is_granted(&mut self) {
        assert_eq!(self.peer.answer(), "yes");
    }

    pub(crate) fn acquire(&mut self) {
        self.wait();
        self.is_granted();
    }

    /// One attempt.
    pub(crate) fn attempt(&mut self) -> String {
        self.peer.ask(&format!("try {}", self.name))
    }

    pub(crate) fn is_waiting(&mut self) {
        assert!(self.peer.is_silent_for(MOMENT));
    }

    pub(crate) fn release(&mut self) {
        assert_eq!(self.ask_to_release(), "released");
    }

    pub(crate) fn ask_to_release(&mut self) -> String {
        self.peer.ask(&format!("release {}", self.name))
    }
}
