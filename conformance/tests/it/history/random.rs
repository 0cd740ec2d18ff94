use lockwright_core::Fence;

use super::{EXCLUSIVE, Event, Script, Violation, at};
use lockwright_conformance::history::journal::Entry;
use lockwright_conformance::workload::Random;

const SEEDS: u64 = 200;
const NAMES: [&str; 2] = ["x", "y"];
const PROCESSES: [&str; 3] = ["a", "b", "c"];

/// Returns a correct schedule without overlaps. Each hold is released, renewed or lost. The holder
/// of a lost hold writes again after the next holder.
fn right(seed: u64) -> Script {
    let mut random = Random::new(seed);
    let (mut script, mut request) = (Script::new(), 0);
    for name in NAMES {
        let (mut free, mut late) = (1_000, None);
        for _ in 0..10 {
            request += 1;
            let who = *random.one_of(&PROCESSES);
            let granted = free + random.below(50);
            let asked = granted - random.below(200);
            let (renewed, deadline) = (granted + 10 + random.below(40), granted + 100);
            script = script
                .asks_for(asked, who, request, name, EXCLUSIVE)
                .granted(granted, who, request, request, deadline)
                .wrote(granted + 5, who, (request, request), true, false);
            if let Some((who, lost)) = late.take() {
                script = script.wrote(granted + 6, who, (lost, lost), false, true);
            }
            (script, free) = match random.below(3) {
                0 => (script.releases(renewed, who, request), renewed),
                1 => (script.renews(renewed, who, request, deadline + 50), deadline + 50),
                _ => {
                    late = Some((who, request));
                    (script.loses(deadline, who, request), deadline)
                }
            };
        }
    }
    script.0.sort_by_key(|entry| entry.at);
    script
}

/// Returns a schedule with one changed entry: from a random position, the first that `change`
/// accepts.
fn wrong(seed: u64, change: impl Fn(&mut Entry) -> bool) -> Script {
    let mut script = right(seed);
    let from = Random::of(seed, 1).below(script.0.len() as u64 / 2) as usize;
    let place = (from..script.0.len()).find(|&place| change(&mut script.0[place]));
    assert!(place.is_some(), "seed {seed}: nothing to change");
    script
}

#[track_caller]
fn is_found(seed: u64, script: &Script, is: fn(&Violation) -> bool) {
    let found = script.found();
    assert!(found.iter().any(is), "seed {seed}: {found:#?}\n{:#?}", script.0);
}

#[test]
fn right_schedules_are_clean() {
    (0..SEEDS).for_each(|seed| assert_eq!(right(seed).found(), [], "seed {seed}"));
}

#[test]
fn hold_that_is_valid_for_too_long_is_found() {
    for seed in 0..SEEDS {
        // Remove releases and losses, and move each deadline past the next grant.
        let mut script = right(seed);
        script
            .0
            .retain(|entry| !matches!(entry.event, Event::Releasing { .. } | Event::Lost { .. }));
        for entry in &mut script.0 {
            if let Event::Granted { deadline, .. } = &mut entry.event {
                *deadline = at(deadline.as_nanos() + 51);
            }
        }
        is_found(seed, &script, |violation| matches!(violation, Violation::Overlap(..)));
    }
}

#[test]
fn wrong_fence_is_found() {
    for seed in 0..SEEDS {
        let smaller = wrong(seed, |entry| match &mut entry.event {
            Event::Granted { fence, .. } if entry.at > at(1_500) => {
                *fence = Fence::new(0);
                true
            }
            _ => false,
        });
        is_found(seed, &smaller, |found| matches!(found, Violation::FenceFell(..)));
    }
}

#[test]
fn request_without_an_end_is_found() {
    for seed in 0..SEEDS {
        let hangs = wrong(seed, |entry| match entry.event {
            Event::Failed { .. } | Event::Granted { .. } => {
                entry.event = Event::Ended;
                entry.process = "another".to_owned();
                true
            }
            _ => false,
        });
        is_found(seed, &hangs, |found| matches!(found, Violation::Stuck { .. }));
    }
}

#[test]
fn accepted_late_write_is_found() {
    for seed in 0..SEEDS {
        let mut script = right(seed);
        let mut late = 0;
        for entry in &mut script.0 {
            if let Event::Wrote { accepted, late: true, .. } = &mut entry.event {
                late += 1;
                *accepted = true;
            }
        }
        // The writer isn't suspended, so it may have written right after the loss.
        assert_eq!(script.found(), [], "seed {seed}");
        let mut stopped = Script::new();
        for entry in script.0 {
            let (instant, who) = (entry.at.as_nanos(), entry.process.clone());
            if matches!(entry.event, Event::Wrote { late: true, .. }) {
                stopped = stopped.signal(instant, &who, super::Signal::Continued);
            }
            let is_lost = matches!(entry.event, Event::Lost { .. });
            stopped.0.push(entry);
            if is_lost {
                stopped = stopped.signal(instant, &who, super::Signal::Stopped);
            }
        }
        if late > 0 {
            is_found(seed, &stopped, |found| matches!(found, Violation::StaleWrite(..)));
        }
    }
}
