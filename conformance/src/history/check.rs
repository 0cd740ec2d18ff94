use std::collections::{BTreeMap, BTreeSet};

use lockwright_core::Mode;
use serde::{Deserialize, Serialize};

use super::figures::Figures;
use super::hold::Hold;
use super::journal::Entry;
use super::rules::Rules;
use super::run::{Run, Tracked, UseOf, WriteOf};
use super::violation::{Missing, Use, Used, Violation, Write};
use super::{fences, figures, losses, overlap, waiting};

/// The result of [`check`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The violated rules.
    pub violations: Vec<Violation>,
    /// The run's statistics.
    pub figures: Figures,
}

/// Checks a journal, whose entries must be sorted by timestamp, as [`read`](super::journal::read)
/// returns them.
pub fn check(entries: &[Entry], rules: &Rules) -> Checked {
    let run = Run::of(entries);
    let figures = Figures::of(&run, rules);
    let mut violations = Vec::new();
    check_names(&run, rules, &mut violations);
    violations.extend(run.uses.iter().filter_map(|used| after_its_end(&run, used)));
    if let Some(allowance) = rules.loss_allowance {
        losses::check(&run, rules, allowance, &mut violations);
    }
    waiting::check_stuck(&run, &mut violations);
    violations.extend(run.problems.iter().cloned());
    if rules.must_show {
        violations.extend(missing(&run, &figures, rules).map(Violation::ShowedNothing));
    }
    Checked { violations, figures }
}

pub(crate) fn check_holds(holds: &[Hold], fences: bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for holds in by_name(holds.iter().cloned()).values() {
        overlap::check(holds, &mut violations);
        if fences {
            fences::check_unique(holds, &mut violations);
            fences::check_order(holds, &mut violations);
        }
    }
    violations
}

pub(crate) fn by_name(holds: impl Iterator<Item = Hold>) -> BTreeMap<String, Vec<Hold>> {
    let mut names: BTreeMap<String, Vec<Hold>> = BTreeMap::new();
    for hold in holds {
        names.entry(hold.name.clone()).or_default().push(hold);
    }
    for holds in names.values_mut() {
        holds.sort_by_key(|hold| (hold.granted, hold.until));
    }
    names
}

fn check_names(run: &Run, rules: &Rules, violations: &mut Vec<Violation>) {
    if rules.exclusion {
        let holds = run.holds.iter().map(|tracked| tracked.exclusive_part());
        by_name(holds).values().for_each(|holds| overlap::check(holds, violations));
    }
    let whole = run.holds.iter().filter(|tracked| !tracked.is_part);
    for holds in by_name(whole.map(|tracked| tracked.hold.clone())).values() {
        if rules.fences {
            fences::check_unique(holds, violations);
        }
        if rules.strict_order_of_fences {
            fences::check_order(holds, violations);
        }
    }
    if rules.strict_order_of_fences && rules.exclusion {
        // Without `exclusion`, a client may use a hold that the server has ended, so fences needn't
        // follow the order of grants.
        let whole = run.holds.iter().filter(|tracked| !tracked.is_part);
        for holds in by_name(whole.map(Tracked::exclusive_part)).values() {
            fences::check_order_of_grants(holds, violations);
        }
    }
    let mut writes: BTreeMap<&str, Vec<&Write>> = BTreeMap::new();
    for WriteOf { hold, write, .. } in &run.writes {
        // A permit's fence is its id, and ids have no order.
        if run.holds[*hold].hold.permits().is_none() {
            writes.entry(&write.name).or_default().push(write);
        }
    }
    writes.values().for_each(|writes| fences::check_register(writes, violations));
    if rules.exclusion && rules.fences && rules.strict_order_of_fences {
        violations.extend(run.writes.iter().filter_map(|write| refused_although_valid(run, write)));
    }
    let mut names: Vec<&str> = run.requests.iter().map(|request| request.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for (name, limit) in names.into_iter().zip(std::iter::repeat(rules.longest_wait)) {
        if let Some(limit) = limit {
            let gaps = waiting::gaps(run, name, &rules.excusing_faults);
            waiting::check_gaps(name, &gaps, limit, violations);
        }
    }
}

fn after_its_end(run: &Run, used: &UseOf) -> Option<Violation> {
    let hold = &used.as_recorded;
    let next = run.holds.iter().map(|tracked| &tracked.hold).find(|next| {
        let is_next = next.name == hold.name && next.token != hold.token;
        is_next && next.excludes(hold) && hold.granted < next.granted && next.granted <= used.at
    });
    // A renewal after the hold's end is a violation only after the next grant, because renewals may
    // be recorded late.
    (used.by == Use::Checked || next.is_some()).then(|| {
        let (hold, next) = (hold.clone(), next.cloned());
        Violation::UsedAfterItsEnd(Box::new(Used { hold, at: used.at, by: used.by, next }))
    })
}

/// Returns a violation if the register refused a write of an exclusive hold that was valid from the
/// holder's check to the answer. Skips a refusal after a later grant, because that grant violates
/// exclusion.
fn refused_although_valid(run: &Run, of: &WriteOf) -> Option<Violation> {
    let (hold, write) = (run.holds[of.hold].exclusive_part(), &of.write);
    let is_valid = hold.is_valid_at(of.checked?) && hold.is_valid_at(write.answered);
    let is_later = |next: &Hold| {
        next.name == hold.name
            && !next.is_one_with(&hold)
            && next.excludes(&hold)
            && hold.granted <= next.granted
            && next.granted <= write.answered
    };
    let refused = !write.accepted && hold.mode == Mode::Exclusive && is_valid;
    let is_wrong = refused && !run.holds.iter().any(|tracked| is_later(&tracked.hold));
    is_wrong.then(|| Violation::RefusedWrite(hold.into(), write.clone().into()))
}

fn missing(run: &Run, figures: &Figures, rules: &Rules) -> impl Iterator<Item = Missing> {
    let contention = (figures.contended == 0).then_some(Missing::Contention);
    let hand_overs = (figures.hand_overs == 0).then_some(Missing::HandOvers);
    let effects = run.faults.iter().filter(|fault| fault.effect.is_none());
    let effects = effects
        .map(|fault| Missing::Effect { fault: fault.fault.clone(), target: fault.target.clone() });
    let unrefused = match rules.strict_order_of_fences {
        true => figures::paused_and_never_refused(run),
        false => BTreeSet::new(),
    };
    let late_writes =
        unrefused.into_iter().map(|process| Missing::LateWrite { process: process.clone() });
    contention.into_iter().chain(hand_overs).chain(effects).chain(late_writes)
}
