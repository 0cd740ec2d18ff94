//! Changes between two runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::names;
use super::statistics::{differ, median, ratios};
use super::view::{Place, View};
use crate::results::{Cell, Kind, Results};
use crate::workload::Workload;

#[derive(Debug)]
struct Change {
    /// More is better.
    goodness: f64,
    line: String,
}

/// Describes the changes from `old` to `new` beyond the noise, of Lockwright or of `all`. Each cell
/// is compared by its ratio to the baseline, which ignores a slower machine; without a baseline, by
/// the figure.
#[must_use]
pub fn text(old: &Results, new: &Results, all: bool) -> String {
    let (before, after) = (View::of(old), View::of(new));
    let mut text = circumstances(old, new);
    let wanted = |cell: &&Cell| {
        all || [&before, &after].iter().any(|view| view.kind(&cell.subject) == Kind::Ours)
    };
    let mut compared = 0;
    let mut changes = Vec::new();
    let mut only_old: BTreeSet<String> = BTreeSet::new();
    let mut only_new: BTreeSet<String> = BTreeSet::new();
    for cell in old.cells.iter().filter(wanted) {
        match after.cell(&Place::of(cell), &cell.subject) {
            None => {
                only_old.insert(kind_of(cell));
            }
            Some(newer) => {
                let (was_comparable, change) = change((&before, cell), (&after, newer));
                compared += usize::from(was_comparable);
                changes.extend(change);
            }
        }
    }
    for cell in new.cells.iter().filter(wanted) {
        if before.cell(&Place::of(cell), &cell.subject).is_none() {
            only_new.insert(kind_of(cell));
        }
    }
    changes.sort_by(|one: &Change, other| one.goodness.total_cmp(&other.goodness));
    let (worse, better): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.goodness < 1.0);
    let whose = if all { "" } else { " of Lockwright" };
    if worse.is_empty() && better.is_empty() {
        let _ = writeln!(
            text,
            "Nothing{whose} changed beyond the noise, in {compared} cells of both runs."
        );
    } else {
        let _ = writeln!(
            text,
            "Of {compared} cells{whose} in both runs, by more than the noise: {} worse, {} better.",
            worse.len(),
            better.len()
        );
    }
    list(&mut text, "Worse, the worst first:", worse.iter().map(|change| change.line.as_str()));
    list(
        &mut text,
        "Better, the best first:",
        better.iter().rev().map(|change| change.line.as_str()),
    );
    list(&mut text, "Only in the old run:", only_old.iter().map(String::as_str));
    list(&mut text, "Only in the new run:", only_new.iter().map(String::as_str));
    text
}

fn list<'a>(text: &mut String, head: &str, lines: impl Iterator<Item = &'a str>) {
    let lines: Vec<&str> = lines.collect();
    if !lines.is_empty() {
        let _ = writeln!(text, "\n{head}");
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
}

fn kind_of(cell: &Cell) -> String {
    format!("{}, {}, {}: {}", cell.backend, cell.workload, names::regime(cell.regime), cell.subject)
}

fn change(before: (&View<'_>, &Cell), after: (&View<'_>, &Cell)) -> (bool, Option<Change>) {
    let (_, cell) = after;
    let Some(workload) = Workload::of(&cell.workload) else { return (false, None) };
    let figures = |cell: &Cell| {
        let figures = cell.measures.get(workload.measure)?;
        Some((figures.clone(), median(figures)?))
    };
    let (Some((old, was)), Some((new, is))) = (figures(before.1), figures(cell)) else {
        return (false, None);
    };
    let to_baseline = to_baseline(before, workload).zip(to_baseline(after, workload));
    let has_baseline = to_baseline.is_some();
    let (old, new) = to_baseline.unwrap_or((old, new));
    let (Some(from), Some(to)) = (median(&old), median(&new)) else { return (false, None) };
    let is_nothing = (was - is).abs() < names::resolution(workload.measure);
    if !differ(&old, &new) || is_nothing {
        return (true, None);
    }
    let grown = if from > 0.0 { to / from } else { f64::INFINITY };
    let goodness = if workload.more_is_better { grown } else { 1.0 / grown };
    let by = if grown.is_finite() && grown < 10.0 {
        format!("{:+.0} %", (grown - 1.0) * 100.0)
    } else {
        format!("{} times", names::times(grown))
    };
    let plain = format!(
        "{} → {}",
        names::figure(workload.measure, was),
        names::figure(workload.measure, is)
    );
    let what = if has_baseline {
        format!("{} → {} of the baseline, {by} ({plain})", names::times(from), names::times(to))
    } else {
        format!("{plain}, {by} (no baseline to compare with)")
    };
    let place = Place::of(cell).words();
    let line = format!("{}, {}, {place}: {}: {what}", cell.backend, cell.workload, cell.subject);
    (true, Some(Change { goodness, line }))
}

fn to_baseline((view, cell): (&View<'_>, &Cell), workload: &Workload) -> Option<Vec<f64>> {
    if view.kind(&cell.subject) == Kind::Baseline {
        return None;
    }
    let baseline = view.baseline(&Place::of(cell))?;
    let ratios =
        ratios(cell.measures.get(workload.measure)?, baseline.measures.get(workload.measure)?);
    median(&ratios).filter(|ratio| ratio.is_finite())?;
    Some(ratios)
}

fn circumstances(old: &Results, new: &Results) -> String {
    let mut text = format!("old: {}, new: {}\n", old.made, new.made);
    let mut say = |what: &str, old: String, new: String| {
        if old != new {
            let _ = writeln!(text, "Another {what}: {old}, now {new}.");
        }
    };
    let machine = |results: &Results| {
        let machine = &results.machine;
        let memory = names::figure("bytes", machine.memory_bytes as f64);
        format!("{} with {} cores, {memory}, {}", machine.processor, machine.cores, machine.kernel)
    };
    say("machine", machine(old), machine(new));
    let rounds = |results: &Results| results.settings.rounds.to_string();
    say("number of rounds", rounds(old), rounds(new));
    let versions = |results: &Results| results.versions.clone();
    let (before, after): (BTreeMap<_, _>, BTreeMap<_, _>) = (versions(old), versions(new));
    for (of, version) in &after {
        if let Some(known) = before.get(of) {
            say(&format!("version of {of}"), known.clone(), version.clone());
        }
    }
    for subject in &new.subjects {
        let known = old.subjects.iter().find(|known| known.name == subject.name);
        if let Some(known) = known {
            say(
                &format!("version of {}", subject.name),
                known.library.clone(),
                subject.library.clone(),
            );
        }
    }
    for (results, which) in [(old, "old"), (new, "new")] {
        if results.settings.smoke {
            let _ = writeln!(text, "The {which} run was a smoke run: its figures mean nothing.");
        }
    }
    text + "\n"
}
