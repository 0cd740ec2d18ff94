use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockwright::backend::validity::Rules as ValidityRules;
use lockwright::{Profile, Token};
use lockwright_conformance::history::journal::{Entry, Event};
use lockwright_conformance::history::{Checked, Rule, Rules, Violation, check};

use crate::client::UNRECORDED_DELAY;
use crate::configuration::{Configuration, named};
use crate::faults::{Fault, Promise};
use crate::inject::{Injected, LARGEST_STEP_BACK};
use crate::schedule::{Planned, Schedule};

/// How late a process may report a loss: five delays that are too short for the journal.
const LOSS_ALLOWANCE: Duration = UNRECORDED_DELAY.saturating_mul(5);

/// Returns how long clients may wait for a free lock, in addition to a TTL and the recoveries from
/// faults. About 350 schedules of each configuration left at least 0.8 s unused. A Cluster doesn't
/// report whether a client received an offer, so an offer to a killed client blocks the lock for 2
/// s.
fn patience(configuration: Configuration) -> Duration {
    Duration::from_millis(match configuration {
        Configuration::PostgresRow | Configuration::Redlock => 3_500,
        Configuration::PostgresLease
        | Configuration::PostgresSession
        | Configuration::MysqlLease
        | Configuration::RedisCluster => 3_000,
        _ => 2_000,
    })
}

named! { Outcome {
    /// All promises were kept, including exclusion and fences.
    Kept,
    /// All promises were kept, but exclusion or fences weren't promised.
    NotPromised,
    /// Contention, a hand-over, a fault's effect, or a refused late write of a paused process is
    /// missing.
    ShowedNothing,
    /// A promise was broken, a client failed, or data was left.
    #[serde(rename = "VIOLATION")]
    Violation,
} }

pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) checked: Checked,
    pub(crate) injected: Vec<Injected>,
    pub(crate) problems: Vec<String>,
}

impl Verdict {
    pub(crate) fn of(
        schedule: &Schedule,
        profile: &Profile,
        entries: &[Entry],
        injected: Vec<Injected>,
        problems: Vec<String>,
    ) -> Self {
        let promise = schedule.promise(profile);
        let ended_with_their_process;
        let entries = if schedule.configuration.holds_by_connection() {
            ended_with_their_process = end_with_their_process(entries);
            &ended_with_their_process
        } else {
            entries
        };
        let mut checked = check(entries, &rules(schedule, promise));
        if !promise.exclusion {
            let is_unsafe = |one: &Planned| !schedule.promise_under(one, profile).exclusion;
            checked.violations.extend(overlaps(before_faults(schedule, entries, is_unsafe)));
        }
        if !promise.fences {
            let breaks_it = |one: &Planned| !schedule.promise_under(one, profile).fences;
            // If only several faults together break the promise, the check ends at the first fault.
            let one_breaks_it = schedule.faults.iter().any(breaks_it);
            let is_unsafe = |one: &Planned| breaks_it(one) || !one_breaks_it;
            checked.violations.extend(wrong_fences(before_faults(schedule, entries, is_unsafe)));
        }
        let shows_nothing = |one: &Violation| one.rule == Rule::ShowedNothing;
        let outcome = if !problems.is_empty() || !checked.violations.iter().all(shows_nothing) {
            Outcome::Violation
        } else if !checked.violations.is_empty() {
            Outcome::ShowedNothing
        } else if promise != Promise::KEPT {
            Outcome::NotPromised
        } else {
            Outcome::Kept
        };
        Self { outcome, checked, injected, problems }
    }
}

fn before_faults<'a>(
    schedule: &Schedule,
    entries: &'a [Entry],
    is_unsafe: impl Fn(&Planned) -> bool,
) -> &'a [Entry] {
    let is_unsafe = |fault: &str| {
        schedule.faults.iter().any(|one| one.fault.to_string() == fault && is_unsafe(one))
    };
    let begins = |entry: &Entry| match &entry.event {
        Event::Fault { fault, begins: true, .. } => is_unsafe(fault),
        _ => false,
    };
    let end = entries.iter().position(begins).unwrap_or(entries.len());
    &entries[..end]
}

fn overlaps(entries: &[Entry]) -> Vec<Violation> {
    violations_of(&[Rule::Overlap, Rule::TooManyPermits], entries, Rules::default())
}

fn wrong_fences(entries: &[Entry]) -> Vec<Violation> {
    // With `exclusion: false`, a fence must exceed only those granted before its request was sent.
    let rules = Rules { exclusion: false, ..Rules::default() };
    violations_of(&[Rule::SameFence, Rule::FenceFell], entries, rules)
}

fn violations_of(wanted: &[Rule], entries: &[Entry], rules: Rules) -> Vec<Violation> {
    let mut violations = check(entries, &rules).violations;
    violations.retain(|one| wanted.contains(&one.rule));
    violations
}

/// Adds releases of a killed process's holds, which end with its connections, and drops its later
/// entries.
fn end_with_their_process(entries: &[Entry]) -> Vec<Entry> {
    let mut held: BTreeMap<&str, Vec<Token>> = BTreeMap::new();
    let mut killed: BTreeSet<&str> = BTreeSet::new();
    let mut all = Vec::new();
    for entry in entries {
        let process = entry.process.as_str();
        match &entry.event {
            Event::Granted { token, .. } => held.entry(process).or_default().push(*token),
            Event::Releasing { token } | Event::Lost { token, .. } => {
                held.entry(process).or_default().retain(|other| other != token);
            }
            Event::Fault { fault, target, begins: true, .. }
                if *fault == Fault::ClientKilled.to_string() =>
            {
                killed.insert(target);
                for token in held.remove(target.as_str()).unwrap_or_default() {
                    let event = Event::Releasing { token };
                    all.push(Entry { at: entry.at, process: target.clone(), event });
                }
            }
            _ => {}
        }
        if !killed.contains(process) {
            all.push(entry.clone());
        }
    }
    all
}

fn rules(schedule: &Schedule, promise: Promise) -> Rules {
    let faults = schedule.faults.iter().filter(|one| !one.fault.is_a_clients());
    Rules {
        exclusion: promise.exclusion,
        fences: promise.fences,
        longest_wait: Some(longest_wait(schedule)),
        loss_margin: ValidityRules::default().margin(schedule.ttl()),
        loss_allowance: Some(LOSS_ALLOWANCE),
        excusing_faults: faults.map(|one| one.fault.to_string()).collect(),
        ..Rules::default()
    }
}

fn longest_wait(schedule: &Schedule) -> Duration {
    let after = |fault: Fault| match fault {
        // A step back prolongs a dead client's hold.
        Fault::ClockBack => Duration::from_millis(LARGEST_STEP_BACK.unsigned_abs()),
        Fault::ClientKilled | Fault::ClientStopped => Duration::ZERO,
        _ => schedule.ttl(),
    };
    let faults: Duration = schedule.faults.iter().map(|one| after(one.fault)).sum();
    schedule.ttl() + faults + patience(schedule.configuration)
}

#[cfg(test)]
mod tests {
    use lockwright::{BootInstant, Fence, Mode};

    use super::*;

    fn entry(at: u64, process: &str, event: Event) -> Entry {
        Entry { at: BootInstant::from_nanos(at), process: process.to_owned(), event }
    }

    fn history() -> Vec<Entry> {
        let grant = |at: u64, process: &str| {
            let (request, name) = (at, "x".to_owned());
            let mode = Mode::Exclusive;
            let asked = Event::Asked { request, name, mode, waits: true, owner: None };
            let token = Token::from_bytes([at as u8; 16]);
            let deadline = BootInstant::from_nanos(at + 1_000);
            let granted = Event::Granted { request, token, fence: Fence::new(at), deadline };
            [entry(at - 1, process, asked), entry(at, process, granted)]
        };
        let (fault, target) = (Fault::ClientKilled.to_string(), "a".to_owned());
        let begins = Event::Fault { fault, target, begins: true, effect: None };
        let [a, b] = [grant(10, "a"), grant(40, "b")];
        a.into_iter().chain([entry(30, "runner", begins)]).chain(b).collect()
    }

    #[test]
    fn hold_of_a_connection_ends_when_its_process_is_killed_and_others_last_until_their_deadline() {
        let history = history();
        assert_eq!(overlaps(&history).len(), 1);
        assert_eq!(overlaps(&end_with_their_process(&history)), []);
    }

    fn with_data_lost(mut entries: Vec<Entry>, at: u64) -> Outcome {
        let fault = Fault::ServerDataLost;
        let profile = Profile::new("redis");
        let schedule = Schedule::draw(Configuration::Redis, &profile, 1, &[fault]);
        let promise = schedule.promise(&profile);
        assert!(!promise.fences && !promise.exclusion);
        let (fault, target) = (fault.to_string(), "redis".to_owned());
        let begins = Event::Fault { fault, target, begins: true, effect: None };
        entries.push(entry(at, "runner", begins));
        entries.sort_by_key(|entry| (entry.at, entry.process != "runner"));
        Verdict::of(&schedule, &profile, &entries, Vec::new(), Vec::new()).outcome
    }

    #[test]
    fn fences_are_checked_until_the_first_fault_that_they_need_not_survive() {
        let found = |second: u64, at: u64| {
            let mut entries = history();
            for entry in &mut entries {
                if let Event::Granted { fence, deadline, .. } = &mut entry.event {
                    *fence = Fence::new(if entry.process == "b" { second } else { 7 });
                    *deadline = entry.at + Duration::from_nanos(5);
                }
            }
            with_data_lost(entries, at)
        };
        for (second, at, outcome) in [
            (6, 40, Outcome::ShowedNothing),
            (6, 41, Outcome::Violation),
            (7, 40, Outcome::ShowedNothing),
            (7, 41, Outcome::Violation),
            (8, 41, Outcome::ShowedNothing),
        ] {
            assert_eq!(found(second, at), outcome, "{second} at {at}");
        }
    }

    #[test]
    fn exclusion_is_checked_until_the_first_fault_that_it_need_not_survive() {
        assert_eq!(with_data_lost(history(), 35), Outcome::ShowedNothing);
        assert_eq!(with_data_lost(history(), 45), Outcome::Violation);
    }
}
