use std::fmt::Debug;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use lockwright_core::backend_util::lock;
use lockwright_interop::{LIMIT, Peer, SILENCE, Side};

/// The TTL of a lease or session, in whole seconds.
pub(crate) const TTL: Duration = Duration::from_secs(3);

/// A function that starts the other program. `ttl` is in seconds.
pub(crate) type Start = fn(ttl: &str, servers: &str) -> Peer;

/// The server on which both sides lock.
pub(crate) trait Server: Debug + Send + Sync {
    fn url(&self) -> String;

    fn servers(&self) -> String;

    /// Returns the other program's name for Lockwright's lock `name`. `name` has no characters to
    /// escape.
    fn in_their_words(&self, name: &str) -> String;

    /// Returns the URL and the name with which Lockwright locks the other program's `name/child`.
    fn below(&self, name: &str, child: &str) -> (String, String);

    /// Returns the queue's keys or nodes. `name` is the other program's name for the lock.
    fn queue(&self, name: &str) -> Vec<String>;

    /// Returns the least time after which the queue entry `place` expires if its client dies now.
    fn runs_out_in(&self, place: &str) -> Duration;
}

/// A shared server, which runs while any test uses it.
pub(crate) struct Shared<S>(Mutex<Weak<S>>);

impl<S> Shared<S> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    pub(crate) fn get(&self, start: impl FnOnce() -> S) -> Arc<S> {
        let mut shared = lock(&self.0);
        let server = shared.upgrade().unwrap_or_else(|| Arc::new(start()));
        *shared = Arc::downgrade(&server);
        server
    }
}

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) server: Arc<dyn Server>,
    start: Start,
    pub(crate) name: String,
}

impl Scene {
    pub(crate) fn of(server: Arc<dyn Server>, start: Start) -> Self {
        static SCENES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("orders-{}", SCENES.fetch_add(1, Ordering::Relaxed));
        Self { server, start, name }
    }

    pub(crate) fn client(&self, side: Side) -> Client {
        match side {
            Side::Ours => Client::of_ours(&self.server.url(), self.name.clone()),
            Side::Theirs => self.theirs(&self.name),
        }
    }

    /// Starts a client that locks the other program's `name/child`.
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

    pub(crate) fn holder(&self, side: Side) -> Client {
        let mut client = self.client(side);
        client.acquire();
        client
    }

    pub(crate) fn waiter(&self, side: Side) -> Client {
        let before = self.queue().len();
        let mut client = self.client(side);
        client.wait();
        self.queue_until("it is queued", |queue| queue.len() == before + 1);
        client
    }

    pub(crate) fn queue(&self) -> Vec<String> {
        self.server.queue(&self.server.in_their_words(&self.name))
    }

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

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    pub(crate) name: String,
}

impl Client {
    fn of_ours(url: &str, name: String) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interop-ours"));
        command.args([url, &TTL.as_millis().to_string()]);
        Self { peer: Peer::start(command), name }
    }

    pub(crate) fn wait(&mut self) {
        self.peer.send(&format!("wait {}", self.name));
    }

    pub(crate) fn is_granted(&mut self) {
        assert_eq!(self.peer.answer(), "yes");
    }

    pub(crate) fn acquire(&mut self) {
        self.wait();
        self.is_granted();
    }

    pub(crate) fn attempt(&mut self) -> String {
        self.peer.ask(&format!("try {}", self.name))
    }

    pub(crate) fn is_waiting(&mut self) {
        assert!(self.peer.is_silent_for(SILENCE));
    }

    pub(crate) fn release(&mut self) {
        assert_eq!(self.ask_to_release(), "released");
    }

    pub(crate) fn ask_to_release(&mut self) -> String {
        self.peer.ask(&format!("release {}", self.name))
    }
}
