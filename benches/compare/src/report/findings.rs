//! The main findings.

use std::collections::BTreeSet;

use super::Extent;
use super::document::{Block, Item, Line};
use super::names;
use super::view::{Against, Place, View, against, spread};
use crate::results::{Cell, Kind, Profile};
use crate::workload::Workload;

/// Less of the baseline is far from it.
pub(super) const FAR: f64 = 0.5;

const SHARES: usize = 6;

#[derive(Debug)]
struct Comparison<'a> {
    place: Place<'a>,
    workload: &'static Workload,
    own: &'a Cell,
    other: &'a Cell,
    against: Against,
}

type Group<'a> = Vec<Comparison<'a>>;

pub(super) fn blocks(view: &View<'_>, extent: Extent) -> Vec<Block> {
    let mut blocks = Vec::new();
    behind(view, extent, &mut blocks);
    far(view, extent, &mut blocks);
    beaten(view, extent, &mut blocks);
    blocks
}

fn behind(view: &View<'_>, extent: Extent, blocks: &mut Vec<Block>) {
    blocks.push(Block::heading("Where Lockwright is slower than a peer, or costs more"));
    let all = comparisons(view, |own, other| own == Kind::Ours && other == Kind::Peer);
    let count = all.len();
    let (beyond, even): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|comparison| comparison.against.is_beyond_noise);
    let (behind, ahead): (Vec<_>, Vec<_>) =
        beyond.into_iter().partition(|comparison| comparison.against.goodness < 1.0);
    blocks.push(Block::text(match (count, behind.len()) {
        (0, _) => "No peer was measured with Lockwright.".to_owned(),
        (_, 0) => format!(
            "Nowhere, in {count} comparisons with peers: Lockwright is ahead in {}, and {} are \
             within the noise.",
            ahead.len(),
            even.len()
        ),
        (_, worse) => format!(
            "In {worse} of {count} comparisons with peers Lockwright is behind by more than the \
             noise; it is \
             ahead in {}, and {} are within the noise. The worst first:",
            ahead.len(),
            even.len()
        ),
    }));
    list(view, grouped(behind), blocks, |group| match extent {
        Extent::Full => vec![where_time_goes(view, &group[0])],
        Extent::Summary => Vec::new(),
    });
}

fn far(view: &View<'_>, extent: Extent, blocks: &mut Vec<Block>) {
    blocks.push(Block::heading("Where Lockwright is far from the baseline"));
    let all = comparisons(view, |own, other| own == Kind::Ours && other == Kind::Baseline);
    let count = all.len();
    let is_far = |comparison: &Comparison<'_>| {
        comparison.against.is_beyond_noise && comparison.against.goodness < FAR
    };
    let far: Vec<_> = all.into_iter().filter(is_far).collect();
    let bound = "below half of the baseline's speed, or above twice its cost";
    blocks.push(Block::text(match (count, far.len()) {
        (0, _) => "No baseline was measured with Lockwright.".to_owned(),
        (_, 0) => format!("Nowhere, in {count} comparisons with baselines, Lockwright is {bound}."),
        (_, some) => {
            let next = match extent {
                Extent::Full => "The worst first:",
                Extent::Summary => "The table at a glance has the ratios.",
            };
            format!("In {some} of {count} comparisons with baselines Lockwright is {bound}. {next}")
        }
    }));
    if extent == Extent::Full {
        list(view, grouped(far), blocks, |group| vec![where_time_goes(view, &group[0])]);
    }
}

fn beaten(view: &View<'_>, extent: Extent, blocks: &mut Vec<Block>) {
    blocks.push(Block::heading("Where a baseline was beaten"));
    let all = comparisons(view, |own, other| own != Kind::Baseline && other == Kind::Baseline);
    let is_better = |comparison: &Comparison<'_>| {
        comparison.against.is_beyond_noise && comparison.against.goodness > 1.0
    };
    let better: Vec<_> = all.into_iter().filter(is_better).collect();
    let rule = "The baseline is the bare commands through the client library that Lockwright uses";
    blocks.push(Block::text(if better.is_empty() {
        format!("{rule}. No subject was better by more than the noise.")
    } else {
        format!(
            "{rule}. These subjects were better by more than the noise, so it is no lower bound \
             for them:"
        )
    }));
    let mut groups = grouped(better);
    groups.reverse();
    list(view, groups, blocks, |group| match extent {
        Extent::Full => vec![why(view, group)],
        Extent::Summary => Vec::new(),
    });
}

fn comparisons<'a>(view: &View<'a>, are: impl Fn(Kind, Kind) -> bool) -> Vec<Comparison<'a>> {
    let mut found = Vec::new();
    for workload in view.workloads() {
        for place in view.places(workload) {
            let cells = view.at(&place);
            let pairs = cells.iter().flat_map(|own| cells.iter().map(move |other| (own, other)));
            let pairs = pairs
                .filter(|(own, other)| are(view.kind(&own.subject), view.kind(&other.subject)));
            found.extend(pairs.filter_map(|(own, other)| {
                let against = against(own, other)?;
                Some(Comparison { place, workload, own, other, against })
            }));
        }
    }
    found
}

fn grouped(mut all: Vec<Comparison<'_>>) -> Vec<Group<'_>> {
    all.sort_by(|one, other| one.against.goodness.total_cmp(&other.against.goodness));
    let mut groups: Vec<Group<'_>> = Vec::new();
    for comparison in all {
        let key = |of: &Comparison<'_>| {
            (of.workload.id, of.place.backend.to_owned(), of.own.subject.clone())
        };
        match groups.iter_mut().find(|group| key(&group[0]) == key(&comparison)) {
            Some(group) => group.push(comparison),
            None => groups.push(vec![comparison]),
        }
    }
    groups
}

fn list<'a>(
    view: &View<'a>,
    groups: Vec<Group<'a>>,
    blocks: &mut Vec<Block>,
    more: impl Fn(&Group<'a>) -> Vec<Line>,
) {
    let ours = view.results.subjects.iter().filter(|known| known.kind == Kind::Ours).count();
    let items = groups.iter().map(|group| {
        let Comparison { place, workload, own, .. } = &group[0];
        let line = Line::default().strong(place.backend).text(format!(" · {}", workload.title));
        // Omitted if there is only one build of Lockwright.
        let is_ours = view.kind(&own.subject) == Kind::Ours && ours < 2;
        let line = if is_ours { line } else { line.text(format!(" · {}", own.subject)) };
        Item { line, below: sentences(view, group).into_iter().chain(more(group)).collect() }
    });
    let items: Vec<Item> = items.collect();
    if !items.is_empty() {
        blocks.push(Block::List(items));
    }
}

fn sentences(view: &View<'_>, group: &Group<'_>) -> Vec<Line> {
    let key = |of: &Comparison<'_>| (of.place.regime, of.other.subject.clone());
    let mut told = BTreeSet::new();
    let worst = group.iter().filter(|comparison| told.insert(key(comparison)));
    let lines = worst.map(|worst| {
        let others = group.iter().filter(|other| key(other) == key(worst));
        let mut others: Vec<_> = others.filter(|other| other.place.at != worst.place.at).collect();
        others.sort_by_key(|other| other.place.at);
        let others = others.into_iter().map(|other| {
            let ratio = names::times(other.against.ratio.median);
            format!("{ratio} with {}", names::count(other.place.at as f64))
        });
        let others: Vec<String> = others.collect();
        let line = sentence(view, worst);
        if others.is_empty() { line } else { line.text(format!("; {}", others.join(", "))) }
    });
    lines.collect()
}

fn sentence(view: &View<'_>, comparison: &Comparison<'_>) -> Line {
    let Comparison { place, workload, own, other, against } = comparison;
    let median = |cell| spread(cell, workload.measure).map_or(f64::NAN, |spread| spread.median);
    let figure = |cell| names::figure(workload.measure, median(cell));
    let whose = whose(view, other);
    let line = Line::default().text(format!("{}: {}, ", place.words(), figure(own)));
    let ratio = names::ratio(&against.ratio);
    if ratio == names::NONE {
        return line.text(format!("where {whose} is {}", figure(other)));
    }
    let of = if workload.more_is_better { "of" } else { "times" };
    line.strong(ratio).text(format!(" {of} {whose} {}", figure(other)))
}

fn whose(view: &View<'_>, cell: &Cell) -> String {
    match view.kind(&cell.subject) {
        Kind::Baseline => "the baseline's".to_owned(),
        _ => format!("{}'s", cell.subject),
    }
}

fn where_time_goes(view: &View<'_>, comparison: &Comparison<'_>) -> Line {
    match profile(view, comparison) {
        Some(profile) => {
            let shares = profile.shares.iter().filter(|(_, share)| share.is_finite()).take(SHARES);
            let shares = shares.map(|(what, share)| format!("{} {what}", names::percent(*share)));
            Line::from(format!(
                "where the time goes ({}, {}): {}",
                names::regime(profile.regime),
                profile.by,
                shares.collect::<Vec<_>>().join(", ")
            ))
        }
        None => costs(view, comparison),
    }
}

fn profile<'a>(view: &View<'a>, comparison: &Comparison<'_>) -> Option<&'a Profile> {
    let Comparison { place, own, .. } = comparison;
    let of = |profile: &&Profile| {
        profile.backend == place.backend
            && profile.workload == place.workload
            && profile.subject == own.subject
            && !profile.shares.is_empty()
    };
    let found = || view.results.profiles.iter().filter(of);
    found().find(|profile| profile.regime == place.regime).or_else(|| found().next())
}

fn costs(view: &View<'_>, comparison: &Comparison<'_>) -> Line {
    let (own, other) = (parts(comparison.own), parts(comparison.other));
    if own.is_empty() {
        return "where the time goes wasn't measured".into();
    }
    let parts = own.iter().map(|part| {
        let beside = other.iter().find(|beside| beside.what == part.what);
        let figure = |part: &Part| names::figure(&part.measure, part.value);
        match beside {
            Some(beside) => format!("{} {} ({})", part.what, figure(part), figure(beside)),
            None => format!("{} {}", part.what, figure(part)),
        }
    });
    let parts: Vec<String> = parts.collect();
    Line::from(format!(
        "where the time goes ({}; in brackets {}): {}",
        comparison.place.words(),
        whose(view, comparison.other),
        parts.join(", ")
    ))
}

struct Part {
    what: String,
    measure: String,
    value: f64,
}

fn parts(cell: &Cell) -> Vec<Part> {
    let median = |measure: &str| spread(cell, measure).map(|spread| spread.median);
    let mut parts = Vec::new();
    let mut add = |what: String, measure: &str, value: Option<f64>| {
        parts.extend(value.map(|value| Part { what, measure: measure.to_owned(), value }));
    };
    for (operation, word) in [("pair", "pair"), ("turn", "turn"), ("hand_over", "hand-over")] {
        let client = median(&format!("client_cpu_us_per_{operation}"));
        let server = median(&format!("server_cpu_us_per_{operation}"));
        let (Some(client_us), Some(server_us)) = (client, server) else { continue };
        add(format!("per {word} client CPU"), "cpu_us", client);
        add("server CPU".to_owned(), "cpu_us", server);
        let rate = median(&format!("{operation}s_per_second")).filter(|rate| *rate > 0.0);
        let waiting = rate.map(|rate| (1e6 / rate - client_us - server_us).max(0.0));
        add("waiting".to_owned(), "waiting_us", waiting);
        let commands = format!("server_commands_per_{operation}");
        add("server commands".to_owned(), &commands, median(&commands));
        return parts;
    }
    for measure in ["client_cpu_percent", "server_cpu_percent", "server_commands_per_second"] {
        add(names::title(measure), measure, median(measure));
    }
    parts
}

fn why(view: &View<'_>, group: &Group<'_>) -> Line {
    let Comparison { place, own, other, .. } = &group[0];
    let cells = group.iter().flat_map(|comparison| [comparison.own, comparison.other]);
    let mut notes: BTreeSet<String> = cells.filter_map(|cell| cell.note.clone()).collect();
    for name in [&own.subject, &other.subject] {
        let known = view.results.subjects.iter().filter(|known| known.name == *name);
        let about = known.flat_map(|known| &known.notes).filter(|note| is_about(view, note, place));
        notes.extend(about.map(|note| format!("{name}: {note}")));
    }
    if notes.is_empty() {
        return Line::default().strong("unexplained");
    }
    Line::from(format!("noted: {}", notes.into_iter().collect::<Vec<_>>().join("; ")))
}

/// It names the backend or its family, or the workload or baseline without a backend.
fn is_about(view: &View<'_>, note: &str, place: &Place<'_>) -> bool {
    let note = note.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '-';
    let words: BTreeSet<&str> =
        note.split(|c| !is_letter(c)).map(|word| word.trim_matches('-')).collect();
    let family = |backend: &str| backend.split('-').next().unwrap_or_default().to_owned();
    let names = |backend: &str| words.contains(backend) || words.contains(family(backend).as_str());
    if view.backends.iter().any(|backend| names(backend)) {
        return names(place.backend);
    }
    ["baseline", place.workload].iter().any(|word| words.contains(word))
}
