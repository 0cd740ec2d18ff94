use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::names;
use super::statistics::{differ, median, ratios};
use super::view::{Place, View};
use crate::results::{Cell, Kind, Results, Subject};
use crate::workload::Workload;

struct Change {
    /// The factor of the improvement; below 1, the figure is worse.
    goodness: f64,
    line: String,
}

/// Divides each figure by the baseline's, if any: a slower machine changes both.
pub fn text(old: &Results, new: &Results, all: bool) -> String {
    let (before, after) = (View::of(old), View::of(new));
    let wanted = |cell: &&Cell| {
        all || [&before, &after].iter().any(|view| view.kind(&cell.subject) == Kind::Ours)
    };
    let other = |view: &View<'_>, cell: &Cell| view.cell(&Place::of(cell), &cell.subject).is_some();
    let only = |of: &Results, view: &View<'_>| -> BTreeSet<String> {
        let cells = of.cells.iter().filter(wanted).filter(|cell| !other(view, cell));
        cells.map(kind_of).collect()
    };
    let mut compared = 0;
    let mut changes = Vec::new();
    for cell in old.cells.iter().filter(wanted) {
        let Some(newer) = after.cell(&Place::of(cell), &cell.subject) else { continue };
        let Some(change) = change((&before, cell), (&after, newer)) else { continue };
        compared += 1;
        changes.extend(change);
    }
    changes.sort_by(|one: &Change, other| one.goodness.total_cmp(&other.goodness));
    let (worse, mut better): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.goodness < 1.0);
    better.reverse();
    let whose = if all { "" } else { " of Lockwright" };
    let text = circumstances(old, new);
    let text = if worse.is_empty() && better.is_empty() {
        format!(
            "{text}Nothing{whose} changed beyond the noise, in {compared} cells of both runs.\n"
        )
    } else {
        let (worse, better) = (worse.len(), better.len());
        format!(
            "{text}Of {compared} cells{whose} in both runs, by more than the noise: {worse} worse, \
             {better} better.\n"
        )
    };
    let line = |change: Change| change.line;
    text + &list("Worse, the worst first:", worse.into_iter().map(line))
        + &list("Better, the best first:", better.into_iter().map(line))
        + &list("Only in the old run:", only(old, &after))
        + &list("Only in the new run:", only(new, &before))
}

fn list(head: &str, lines: impl IntoIterator<Item = String>) -> String {
    let lines: String = lines.into_iter().map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n{head}\n{lines}") }
}

fn kind_of(cell: &Cell) -> String {
    let Cell { backend, workload, regime, subject, .. } = cell;
    format!("{backend}, {workload}, {}: {subject}", names::regime(*regime))
}

/// Returns `None` if the cells can't be compared, `Some(None)` for a difference by noise.
fn change(before: (&View<'_>, &Cell), after: (&View<'_>, &Cell)) -> Option<Option<Change>> {
    let (_, cell) = after;
    let workload = Workload::of(&cell.workload)?;
    let figures = |cell: &Cell| {
        let figures = cell.measures.get(workload.measure)?;
        Some((figures.clone(), median(figures)?))
    };
    let ((old, was), (new, is)) = (figures(before.1)?, figures(cell)?);
    let ratios = to_baseline(before, workload).zip(to_baseline(after, workload));
    let has_baseline = ratios.is_some();
    let (old, new) = ratios.unwrap_or((old, new));
    let (from, to) = (median(&old)?, median(&new)?);
    let is_nothing = (was - is).abs() < names::resolution(workload.measure);
    if !differ(&old, &new) || is_nothing {
        return Some(None);
    }
    let grown = if from > 0.0 { to / from } else { f64::INFINITY };
    let goodness = if workload.more_is_better { grown } else { 1.0 / grown };
    let by = if grown.is_finite() && grown < 10.0 {
        format!("{:+.0} %", (grown - 1.0) * 100.0)
    } else {
        format!("{} times", names::times(grown))
    };
    let [was, is] = [was, is].map(|value| names::figure(workload.measure, value));
    let what = if has_baseline {
        let [from, to] = [from, to].map(names::times);
        format!("{from} → {to} of the baseline, {by} ({was} → {is})")
    } else {
        format!("{was} → {is}, {by} (no baseline to compare with)")
    };
    let Cell { backend, workload, subject, .. } = cell;
    let line = format!("{backend}, {workload}, {}: {subject}: {what}", Place::of(cell).words());
    Some(Some(Change { goodness, line }))
}

fn to_baseline((view, cell): (&View<'_>, &Cell), workload: &Workload) -> Option<Vec<f64>> {
    let baseline = view.baseline(&Place::of(cell)).filter(|it| it.subject != cell.subject)?;
    let measure = |cell: &Cell| cell.measures.get(workload.measure).cloned();
    let ratios = ratios(&measure(cell)?, &measure(baseline)?);
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
    for (of, version) in &new.versions {
        if let Some(known) = old.versions.get(of) {
            say(&format!("version of {of}"), known.clone(), version.clone());
        }
    }
    for Subject { name, library, .. } in &new.subjects {
        if let Some(known) = old.subjects.iter().find(|known| known.name == *name) {
            say(&format!("version of {name}"), known.library.clone(), library.clone());
        }
    }
    for (results, which) in [(old, "old"), (new, "new")] {
        if results.settings.smoke {
            let _ = writeln!(text, "The {which} run was a smoke run: its figures mean nothing.");
        }
    }
    text + "\n"
}
