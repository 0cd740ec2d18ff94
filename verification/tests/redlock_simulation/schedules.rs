use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use lockwright_conformance::test_helpers::seeds;

use crate::plan::World;
use crate::schedule::{Outcome, run};
use crate::server::Flaws;
use crate::trace::Trace;

const SEEDS: u64 = 500;

/// The number of seeds that `first_of` tries, in batches of `CHUNK`.
const BEYOND: u64 = 4_000;
const CHUNK: usize = 8;

/// Runs schedules in parallel. Returns the results of `keep` in the seeds' order.
fn run_all<T: Send>(
    world: World,
    seeds: Range<u64>,
    keep: impl Fn(u64, Outcome) -> T + Sync,
) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let kept = keep(seed, run(world, seed, Trace::unwanted()));
            done.lock().unwrap_or_else(PoisonError::into_inner).push((seed, kept));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(seed, _)| *seed);
    done.into_iter().map(|(_, kept)| kept).collect()
}

fn show(world: World, seed: u64) -> ! {
    let outcome = run(world, seed, Trace::wanted());
    for line in outcome.trace.lines() {
        println!("{line}");
    }
    panic!(
        "seed {seed}: {:#?}\nrepeat it with LOCKWRIGHT_SEED={seed} cargo test -p \
         lockwright-verification --test redlock_simulation -- whatever_happens",
        outcome.problems
    );
}

#[test]
fn whatever_happens_one_holds_and_nothing_is_left() {
    let begun = Instant::now();
    let kept = run_all(World::Claimed, seeds(SEEDS), |seed, outcome| (seed, outcome));
    let failed = kept.iter().filter(|(_, outcome)| !outcome.problems.is_empty());
    let failed: Vec<u64> = failed.map(|(seed, _)| *seed).collect();
    if let Some(first) = failed.first() {
        println!("{} of {} seeds failed: {failed:?}", failed.len(), kept.len());
        show(World::Claimed, *first);
    }
    let sum = |count: fn(&Outcome) -> u64| kept.iter().map(|(_, it)| count(it)).sum::<u64>();
    let (lost, refused) = (sum(|it| it.lost), sum(|it| it.writes_refused));
    let telling = kept.iter().filter(|(_, outcome)| outcome.shows_something()).count();
    let per_minute = kept.len() as f64 / begun.elapsed().as_secs_f64() * 60.0;
    println!(
        "{} schedules, {per_minute:.0} in a minute; {telling} show something; {} holds, {} of them \
         contended, {lost} lost; {refused} stale writes refused; {} messages",
        kept.len(),
        sum(|it| it.holds),
        sum(|it| it.contended),
        sum(|it| it.seen.messages),
    );
    if kept.len() >= 100 {
        assert!(telling > kept.len() * 17 / 20, "only {telling} schedules show something");
        assert!(lost > 0 && refused > 0, "nothing was lost, or no stale write was refused");
    }
}

#[test]
fn a_seed_repeats_itself_to_the_last_message() {
    for seed in 0..12 {
        let trace = || run(World::Claimed, seed, Trace::wanted()).trace;
        let (first, second) = (trace(), trace());
        let (one, other) = (first.lines(), second.lines());
        let differ = one.iter().zip(&other).position(|(one, other)| one != other);
        if let Some(at) = differ {
            panic!(
                "seed {seed}: {:#?} {:#?}",
                &one[at.saturating_sub(5)..at + 3],
                &other[at..at + 3]
            );
        }
        assert_eq!(first, second, "seed {seed}");
        assert!(first.lines().len() > 100, "a trace tells what happened");
    }
    let other = |seed| run(World::Claimed, seed, Trace::wanted()).trace;
    assert_ne!(other(1), other(2));
}

/// Searches for the first seed whose schedule in `world` has `problem`, and panics if there is
/// none.
fn first_of(world: World, problem: &str) {
    let begun = Instant::now();
    for chunk in (0..BEYOND).step_by(CHUNK) {
        let kept = run_all(world, chunk..chunk + CHUNK as u64, |seed, outcome| {
            outcome
                .problems
                .into_iter()
                .find(|text| text.contains(problem))
                .map(|text| (seed, text))
        });
        if let Some((seed, text)) = kept.into_iter().flatten().next() {
            return println!("{world:?}: seed {seed}, after {:?}: {text}", begun.elapsed());
        }
    }
    panic!("{world:?}: none of {BEYOND} seeds has {problem:?}");
}

/// Each of these worlds breaks a condition of the profile, or a rule of the nodes.
#[test]
fn every_other_world_breaks_a_promise() {
    const TWO: &str = "two holds were valid at once";
    let flaws = Flaws::default();
    for flaws in [
        Flaws { no_quarantine: true, ..flaws },
        Flaws { any_incarnation: true, ..flaws },
        Flaws { releases_strangers: true, ..flaws },
        Flaws { renews_strangers: true, ..flaws },
    ] {
        first_of(World::Flawed(flaws), TWO);
    }
    for world in [World::ClocksStep, World::ClocksRace, World::ReleasesTwice] {
        first_of(world, TWO);
    }
    first_of(World::ForgetsWithWildClocks, "fence");
}
