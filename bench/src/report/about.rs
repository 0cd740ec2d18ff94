//! The machine, the method, the subjects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::document::{Block, Item, Line, Row, Table};
use super::findings::FAR;
use super::names;
use super::statistics::{BETWEEN_RUNS, CERTAINTY, relevant};
use super::view::View;
use crate::results::{Exclusion, Kind};

pub(super) fn warning(view: &View<'_>) -> Option<Block> {
    let text = "This was a smoke run: everything was done once, for a moment, to see that it works. \
                Its figures mean nothing.";
    view.results.settings.smoke.then(|| Block::Paragraph(Line::default().strong(text)))
}

pub(super) fn run(view: &View<'_>, json: &Path) -> Vec<Block> {
    let results = view.results;
    let machine = &results.machine;
    let memory = names::figure("bytes", machine.memory_bytes as f64);
    let mut items = vec![
        Line::from(format!(
            "{}, {} {}, {memory}, {}",
            machine.processor,
            machine.cores,
            if machine.cores == 1 { "core" } else { "cores" },
            machine.kernel
        )),
        Line::from(format!(
            "{}, in {}; {}, where a workload doesn't say that it had fewer",
            results.made,
            names::duration(results.seconds),
            match results.settings.rounds {
                1 => "1 round".to_owned(),
                rounds => format!("{rounds} rounds"),
            }
        )),
        Line::from("all figures: ").code(json.file_name().unwrap_or_default().to_string_lossy()),
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
        "Two regimes. A machine's loopback is fast or slow, by whether the two sides share a core: the \
         same round trip takes ten times as long on some, and a program that is free to move flips \
         between the two. So everybody is pinned. On two cores the servers have one and the \
         contestants the other: what counts is round trips, as over a network. On one core all share \
         it: what counts is processor time."
            .to_owned(),
        "Rounds are interleaved: in each round everybody is measured, another one first each time. A \
         ratio is between figures of the same round, and then the median of these ratios is taken; what \
         slows the machine for a while slows both. Only what is held or waited for is looked at once, \
         for one contestant after the other: a third of the TTL long, in which each hold is renewed \
         once; and pairs beside many holds are measured in a row, while these are held."
            .to_owned(),
        format!(
            "A figure is the median of its rounds. The spread beside a ratio is the narrowest interval of \
             the rounds that contains the true median with {} certainty whatever the distribution: with \
             up to ten rounds, from the least to the greatest (with six or fewer it is less certain).",
            percent(CERTAINTY)
        ),
        format!(
            "More than noise: 1 is outside of the spread, and the median is at least {} away from it; \
             {} with three to six rounds, {} with one or two. Of the cost of waiting and renewing, \
             differences of less than {} of a core or {} commands a second don't count.",
            percent(relevant(7)),
            percent(relevant(3)),
            percent(relevant(1)),
            names::figure("cpu_percent", names::resolution("cpu_percent")),
            names::count(names::resolution("commands_per_second")),
        ),
        "Many comparisons find something by chance: of equals, one in 64 has all of seven rounds on the same \
         side. A finding that stands alone and is barely more than noise may be none."
            .to_owned(),
        "Commands that servers served are as these count them, without those by which we asked. What \
         Sentinels ask their master is in the counts of it, about five a second."
            .to_owned(),
        format!(
            "Far from the floor: below {FAR} of its speed, or above {} times its cost, by more than the \
             noise.",
            1.0 / FAR
        ),
        format!(
            "Between two runs, `compare` looks at the ratios to the floor, by the exact test of Mann and \
             Whitney at {}, and at changes of at least {}.",
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

pub(super) fn contestants(view: &View<'_>) -> Vec<Block> {
    let results = view.results;
    let mut blocks = vec![Block::heading("Who took part, and who is missing")];
    let mut rows = Vec::new();
    for contestant in &results.contestants {
        let cells = results.cells.iter().filter(|cell| cell.contestant == contestant.name);
        let timed: Vec<&str> = cells.map(|cell| cell.backend.as_str()).collect();
        let what = match contestant.kind {
            Kind::Ours => "ours",
            Kind::Before => "ours, an earlier build",
            Kind::Floor => "the floor",
            Kind::Peer => "peer",
        };
        rows.push(Row {
            cells: vec![
                contestant.name.clone(),
                what.to_owned(),
                contestant.library.clone(),
                contestant.runtime.clone(),
                backends(view, &timed),
            ],
            stands_out: false,
        });
    }
    let head = ["contestant", "what it is", "library", "runtime", "timed on"].map(str::to_owned);
    blocks.push(if rows.is_empty() {
        Block::text("Nobody took part.")
    } else {
        Block::Table(Table { head: head.to_vec(), words: head.len(), rows })
    });
    let notes = results.contestants.iter().flat_map(|contestant| {
        contestant.notes.iter().map(|note| {
            Item::from(Line::default().strong(contestant.name.clone()).text(format!(": {note}")))
        })
    });
    let notes: Vec<Item> = notes.collect();
    if !notes.is_empty() {
        blocks.push(Block::text("What must be known of them:"));
        blocks.push(Block::List(notes));
    }
    if results.missing.is_empty() {
        blocks.push(Block::text("Nobody is missing."));
    } else {
        blocks.push(Block::text("Missing, and why:"));
        let missing = results.missing.iter().map(|missing| {
            Item::from(
                Line::default().strong(missing.name.clone()).text(format!(": {}", missing.reason)),
            )
        });
        blocks.push(Block::List(missing.collect()));
    }
    blocks
}

/// Returns the names of backends, in the order of the run.
fn backends(view: &View<'_>, these: &[&str]) -> String {
    let named: Vec<&str> =
        view.backends.iter().copied().filter(|backend| these.contains(backend)).collect();
    // A short row is easier to read than a list of all.
    match named.len() {
        0 => "none".to_owned(),
        all if all == view.backends.len() && all > 3 => format!("all {all}"),
        _ => named.join(", "),
    }
}

pub(super) fn exclusion(view: &View<'_>) -> Vec<Block> {
    let results = view.results;
    let mut blocks = vec![Block::heading("Who was seen to exclude")];
    blocks.push(Block::text(
        "Before it is timed, each contends with itself on each backend, and the turns are looked at: two \
         that overlap are two holders at once. Who isn't seen to exclude isn't timed.",
    ));
    let is_good = |exclusion: &&Exclusion| exclusion.overlaps == 0 && exclusion.error.is_none();
    let (good, bad): (Vec<_>, Vec<_>) = results.exclusion.iter().partition(is_good);
    if !bad.is_empty() {
        blocks.push(Block::text("Not timed:"));
        let items = bad.into_iter().map(|exclusion| {
            let Exclusion { backend, contestant, turns, overlaps, error } = exclusion;
            let why = match error {
                Some(error) => error.clone(),
                None => format!("{overlaps} of {turns} turns began before another one's had ended"),
            };
            Item::from(
                Line::default()
                    .strong(format!("{contestant} on {backend}"))
                    .text(format!(": {why}")),
            )
        });
        blocks.push(Block::List(items.collect()));
    }
    let mut seen: BTreeMap<&str, (usize, Vec<&str>)> = BTreeMap::new();
    for exclusion in &good {
        let (turns, backends) = seen.entry(&exclusion.contestant).or_default();
        *turns += exclusion.turns;
        backends.push(&exclusion.backend);
    }
    if !seen.is_empty() {
        let rows = seen.into_iter().map(|(contestant, (turns, backends))| Row {
            cells: vec![
                contestant.to_owned(),
                self::backends(view, &backends),
                names::count(turns as f64),
            ],
            stands_out: false,
        });
        let head = ["contestant", "excludes on", "turns looked at"].map(str::to_owned).to_vec();
        blocks.push(Block::Table(Table { head, words: 2, rows: rows.collect() }));
    }
    let unseen: BTreeSet<String> = results
        .cells
        .iter()
        .filter(|cell| {
            !results.exclusion.iter().any(|exclusion| {
                exclusion.backend == cell.backend && exclusion.contestant == cell.contestant
            })
        })
        .map(|cell| format!("{} on {}", cell.contestant, cell.backend))
        .collect();
    if !unseen.is_empty() {
        let names: Vec<String> = unseen.into_iter().collect();
        blocks.push(Block::Paragraph(
            Line::default()
                .strong("Timed without having been looked at")
                .text(format!(": {}.", names.join(", "))),
        ));
    }
    blocks
}
