//! A backend with a well-known bug, which the history checker finds and draws.
//!
//! `cargo run -p lockwright-conformance --features paused --example history > run.svg`

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use lockwright_conformance::Faulty;
use lockwright_conformance::faults::{Fate, Op};
use lockwright_conformance::history::journal::{Entry, Event, Journal};
use lockwright_conformance::history::{Rules, check, timeline};
use lockwright_conformance::register::Register;
use lockwright_core::*;
use lockwright_memory::Memory;

const NAME: &str = "orders/42";
const TTL: Duration = Duration::from_secs(2);

/// A backend whose release deletes any hold of the name, like a plain `DEL` on Redis.
#[derive(Debug, Clone)]
struct Careless(Memory);

#[async_trait]
impl DistributedLock for Careless {
    delegate!(|this| this.0; profile, attach, acquire, renew, inspect, list, doctor);

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let mut claim = claim.clone();
        let holders = self.0.inspect(&claim.name).await?.holders;
        if let Some(token) = holders.first().and_then(|holder| holder.token) {
            claim.token = token;
        }
        self.0.release(&claim, release_mode).await
    }
}

struct Client {
    locks: Locks,
    register: Register,
    journal: Journal,
    clock: Clock,
}

impl Client {
    /// Waits for the lock, holds it for `time` or until it is lost, and releases it.
    async fn work(&self, request: u64, time: Duration) {
        let (name, mode) = (NAME.to_owned(), Mode::Exclusive);
        self.journal.write(Event::Asked { request, name, mode, waits: true, owner: None });
        let guard = match self.locks.mutex(NAME).acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                return self.journal.write(Event::Failed { request, error: error.to_string() });
            }
        };
        let (token, fence) = (guard.token(), guard.fence());
        let mut deadline = guard.deadline();
        self.journal.write(Event::Granted { request, token, fence, deadline });
        let until = self.clock.now() + time;
        while self.clock.now() < until {
            if let Err(error) = guard.check() {
                let reason = error.lost_reason().unwrap_or(Reason::Gone);
                return self.journal.write(Event::Lost { token, reason });
            }
            if guard.deadline() != deadline {
                // Record the deadline before relying on it, so that the entry survives `kill -9`.
                deadline = guard.deadline();
                self.journal.write(Event::Renewed { token, deadline });
            }
            let accepted = self.register.write_to(NAME, fence);
            self.journal.write(Event::Wrote { token, fence, accepted, late: false });
            self.clock.sleep(Duration::from_millis(400)).await;
        }
        self.journal.write(Event::Releasing { token });
        let _ = guard.release().await;
    }
}

fn tokens(client: u8) -> TokenSource {
    let count = AtomicU8::new(0);
    TokenSource::from_fn(move || {
        let mut token = [client; 16];
        token[0] = count.fetch_add(1, Ordering::Relaxed);
        Token::from_bytes(token)
    })
}

/// Runs three clients. The network delays Ann's release until Ben holds the lock.
async fn run() -> Vec<Entry> {
    let clock = Clock::tokio();
    let journal = Journal::in_memory("runner", clock.clone());
    let register = Register::default();
    let server = Careless(Memory::with_clock(clock.clone()));
    let open = |who: &str, seed: u8| {
        let network = Faulty::new(Arc::new(server.clone()), clock.clone());
        let builder = Locks::builder(network.clone()).ttl(TTL).clock(clock.clone());
        // Seeds are fixed, because a test compares the picture with a recorded one.
        let builder = builder.jitter_seed(seed.into()).tokens(tokens(seed));
        let locks = builder.build().expect("the settings are valid");
        let (register, journal, clock) = (register.clone(), journal.of(who), clock.clone());
        (network, Client { locks, register, journal, clock })
    };
    let (network, ann) = open("ann", 1);
    let ((_, ben), (_, cleo)) = (open("ben", 2), open("cleo", 3));
    network.next(Op::Release, [Fate::DelayRequest(TTL * 3 / 2)]);
    let delay = |begins, effect| {
        let (fault, target) = ("delay".to_owned(), "ann's release".to_owned());
        journal.write(Event::Fault { fault, target, begins, effect });
    };
    let faults = async {
        network.called(Op::Release, 1).await;
        delay(true, None);
        network.settled().await;
        delay(false, Some("it arrived 3 s late".to_owned()));
    };
    let second = Duration::from_secs(1);
    let ben = async {
        clock.sleep(second / 2).await;
        ben.work(1, second * 4).await;
    };
    let cleo = async {
        clock.sleep(second * 3 / 2).await;
        cleo.work(1, second * 2).await;
    };
    tokio::join!(ann.work(1, second), ben, cleo, faults);
    journal.entries()
}

pub(crate) fn picture() -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let entries = runtime.block_on(run());
    let checked = check(&entries, &Rules::default());
    eprintln!("{}", checked.figures);
    for violation in &checked.violations {
        eprintln!("VIOLATION: {violation}");
    }
    timeline(&entries, &checked.violations)
}

#[allow(dead_code, reason = "a test includes this file, and has a main of its own")]
fn main() {
    print!("{}", picture());
}
