use std::fmt;
use std::time::Duration;

use lockwright::Profile;
use lockwright_conformance::workload::{self, Random, Work};

use crate::configuration::Configuration;
use crate::faults::{Fault, Promise};

/// The version of the plans. Increase it if a change of this file, the workload or the applicable
/// faults gives a seed a different plan.
pub(crate) const fn version(configuration: Configuration) -> u32 {
    match configuration {
        Configuration::ZooKeeper => 2,
        _ => 1,
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) configuration: Configuration,
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    pub(crate) clients: Vec<workload::Plan>,
    pub(crate) faults: Vec<Planned>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) fault: Fault,
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) pick: usize,
}

pub(crate) fn hits_the_leader(pick: usize) -> bool {
    pick.is_multiple_of(2)
}

/// Clients pass lower parts to [`Random::of`], so the draws are independent.
const PART: u64 = 1 << 40;

impl Schedule {
    pub(crate) fn draw(
        configuration: Configuration,
        profile: &Profile,
        seed: u64,
        allowed: &[Fault],
    ) -> Self {
        let mut random = Random::of(seed, PART + configuration as u64);
        let ttl = configuration.ttl().max(*profile.ttl.start());
        let faults = draw_faults(&mut random, configuration, ttl, allowed);
        let last = faults.iter().map(|one| one.at + one.lasts).max().unwrap_or_default();
        let drawn = random.time(Duration::from_millis(3_000), Duration::from_millis(4_500));
        let duration = drawn.max(last + ttl);
        let clients = draw_clients(&mut random, profile, seed, configuration, (ttl, duration));
        Self { configuration, seed, duration, clients, faults }
    }

    pub(crate) fn prefix(&self) -> String {
        prefix(self.configuration, self.seed)
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.clients[0].ttl
    }

    pub(crate) fn promise_under(&self, one: &Planned, profile: &Profile) -> Promise {
        one.fault.promise(self.configuration, profile, hits_the_leader(one.pick))
    }

    pub(crate) fn promise(&self, profile: &Profile) -> Promise {
        let each = self.faults.iter().map(|one| self.promise_under(one, profile));
        let promise = each.fold(Promise::KEPT, Promise::and);
        let has = |fault| self.faults.iter().any(|one| one.fault == fault);
        // After a data loss, fences come from the server's clock, and repeat if it steps back.
        let repeats = has(Fault::ClockBack) && has(Fault::ServerDataLost);
        Promise { fences: promise.fences && !repeats, ..promise }
    }
}

fn prefix(configuration: Configuration, seed: u64) -> String {
    format!("chaos-{configuration}-{seed}-")
}

fn draw_faults(
    random: &mut Random,
    configuration: Configuration,
    ttl: Duration,
    allowed: &[Fault],
) -> Vec<Planned> {
    let mut left: Vec<Fault> =
        allowed.iter().copied().filter(|fault| fault.applies_to(configuration)).collect();
    let count = (1 + random.below(3)).min(left.len() as u64);
    let mut at = Duration::ZERO;
    let mut faults = Vec::new();
    for _ in 0..count {
        let fault = *random.one_of(&left);
        left.retain(|other| *other != fault && !excludes(configuration, fault, *other));
        at += random.time(Duration::from_millis(300), Duration::from_millis(900));
        let lasts = fault.lasts(ttl);
        let [low, high] = [*lasts.start(), *lasts.end()].map(Duration::from_millis);
        let lasts = random.time(low, high);
        faults.push(Planned { fault, at, lasts, pick: random.below(1 << 16) as usize });
        at += if fault.is_a_clients() { Duration::ZERO } else { lasts };
        if left.is_empty() {
            break;
        }
    }
    faults
}

fn excludes(configuration: Configuration, one: Fault, other: Fault) -> bool {
    // Network faults need a master behind a proxy, which Sentinels never replace. So a schedule has
    // either network faults or other faults of servers.
    configuration == Configuration::RedisSentinel
        && one.is_on_the_way() != other.is_on_the_way()
        && !one.is_a_clients()
        && !other.is_a_clients()
}

fn draw_clients(
    random: &mut Random,
    profile: &Profile,
    seed: u64,
    configuration: Configuration,
    (ttl, duration): (Duration, Duration),
) -> Vec<workload::Plan> {
    let all = Work::all_for(profile);
    let prefix = prefix(configuration, seed);
    let names: Vec<String> =
        (0..2 + random.below(2)).map(|number| format!("{prefix}{number}")).collect();
    (0..3 + random.below(2) as u32)
        .map(|process| {
            let mut work = vec![Work::Mutex; 3];
            work.extend((0..2 + random.below(2)).map(|_| *random.one_of(&all)));
            let (names, watches) = (names.clone(), true);
            workload::Plan { seed, process, names, ttl, duration, work, watches }
        })
        .collect()
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (duration, ttl) = (self.duration.as_secs_f64(), self.ttl().as_secs_f64());
        let names = self.clients[0].names.len();
        write!(
            f,
            "{} seed {}: {duration:.1} s, TTL {ttl} s, {names} locks",
            self.configuration, self.seed
        )?;
        for client in &self.clients {
            write!(f, "; client {} {:?}", client.process, client.work)?;
        }
        for Planned { fault, at, lasts, pick } in &self.faults {
            let (at, lasts) = (at.as_secs_f64(), lasts.as_secs_f64());
            write!(f, "; {fault} ({pick}) at {at:.2} s for {lasts:.2} s")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64) -> String {
        let (configuration, profile) = (Configuration::Redis, Profile::new("redis"));
        Schedule::draw(configuration, &profile, seed, &Fault::ALL).to_string()
    }

    #[test]
    fn recorded_seeds_can_be_replayed() {
        let plan = "redis seed 7: 4.2 s, TTL 1 s, 3 locks; \
            client 0 [Mutex, Mutex, Mutex, Election, Mutex, Election]; \
            client 1 [Mutex, Mutex, Mutex, Mutex, Reentrancy]; \
            client 2 [Mutex, Mutex, Mutex, Reentrancy, Reentrancy, Mutex]; \
            client 3 [Mutex, Mutex, Mutex, Mutex, Mutex, Election]; \
            disk-full (61600) at 0.70 s for 0.66 s; \
            client-stopped (33830) at 1.96 s for 1.24 s";
        assert_eq!((version(Configuration::Redis), drawn(7).as_str()), (1, plan));
    }

    #[test]
    fn all_allowed_faults_that_apply_are_drawn_and_no_others() {
        let profile = Profile::new("redis");
        let mut drawn = Vec::new();
        for seed in 0..300 {
            let draw = |faults: &[_]| Schedule::draw(Configuration::Redis, &profile, seed, faults);
            let plan = draw(&[Fault::ServerFrozen]);
            assert!(plan.faults.iter().all(|one| one.fault == Fault::ServerFrozen), "{plan}");
            let plan = draw(&Fault::ALL);
            assert!((1..=3).contains(&plan.faults.len()), "{plan}");
            assert!((3..=4).contains(&plan.clients.len()), "{plan}");
            drawn.extend(plan.faults.iter().map(|one| one.fault));
        }
        for fault in Fault::ALL {
            let applies = fault.applies_to(Configuration::Redis);
            assert_eq!(drawn.contains(&fault), applies, "{fault}");
        }
    }
}
