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
    let seeds = seeds(SEEDS);
    let begun = Instant::now();
    let kept = run_all(World::Claimed, seeds.clone(), |seed, outcome| {
        let shows = outcome.shows_something();
        let counted = [
            outcome.holds as u64,
            outcome.contended as u64,
            outcome.lost,
            outcome.writes_refused,
            outcome.seen.messages,
        ];
        (seed, outcome.problems.len(), shows, counted)
    });
    if let Some((seed, ..)) = kept.iter().find(|(_, problems, ..)| *problems > 0) {
        let failed = kept.iter().filter(|(_, problems, ..)| *problems > 0);
        let failed: Vec<u64> = failed.map(|(seed, ..)| *seed).collect();
        println!("{} of {} seeds failed: {failed:?}", failed.len(), kept.len());
        show(World::Claimed, *seed);
    }
    let sum = |which: usize| kept.iter().map(|(.., counted)| counted[which]).sum::<u64>();
    let telling = kept.iter().filter(|(_, _, shows, _)| *shows).count();
    let per_minute = kept.len() as f64 / begun.elapsed().as_secs_f64() * 60.0;
    println!(
        "{} schedules, {per_minute:.0} in a minute; {telling} show something; {} holds, {} of them \
         contended, {} lost; {} stale writes refused; {} messages",
        kept.len(),
        sum(0),
        sum(1),
        sum(2),
        sum(3),
        sum(4),
    );
    if kept.len() >= 100 {
        assert!(telling > kept.len() * 17 / 20, "only {telling} schedules show something");
        assert!(sum(2) > 0 && sum(3) > 0, "nothing was lost, or no stale write was refused");
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

/// Tests that the checks detect the faults of `world`. Returns the first seed whose schedule has
/// `problem`, and panics if there is none.
fn first_of(world: World, problem: &str) -> u64 {
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
            println!("{world:?}: seed {seed}, after {:?}: {text}", begun.elapsed());
            return seed;
        }
    }
    panic!("{world:?}: none of {BEYOND} seeds has {problem:?}");
}

fn flawed(flaws: Flaws) -> World {
    World::Flawed(flaws)
}

const TWO: &str = "two holds were valid at once";

#[test]
fn a_node_that_votes_at_once_after_it_lost_its_data_lets_two_in() {
    first_of(flawed(Flaws { no_quarantine: true, ..Flaws::default() }), TWO);
}

#[test]
fn incarnations_not_compared_admit_two_holders() {
    first_of(flawed(Flaws { any_incarnation: true, ..Flaws::default() }), TWO);
}

#[test]
fn a_release_that_compares_nothing_lets_two_in() {
    first_of(flawed(Flaws { releases_strangers: true, ..Flaws::default() }), TWO);
}

#[test]
fn a_renewal_that_takes_another_hold_for_its_own_lets_two_in() {
    first_of(flawed(Flaws { renews_strangers: true, ..Flaws::default() }), TWO);
}

#[test]
fn a_node_whose_clock_steps_ahead_under_a_bare_quorum_lets_two_in() {
    first_of(World::ClocksStep, TWO);
}

#[test]
fn nodes_whose_clocks_run_too_fast_let_two_in() {
    first_of(World::ClocksRace, TWO);
}

#[test]
fn a_release_that_is_delivered_again_lets_two_in() {
    first_of(World::ReleasesTwice, TWO);
}

#[test]
fn fences_fall_where_all_data_are_lost_and_clocks_are_apart() {
    first_of(World::ForgetsWithWildClocks, "fence");
}
