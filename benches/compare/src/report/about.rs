//! The machine, the method, the subjects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Extent;
use super::document::{Block, Item, Line, Row, Table};
use super::findings::FAR;
use super::names;
use super::statistics::{BETWEEN_RUNS, CERTAINTY, relevant};
use super::view::View;
use crate::results::{Exclusion, Kind};

pub(super) fn warning(view: &View<'_>) -> Option<Block> {
    let text = "This was a smoke run: each measurement ran once, for a moment, to check that it \
                works. Its figures mean nothing.";
    view.results.settings.smoke.then(|| Block::Paragraph(Line::default().strong(text)))
}

pub(super) fn run(view: &View<'_>, json: &Path) -> Vec<Block> {
    let results = view.results;
    let machine = &results.machine;
    let memory = names::figure("bytes", machine.memory_bytes as f64);
    let results_file = json.file_name().unwrap_or_default().to_string_lossy();
    let command = format!("cargo xtask bench report {results_file}");
    let mut items = vec![
        Line::from(format!(
            "{}, {} {}, {memory}, {}",
            machine.processor,
            machine.cores,
            if machine.cores == 1 { "core" } else { "cores" },
            machine.kernel
        )),
        Line::from(format!(
            "{}, in {}; {}, unless a workload says that it had fewer",
            results.made,
            names::duration(results.seconds),
            match results.settings.rounds {
                1 => "1 round".to_owned(),
                rounds => format!("{rounds} rounds"),
            }
        )),
        Line::from("all figures: ")
            .code(results_file)
            .text("; ")
            .code(command)
            .text(" writes their tables"),
    ];
    items.extend(
        results.versions.iter().map(|(of, version)| Line::from(format!("{of}: {version}"))),
    );
    vec![
        Block::heading("Machine, versions, rounds"),
        Block::List(items.into_iter().map(Item::from).collect()),
    ]
}

pub(super) fn method() -> Vec<Block> {
    let percent = |share: f64| names::percent(share);
    let points = [
        "Two regimes. The speed of a machine's loopback depends on whether both sides share a \
         core: on some machines the same round trip takes ten times as long, and an unpinned \
         program alternates between the two. So all processes are pinned. On two cores, the \
         servers have one core and the subjects the other: round trips dominate, as over a \
         network. On one core, all share it: processor time dominates."
            .to_owned(),
        "Rounds are interleaved: each round measures all subjects, each time starting with a \
         different subject. A ratio compares figures of the same round, and the median of these \
         ratios is taken, so that a temporary slowdown of the machine affects both. Holds and \
         waiters are measured only once, one subject after the other: for a third of the TTL, in \
         which each hold is renewed once. Pairs next to many holds are measured consecutively \
         during these holds."
            .to_owned(),
        format!(
            "A figure is the median of its rounds. The spread after a ratio is the narrowest \
             interval of the rounds that contains the true median with {} confidence for any \
             distribution: with up to ten rounds, from the minimum to the maximum (with six or \
             fewer rounds, the confidence is lower).",
            percent(CERTAINTY)
        ),
        format!(
            "More than noise: 1 is outside of the spread, and the median is at least {} away from it; \
             {} with three to six rounds, {} with one or two. Of the cost of waiting and renewing, \
             differences below {} of a core or {} commands a second don't count.",
            percent(relevant(7)),
            percent(relevant(3)),
            percent(relevant(1)),
            names::figure("cpu_percent", names::resolution("cpu_percent")),
            names::count(names::resolution("commands_per_second")),
        ),
        "Many comparisons find differences by chance: of equal subjects, one pair in 64 has all \
         seven rounds on the same side. An isolated finding barely above the noise may be a \
         chance result."
            .to_owned(),
        "Server commands are the server's own count, without the driver's queries. A master's \
         count includes its Sentinels' commands, about five a second."
            .to_owned(),
        format!(
            "Far from the baseline: below {FAR} of its speed, or above {} times its cost, by more \
             than the noise.",
            1.0 / FAR
        ),
        format!(
            "Between two runs, `compare` tests the ratios to the baseline by the exact \
             Mann-Whitney test at {}, and reports changes of at least {}.",
            percent(1.0 - CERTAINTY),
            percent(BETWEEN_RUNS)
        ),
    ];
    let items = points.into_iter().map(|point| Item::from(code_spans(&point)));
    vec![Block::heading("How this was measured"), Block::List(items.collect())]
}

fn code_spans(text: &str) -> Line {
    text.split('`').enumerate().fold(Line::default(), |line, (index, part)| {
        if index % 2 == 1 { line.code(part) } else { line.text(part) }
    })
}

pub(super) fn subjects(view: &View<'_>, extent: Extent) -> Vec<Block> {
    let results = view.results;
    let mut blocks = vec![Block::heading("Subjects, and missing libraries")];
    let mut rows = Vec::new();
    for subject in &results.subjects {
        let cells = results.cells.iter().filter(|cell| cell.subject == subject.name);
        let timed: Vec<&str> = cells.map(|cell| cell.backend.as_str()).collect();
        let what = match subject.kind {
            Kind::Ours => "Lockwright",
            Kind::Before => "Lockwright, an earlier build",
            Kind::Baseline => "the baseline",
            Kind::Peer => "peer",
        };
        rows.push(Row {
            cells: vec![
                subject.name.clone(),
                what.to_owned(),
                subject.library.clone(),
                subject.runtime.clone(),
                backends(view, &timed),
            ],
            stands_out: false,
        });
    }
    let head = ["subject", "kind", "library", "runtime", "timed on"].map(str::to_owned);
    blocks.push(if rows.is_empty() {
        Block::text("There were no subjects.")
    } else {
        Block::Table(Table { head: head.to_vec(), words: head.len(), rows })
    });
    let notes = results.subjects.iter().flat_map(|subject| {
        subject.notes.iter().map(|note| {
            Item::from(Line::default().strong(subject.name.clone()).text(format!(": {note}")))
        })
    });
    let notes: Vec<Item> = notes.collect();
    if extent == Extent::Full && !notes.is_empty() {
        blocks.push(Block::text("Notes about the subjects:"));
        blocks.push(Block::List(notes));
    }
    if results.missing.is_empty() {
        blocks.push(Block::text("No library is missing."));
    } else {
        blocks.push(Block::text("Missing, with the reason:"));
        let missing = results.missing.iter().map(|missing| {
            Item::from(
                Line::default().strong(missing.name.clone()).text(format!(": {}", missing.reason)),
            )
        });
        blocks.push(Block::List(missing.collect()));
    }
    blocks
}

fn backends(view: &View<'_>, these: &[&str]) -> String {
    let named: Vec<&str> =
        view.backends.iter().copied().filter(|backend| these.contains(backend)).collect();
    match named.len() {
        0 => "none".to_owned(),
        all if all == view.backends.len() && all > 3 => format!("all {all}"),
        _ => named.join(", "),
    }
}

pub(super) fn exclusion(view: &View<'_>) -> Vec<Block> {
    let results = view.results;
    let mut blocks = vec![Block::heading("Checks of mutual exclusion")];
    blocks.push(Block::text(
        "Before it is timed, each subject contends with itself on each backend, and its turns are \
         checked: two overlapping turns are two holders at once. A subject that fails this check \
         isn't timed.",
    ));
    let is_good = |exclusion: &&Exclusion| exclusion.overlaps == 0 && exclusion.error.is_none();
    let (good, bad): (Vec<_>, Vec<_>) = results.exclusion.iter().partition(is_good);
    if !bad.is_empty() {
        blocks.push(Block::text("Not timed:"));
        let items = bad.into_iter().map(|exclusion| {
            let Exclusion { backend, subject, turns, overlaps, error } = exclusion;
            let why = match error {
                Some(error) => error.clone(),
                None => format!("{overlaps} of {turns} turns began before another turn had ended"),
            };
            Item::from(
                Line::default().strong(format!("{subject} on {backend}")).text(format!(": {why}")),
            )
        });
        blocks.push(Block::List(items.collect()));
    }
    let mut seen: BTreeMap<&str, (usize, Vec<&str>)> = BTreeMap::new();
    for exclusion in &good {
        let (turns, backends) = seen.entry(&exclusion.subject).or_default();
        *turns += exclusion.turns;
        backends.push(&exclusion.backend);
    }
    if !seen.is_empty() {
        let rows = seen.into_iter().map(|(subject, (turns, backends))| Row {
            cells: vec![
                subject.to_owned(),
                self::backends(view, &backends),
                names::count(turns as f64),
            ],
            stands_out: false,
        });
        let head = ["subject", "excludes on", "turns checked"].map(str::to_owned).to_vec();
        blocks.push(Block::Table(Table { head, words: 2, rows: rows.collect() }));
    }
    let unseen: BTreeSet<String> = results
        .cells
        .iter()
        .filter(|cell| {
            !results.exclusion.iter().any(|exclusion| {
                exclusion.backend == cell.backend && exclusion.subject == cell.subject
            })
        })
        .map(|cell| format!("{} on {}", cell.subject, cell.backend))
        .collect();
    if !unseen.is_empty() {
        let names: Vec<String> = unseen.into_iter().collect();
        blocks.push(Block::Paragraph(
            Line::default()
                .strong("Timed without this check")
                .text(format!(": {}.", names.join(", "))),
        ));
    }
    blocks
}
