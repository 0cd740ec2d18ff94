use std::collections::BTreeMap;
use std::path::Path;

use super::Extent;
use super::findings::FAR;
use super::names;
use super::page::{Page, plain};
use super::statistics::{BETWEEN_RUNS, CERTAINTY, relevant};
use super::view::{KEEP_ALIVES, View};
use crate::results::{Exclusion, Kind};

pub(super) fn warning(page: &mut Page, view: &View<'_>) {
    if view.results.settings.smoke {
        page.paragraph(
            "**This was a smoke run: each measurement ran once, for a moment, to check that it \
             works. Its figures mean nothing.**",
        );
    }
}

pub(super) fn run(page: &mut Page, view: &View<'_>, json: &Path) {
    let results = view.results;
    let machine = &results.machine;
    let memory = names::figure("bytes", machine.memory_bytes as f64);
    let file = json.file_name().unwrap_or_default().to_string_lossy();
    let mut items = vec![
        plain(&format!(
            "{}, {}, {memory}, {}",
            machine.processor,
            names::many(machine.cores as u64, "cores"),
            machine.kernel
        )),
        format!(
            "{}, in {}; {}, unless a workload says that it had fewer",
            results.made,
            names::duration(results.seconds),
            names::many(results.settings.rounds as u64, "rounds")
        ),
        format!("all figures: `{file}`; `cargo xtask bench report {file}` writes their tables"),
    ];
    items.extend(results.versions.iter().map(|(of, version)| plain(&format!("{of}: {version}"))));
    page.heading("Machine, versions, rounds");
    page.list(items.into_iter().map(|line| (line, vec![])));
}

pub(super) fn method(page: &mut Page, view: &View<'_>) {
    let percent = names::percent;
    let are_apart = view.results.cells.iter().any(|cell| cell.measures.contains_key(KEEP_ALIVES));
    let keep_alives = if are_apart { "don't include" } else { "include" };
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
        format!(
            "Server commands are the server's own count, without the driver's queries. A master's \
             count includes its Sentinels' commands, about five a second. Commands per second \
             {keep_alives} keep-alives: ZooKeeper's pings, etcd's `LeaseKeepAlive`, Redis's `PING`."
        ),
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
    page.heading("How this was measured");
    page.list(points.map(|point| (point, vec![])));
}

pub(super) fn subjects(page: &mut Page, view: &View<'_>, extent: Extent) {
    let results = view.results;
    page.heading("Subjects, and missing libraries");
    let row = |subject: &crate::results::Subject| {
        let cells = results.cells.iter().filter(|cell| cell.subject == subject.name);
        let timed: Vec<&str> = cells.map(|cell| cell.backend.as_str()).collect();
        let kind = match subject.kind {
            Kind::Ours => "Lockwright",
            Kind::Before => "Lockwright, an earlier build",
            Kind::Baseline => "the baseline",
            Kind::Peer => "peer",
        };
        let words = [&subject.name, kind, &subject.library, &subject.runtime];
        let mut cells = words.map(plain).to_vec();
        cells.push(backends(view, &timed));
        cells
    };
    let rows: Vec<_> = results.subjects.iter().map(row).collect();
    let head = ["subject", "kind", "library", "runtime", "timed on"].map(str::to_owned);
    page.table(&head, head.len(), &rows);
    let named = |name: &str, text: &str| (format!("**{}**: {}", plain(name), plain(text)), vec![]);
    let notes = results
        .subjects
        .iter()
        .flat_map(|subject| subject.notes.iter().map(|note| named(&subject.name, note)));
    let notes: Vec<_> = notes.collect();
    if extent == Extent::Full && !notes.is_empty() {
        page.paragraph("Notes about the subjects:");
        page.list(notes);
    }
    if !results.missing.is_empty() {
        page.paragraph("Missing, with the reason:");
        page.list(results.missing.iter().map(|missing| named(&missing.name, &missing.reason)));
    }
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

pub(super) fn exclusion(page: &mut Page, view: &View<'_>) {
    let results = view.results;
    page.heading("Checks of mutual exclusion");
    page.paragraph(
        "Before it is timed, each subject contends with itself on each backend, and its turns are \
         checked: two overlapping turns are two holders at once. A subject that fails this check \
         isn't timed.",
    );
    let is_good = |exclusion: &&Exclusion| exclusion.overlaps == 0 && exclusion.error.is_none();
    let (good, bad): (Vec<_>, Vec<_>) = results.exclusion.iter().partition(is_good);
    if !bad.is_empty() {
        page.paragraph("Not timed:");
        page.list(bad.into_iter().map(|Exclusion { backend, subject, turns, overlaps, error }| {
            let overlapping =
                || format!("{overlaps} of {turns} turns began before another turn had ended");
            let why = plain(&error.clone().unwrap_or_else(overlapping));
            (format!("**{} on {backend}**: {why}", plain(subject)), vec![])
        }));
    }
    let mut seen: BTreeMap<&str, (usize, Vec<&str>)> = BTreeMap::new();
    for exclusion in &good {
        let (turns, backends) = seen.entry(&exclusion.subject).or_default();
        *turns += exclusion.turns;
        backends.push(&exclusion.backend);
    }
    if !seen.is_empty() {
        let rows = seen.into_iter().map(|(subject, (turns, these))| {
            vec![plain(subject), backends(view, &these), names::count(turns as f64)]
        });
        let head = ["subject", "excludes on", "turns checked"].map(str::to_owned);
        page.table(&head, 2, &rows.collect::<Vec<_>>());
    }
}
