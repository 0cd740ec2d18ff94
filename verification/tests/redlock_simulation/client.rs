//! A simulated process with the real Redlock backend and core client. It sometimes writes after the
//! end of its hold, as a faulty program would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockwright_conformance::history::{self, History};
use lockwright_conformance::register::Register;
use lockwright_core::{BootInstant, Clock, Guard, Locks, Mode, Result, Signal, Token, TokenSource};
use lockwright_redlock::{Options, Redlock};
use tokio::time::timeout;

use crate::chance::Chance;
use crate::network::{Net, NetLink, tag};
use crate::node::SimulatedNode;
use crate::plan::{ClientPlan, Plan};

/// The wall clocks' time at the start: a day in 2026, in microseconds since 1970.
const EPOCH: u64 = 1_790_000_000_000_000;

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) net: Arc<Net>,
    pub(crate) clock: Clock,
    pub(crate) history: History,
    pub(crate) register: Register,
    pub(crate) names: Vec<String>,
    pub(crate) ttls: Vec<Duration>,
    pub(crate) horizon: BootInstant,
}

pub(crate) fn connect(
    stage: &Stage,
    plan: &Plan,
    number: usize,
    clocks: ClientPlan,
    chance: &mut Chance,
) -> Result<Locks> {
    let nodes = (0..plan.nodes.len()).map(|node| {
        let link = NetLink { net: Arc::clone(&stage.net), client: number, node };
        SimulatedNode::over(Arc::new(link), node)
    });
    let net = Arc::clone(&stage.net);
    let wall_clock = move || {
        let now = net.now();
        let skew = clocks.skews[usize::from(now >= clocks.steps_at)];
        (EPOCH + now).saturating_add_signed(skew)
    };
    let options = Options::new()
        .largest_ttl(plan.largest_ttl)
        .node_timeout(plan.node_timeout)
        .clock(stage.clock.clone())
        .jitter_seed(chance.next())
        .wall_clock(wall_clock);
    let made = AtomicU32::new(0);
    let tokens = TokenSource::from_fn(move || {
        let mut bytes = [0; 16];
        bytes[0] = number as u8;
        bytes[1..5].copy_from_slice(&made.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        Token::from_bytes(bytes)
    });
    Locks::builder(Redlock::new(nodes.collect(), options)?)
        .ttl(plan.ttls[0])
        .clock(stage.clock.clone())
        .tokens(tokens)
        .jitter_seed(chance.next())
        .build()
}

pub(crate) struct Task {
    pub(crate) stage: Arc<Stage>,
    pub(crate) client: usize,
    pub(crate) locks: Locks,
    pub(crate) chance: Chance,
}

impl Task {
    pub(crate) async fn run(mut self) {
        let stage = Arc::clone(&self.stage);
        while stage.clock.now() < stage.horizon {
            self.one_hold().await;
            let longest = if self.chance.one_in(6) { 200 } else { 25 };
            self.pass(Duration::from_millis(self.chance.clone().below(longest))).await;
            self.chance.next();
        }
    }

    async fn one_hold(&mut self) {
        let stage = Arc::clone(&self.stage);
        let number = self.chance.below(stage.names.len() as u64);
        let name = stage.names[number as usize].clone();
        let ttl = self.chance.pick(&stage.ttls);
        let invoked = stage.clock.now();
        let Some(guard) = self.ask(&name, ttl).await else { return };
        let mut hold = Hold::begin(Arc::clone(&stage), self.client, name, invoked, guard);
        let steps =
            if self.chance.one_in(4) { self.chance.below(12) } else { self.chance.below(3) };
        for _ in 0..steps {
            stage.net.resumed(self.client).await;
            if !hold.is_valid() || stage.clock.now() >= stage.horizon {
                break;
            }
            self.write(&hold, ttl).await;
            if self.chance.one_in(10) {
                let patience = self.chance.time(ttl / 4);
                let _ = timeout(patience, hold.guard().renew()).await;
            }
            let pause =
                self.chance.time(if self.chance.clone().one_in(3) { ttl / 3 } else { ttl / 30 });
            hold.pass(pause).await;
        }
        stage.net.resumed(self.client).await;
        let guard = hold.end();
        match self.chance.below(4) {
            0 => drop(guard),
            1 => drop(timeout(self.chance.time(ttl / 20), guard.release()).await),
            _ => drop(guard.release().await),
        }
    }

    /// Acquires the lock by a random method. Sometimes drops the request.
    async fn ask(&mut self, name: &str, ttl: Duration) -> Option<Guard> {
        let mut request = self.locks.mutex(name).ttl(ttl);
        if self.chance.one_in(6) {
            request = request.fixed();
        }
        let patience = self.chance.time(ttl * 2);
        match self.chance.below(8) {
            0 => request.try_acquire().await.ok().flatten(),
            1 => {
                let pause = self.chance.time(ttl / 5);
                request.retry(3, pause).acquire().await.ok()
            }
            2 | 3 => {
                let soon = if self.chance.one_in(2) { ttl / 40 } else { ttl };
                let dropped_after = self.chance.time(soon);
                timeout(dropped_after, request.acquire()).await.ok()?.ok()
            }
            _ => request.wait_for(patience).acquire().await.ok(),
        }
    }

    /// Checks the hold, and then writes, sometimes too late.
    async fn write(&mut self, hold: &Hold, ttl: Duration) {
        if hold.guard().check().is_err() {
            return;
        }
        if self.chance.one_in(12) {
            tokio::time::sleep(self.chance.time(ttl * 2)).await;
            self.stage.net.resumed(self.client).await;
        }
        let guard = hold.guard();
        let accepted = self.stage.register.write_to(guard.name(), guard.fence());
        self.stage.net.note(|| {
            let outcome = if accepted { "accepted" } else { "refused" };
            format!("write {} {} F={}: {outcome}", guard.name(), tag(guard.token()), guard.fence())
        });
    }

    async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
        self.stage.net.resumed(self.client).await;
    }
}

/// A hold from its grant to its end, its reported loss, or its deadline. `end` or `drop` adds the
/// hold to the history.
struct Hold {
    stage: Arc<Stage>,
    client: usize,
    name: String,
    invoked: BootInstant,
    granted: BootInstant,
    guard: Option<Guard>,
    signal: Signal,
    told_lost: Option<BootInstant>,
}

impl Hold {
    fn begin(
        stage: Arc<Stage>,
        client: usize,
        name: String,
        invoked: BootInstant,
        guard: Guard,
    ) -> Self {
        let granted = stage.clock.now();
        stage.net.note(|| format!("GRANTED {name} {} F={}", tag(guard.token()), guard.fence()));
        let signal = guard.signal();
        let guard = Some(guard);
        Self { stage, client, name, invoked, granted, guard, signal, told_lost: None }
    }

    fn guard(&self) -> &Guard {
        self.guard.as_ref().expect("it has its guard until it ends")
    }

    fn is_valid(&mut self) -> bool {
        let lost = self.guard().check().is_err();
        if lost {
            self.told_lost.get_or_insert(self.stage.clock.now());
        }
        !lost
    }

    async fn pass(&mut self, time: Duration) {
        if timeout(time, self.signal.ended()).await.is_ok() {
            self.told_lost.get_or_insert(self.stage.clock.now());
        }
    }

    fn end(mut self) -> Guard {
        self.record();
        self.guard.take().expect("it has its guard until it ends")
    }

    fn record(&mut self) {
        let Some(guard) = &self.guard else { return };
        let now = self.stage.clock.now();
        let ended = now.min(guard.deadline()).min(self.told_lost.unwrap_or(now));
        self.stage.net.note(|| {
            let how = if ended < now {
                format!(", lost {:?} ago", now.saturating_since(ended))
            } else {
                String::new()
            };
            format!("ENDED {} {}{how}", self.name, tag(guard.token()))
        });
        self.stage.history.add(history::Hold {
            who: format!("{} of client {}", tag(guard.token()), self.client),
            name: self.name.clone(),
            mode: Mode::Exclusive,
            token: guard.token(),
            fence: guard.fence(),
            asked: self.invoked,
            granted: self.granted,
            until: ended,
        });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.record();
    }
}
