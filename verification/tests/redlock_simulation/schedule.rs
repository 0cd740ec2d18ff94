use std::sync::Arc;
use std::time::Duration;

use lockwright_conformance::history::{History, Hold};
use lockwright_conformance::register::Register;
use lockwright_core::{Clock, Locks};
use tokio::time::{sleep, timeout};

use crate::chance::Chance;
use crate::client::{Stage, Task, connect};
use crate::network::{Net, Seen, tag};
use crate::plan::{ClientPlan, Plan, World};
use crate::trace::Trace;

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) problems: Vec<String>,
    pub(crate) holds: u64,
    pub(crate) contended: u64,
    pub(crate) lost: u64,
    pub(crate) writes_refused: u64,
    pub(crate) seen: Seen,
    pub(crate) trace: Trace,
}

impl Outcome {
    pub(crate) fn shows_something(&self) -> bool {
        self.contended > 0 && self.holds > 1 && self.seen.effects_of_faults > 0
    }
}

/// How long a grant may take without faults, in addition to the largest TTL. A client may pause up
/// to 1 s before it retries.
const BOUND: Duration = Duration::from_millis(1_300);

pub(crate) fn run(world: World, seed: u64, trace: Trace) -> Outcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(schedule(world, seed, trace))
}

async fn schedule(world: World, seed: u64, trace: Trace) -> Outcome {
    let mut chance = Chance::from(seed);
    let plan = Plan::new(world, &mut chance);
    let net = Net::new(&plan, chance.branch(), trace);
    net.note(|| format!("{plan:#?}"));
    let clock = Clock::tokio();
    let stage = Arc::new(Stage {
        net: Arc::clone(&net),
        history: History::default(),
        register: Register::default(),
        names: (0..plan.names).map(|number| format!("name{number}")).collect(),
        ttls: plan.ttls.clone(),
        horizon: clock.now() + plan.horizon,
        clock,
    });
    tokio::spawn(Arc::clone(&net).deliver());
    let mut clients = Vec::new();
    let mut tasks = Vec::new();
    for client in &plan.clients {
        let number = net.add_client();
        let locks = connect(&stage, &plan, number, *client, &mut chance).expect("a client");
        for _ in 0..client.tasks {
            let (stage, locks, chance) = (Arc::clone(&stage), locks.clone(), chance.branch());
            let task = tokio::spawn(Task { stage, client: number, locks, chance }.run());
            net.add_task(number, task.abort_handle());
            tasks.push(task);
        }
        clients.push(locks);
    }
    let mut problems = Vec::new();
    stage.clock.sleep_until(stage.horizon).await;
    net.mend();
    for task in tasks {
        match timeout(plan.largest_ttl * 5, task).await {
            Ok(Err(error)) if error.is_panic() => {
                problems.push(format!("a task panicked: {error}"))
            }
            Ok(_) => {}
            Err(_) => problems.push("a task waits for ever".to_owned()),
        }
    }
    problems.extend(violations(&stage.history));
    problems.extend(aftermath(&stage, &plan, &clients, &mut chance).await);
    let refused = stage.names.iter().map(|name| stage.register.counts(name).refused as u64);
    let lost = clients.iter().map(|locks| locks.metrics().lost).sum();
    let (seen, trace) = net.finish();
    Outcome {
        problems,
        holds: stage.history.holds().len() as u64,
        contended: stage.history.contended() as u64,
        lost,
        writes_refused: refused.sum(),
        seen,
        trace,
    }
}

async fn aftermath(
    stage: &Stage,
    plan: &Plan,
    clients: &[Locks],
    chance: &mut Chance,
) -> Vec<String> {
    let mut problems = Vec::new();
    let net = &stage.net;
    // The client that first sees a node's new incarnation lets the node vote only after the largest
    // TTL.
    let bound = BOUND + plan.largest_ttl * 101 / 100;
    for (number, locks) in clients.iter().enumerate().filter(|(number, _)| net.is_alive(*number)) {
        if timeout(plan.largest_ttl * 3, locks.close()).await.is_err() {
            problems.push(format!("client {number} doesn't come to its end"));
        }
        let counted = locks.metrics();
        if counted.held + counted.releasing > 0 {
            problems.push(format!("client {number} still holds something: {counted:?}"));
        }
    }
    sleep(plan.largest_ttl).await;
    net.note(|| "a fresh client comes".to_owned());
    let sane = ClientPlan { tasks: 1, skews: [0, 0], steps_at: 0 };
    let fresh: Vec<Locks> = (0..2)
        .map(|_| connect(stage, plan, net.add_client(), sane, chance).expect("a client"))
        .collect();
    for name in &stage.names {
        match fresh[0].mutex(name).wait_for(bound).acquire().await {
            Ok(guard) => {
                if let Err(error) = guard.release().await {
                    problems.push(format!("{name} can't be released: {error}"));
                }
            }
            Err(error) => problems.push(format!("{name} is stuck: {error}")),
        }
    }
    // Failed and cancelled requests must leave no hold.
    let (held, other) = (fresh[0].mutex("name0").acquire().await, fresh[1].mutex("name0"));
    if let Ok(Some(_)) = other.try_acquire().await {
        problems.push("two hold at once in the end".to_owned());
    }
    let other = fresh[1].mutex("name0").acquire();
    let _ = timeout(chance.time(Duration::from_millis(10)), other).await;
    match held {
        Ok(guard) => drop(guard.release().await),
        Err(error) => problems.push(format!("name0 is stuck: {error}")),
    }
    for _ in 0..3 {
        let asked = [fresh[0].mutex("name0").acquire(), fresh[1].mutex("name0").acquire()];
        let patience = chance.time(Duration::from_millis(6));
        let asked = asked.map(|asked| timeout(patience, asked));
        let [first, second] = asked;
        let (first, second) = tokio::join!(first, second);
        drop((first, second));
    }
    for locks in &fresh {
        if timeout(plan.largest_ttl, locks.close()).await.is_err() {
            problems.push("a fresh client doesn't come to its end".to_owned());
        }
    }
    // The pause suffices for late releases, but not for the expiry of an abandoned lock.
    sleep(plan.largest_ttl / 10).await;
    for (node, name, token) in net.locked() {
        problems.push(format!("{name} is left on node {node}, by {}", tag(token)));
    }
    problems
}

fn violations(history: &History) -> Vec<String> {
    let mut found: Vec<String> =
        history.check(true).iter().map(|violation| violation.to_string()).collect();
    if found.is_empty() {
        // Fences must follow the order of grants only if no two holds overlapped.
        found.extend(out_of_order(&history.holds()));
    }
    // The checker's order of names is unspecified.
    found.sort();
    found
}

fn out_of_order(holds: &[Hold]) -> Option<String> {
    holds.iter().enumerate().find_map(|(at, later)| {
        let before = &holds[..at];
        let same = |before: &&Hold| before.name == later.name && before.granted < later.granted;
        let highest = before.iter().filter(same).max_by_key(|before| before.fence)?;
        (highest.fence > later.fence).then(|| {
            format!(
                "out of order: {} had fence {}, and {} later {}",
                highest.who, highest.fence, later.who, later.fence
            )
        })
    })
}
