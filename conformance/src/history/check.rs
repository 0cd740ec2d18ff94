use std::collections::BTreeMap;

use lockwright_core::Mode;

use super::figures::Figures;
use super::hold::Hold;
use super::journal::Entry;
use super::rules::Rules;
use super::run::{FaultSpan, Run, Tracked, Use, UseOf, WriteOf};
use super::violation::{Rule, Violation, Write};
use super::{fences, figures, losses, overlap, waiting};

/// The result of [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The violated rules.
    pub violations: Vec<Violation>,
    /// The run's statistics.
    pub figures: Figures,
}

/// Checks entries, sorted by timestamp like those of [`read`](super::journal::read).
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
        violations.extend(missing(&run, &figures, rules));
    }
    violations.iter_mut().for_each(|violation| violation.zero = run.start);
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
    if rules.fences {
        let whole: Vec<&Tracked> = run.holds.iter().filter(|tracked| !tracked.is_part).collect();
        for holds in by_name(whole.iter().map(|tracked| tracked.hold.clone())).values() {
            fences::check_unique(holds, violations);
            fences::check_order(holds, violations);
        }
        // Without `exclusion`, a client may use a hold that the server has ended, so fences needn't
        // follow the order of grants.
        let exclusive = whole.iter().filter(|_| rules.exclusion);
        for holds in by_name(exclusive.map(|tracked| tracked.exclusive_part())).values() {
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
    writes.values().for_each(|writes| fences::check_register(run, writes, violations));
    if rules.exclusion && rules.fences {
        violations.extend(run.writes.iter().filter_map(|write| refused_although_valid(run, write)));
    }
    if let Some(limit) = rules.longest_wait {
        for name in run.names() {
            let gaps = waiting::gaps(run, name, &rules.excusing_faults);
            waiting::check_gaps(run, name, &gaps, limit, violations);
        }
    }
}

fn after_its_end(run: &Run, used: &UseOf) -> Option<Violation> {
    let hold = &used.as_recorded;
    let next = run.holds.iter().map(|tracked| &tracked.hold).find(|next| {
        let is_next = next.name == hold.name && next.token != hold.token;
        is_next && next.excludes(hold) && hold.granted < next.granted && next.granted <= used.at
    });
    // Renewals may be recorded late, so a late one is a violation only if it also follows the next
    // grant.
    (used.by == Use::Checked || next.is_some()).then(|| {
        let (title, by) = match used.by {
            Use::Checked => ("a hold was used after its end", "checked"),
            Use::Renewed => ("a hold was renewed after its deadline and the next grant", "renewed"),
        };
        let violation = Violation::new(Rule::UsedAfterItsEnd, title);
        let violation = violation.of([hold].into_iter().chain(next)).at(used.at, used.at);
        violation
            .between("; before that it was granted to ")
            .note(format!("{by} at {:.6} s", run.since(used.at)))
    })
}

/// Returns a violation if the register refused a write of an exclusive hold that was valid from the
/// holder's check to the answer. Skips a refusal after a later grant, which violates exclusion.
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
    is_wrong.then(|| {
        let title = "the register refused the write of a valid hold";
        let violation = Violation::new(Rule::RefusedWrite, title).of([&hold]);
        let violation = violation.at(write.sent, write.answered);
        violation.note(format!("answered at {:.6} s", run.since(write.answered)))
    })
}

fn missing(run: &Run, figures: &Figures, rules: &Rules) -> Vec<Violation> {
    let missing =
        |what: String| Violation::new(Rule::ShowedNothing, "the run showed nothing").note(what);
    let mut violations = Vec::new();
    if figures.contended == 0 {
        let what = "no client asked for a lock that another process held";
        violations.push(missing(what.to_owned()));
    }
    if figures.hand_overs == 0 {
        let what = "no waiter was granted a lock after another process's hold";
        violations.push(missing(what.to_owned()));
    }
    for FaultSpan { fault, target, from, .. } in
        run.faults.iter().filter(|span| span.effect.is_none())
    {
        let what = format!("the fault {fault} on {target} began, and no effect was recorded");
        violations.push(missing(what).at(*from, *from));
    }
    if rules.fences {
        let unrefused = figures::paused_and_never_refused(run).into_iter();
        let no_write = "was paused beyond its deadline, and no write after it was refused";
        violations.extend(unrefused.map(|process| missing(format!("{process} {no_write}"))));
    }
    violations
}
