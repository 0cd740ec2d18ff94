use std::collections::BTreeSet;

use super::Extent;
use super::names;
use super::page::{Page, plain};
use super::view::{Against, KEEP_ALIVES, Place, View, against, spread};
use crate::results::{Cell, Kind, Profile};
use crate::workload::Workload;

/// Less than this share of the baseline's speed is far from the baseline.
pub(super) const FAR: f64 = 0.5;

const SHARES: usize = 6;

struct Comparison<'a> {
    place: Place<'a>,
    workload: &'static Workload,
    own: &'a Cell,
    other: &'a Cell,
    against: Against,
}

type Group<'a> = Vec<Comparison<'a>>;

pub(super) fn all(page: &mut Page, view: &View<'_>, extent: Extent) {
    behind(page, view, extent);
    far(page, view, extent);
    beaten(page, view, extent);
}

fn behind(page: &mut Page, view: &View<'_>, extent: Extent) {
    page.heading("Where Lockwright is slower than a peer, or costs more");
    let all = comparisons(view, |own, other| own == Kind::Ours && other == Kind::Peer);
    let count = all.len();
    let (beyond, even): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|comparison| comparison.against.is_beyond_noise);
    let (behind, ahead): (Vec<_>, Vec<_>) =
        beyond.into_iter().partition(|comparison| comparison.against.goodness < 1.0);
    let (worse, better, even) = (behind.len(), ahead.len(), even.len());
    page.paragraph(&match (count, worse) {
        (0, _) => "No peer was measured with Lockwright.".to_owned(),
        (_, 0) => format!(
            "Nowhere, in {count} comparisons with peers: Lockwright is ahead in {better}, and \
             {even} are within the noise."
        ),
        _ => format!(
            "In {worse} of {count} comparisons with peers Lockwright is behind by more than the \
             noise; it is ahead in {better}, and {even} are within the noise. The worst first:"
        ),
    });
    list(page, view, extent, grouped(behind), |group| where_time_goes(view, &group[0]));
}

fn far(page: &mut Page, view: &View<'_>, extent: Extent) {
    page.heading("Where Lockwright is far from the baseline");
    let mut far = comparisons(view, |own, other| own == Kind::Ours && other == Kind::Baseline);
    let count = far.len();
    far.retain(|Comparison { against, .. }| against.is_beyond_noise && against.goodness < FAR);
    let bound = "below half of the baseline's speed, or above twice its cost";
    let next = match extent {
        Extent::Full => "The worst first:",
        Extent::Summary => "The table at a glance has the ratios.",
    };
    page.paragraph(&match (count, far.len()) {
        (0, _) => "No baseline was measured with Lockwright.".to_owned(),
        (_, 0) => format!("Nowhere, in {count} comparisons with baselines, Lockwright is {bound}."),
        (_, some) => {
            format!("In {some} of {count} comparisons with baselines Lockwright is {bound}. {next}")
        }
    });
    if extent == Extent::Full {
        list(page, view, extent, grouped(far), |group| where_time_goes(view, &group[0]));
    }
}

fn beaten(page: &mut Page, view: &View<'_>, extent: Extent) {
    page.heading("Where a baseline was beaten");
    let mut better =
        comparisons(view, |own, other| own != Kind::Baseline && other == Kind::Baseline);
    better.retain(|Comparison { against, .. }| against.is_beyond_noise && against.goodness > 1.0);
    let next = match (better.len(), extent) {
        (0, _) => "No subject was better by more than the noise.".to_owned(),
        (_, Extent::Full) => {
            "These subjects were better by more than the noise, so it is no lower bound for them:"
                .to_owned()
        }
        (some, Extent::Summary) => format!(
            "In {some} comparisons, a subject was better by more than the noise. There the \
             baseline is no lower bound."
        ),
    };
    page.paragraph(&format!(
        "The baseline is the bare commands through the client library that Lockwright uses. {next}"
    ));
    if extent == Extent::Full {
        let mut groups = grouped(better);
        groups.reverse();
        list(page, view, extent, groups, |group| why(view, group));
    }
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

/// Writes the groups. A full page has `more` about each.
fn list<'a>(
    page: &mut Page,
    view: &View<'a>,
    extent: Extent,
    groups: Vec<Group<'a>>,
    more: impl Fn(&Group<'a>) -> String,
) {
    let ours = view.results.subjects.iter().filter(|known| known.kind == Kind::Ours).count();
    page.list(groups.iter().map(|group| {
        let Comparison { place, workload, own, .. } = &group[0];
        let who = match view.kind(&own.subject) {
            Kind::Ours if ours < 2 => String::new(),
            _ => format!(" · {}", plain(&own.subject)),
        };
        let line = format!("**{}** · {}{who}", plain(place.backend), workload.title);
        let more = (extent == Extent::Full).then(|| more(group));
        (line, sentences(view, group).into_iter().chain(more).collect())
    }));
}

fn sentences(view: &View<'_>, group: &Group<'_>) -> Vec<String> {
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
        if others.is_empty() { line } else { format!("{line}; {}", others.join(", ")) }
    });
    lines.collect()
}

fn sentence(view: &View<'_>, comparison: &Comparison<'_>) -> String {
    let Comparison { place, workload, own, other, against } = comparison;
    let figure = |cell| {
        let median = spread(cell, workload.measure).map_or(f64::NAN, |spread| spread.median);
        names::figure(workload.measure, median)
    };
    let (place, whose) = (place.words(), plain(&whose(view, other)));
    let (own, other) = (figure(own), figure(other));
    let ratio = names::ratio(&against.ratio);
    if ratio == names::NONE {
        return format!("{place}: {own}, where {whose} is {other}");
    }
    let of = if workload.more_is_better { "of" } else { "times" };
    format!("{place}: {own}, **{ratio}** {of} {whose} {other}")
}

fn whose(view: &View<'_>, cell: &Cell) -> String {
    match view.kind(&cell.subject) {
        Kind::Baseline => "the baseline's".to_owned(),
        _ => format!("{}'s", cell.subject),
    }
}

fn where_time_goes(view: &View<'_>, comparison: &Comparison<'_>) -> String {
    let Some(profile) = profile(view, comparison) else { return costs(view, comparison) };
    let shares = profile.shares.iter().filter(|(_, share)| share.is_finite()).take(SHARES);
    let shares = shares.map(|(what, share)| format!("{} {what}", names::percent(*share)));
    let (regime, by) = (names::regime(profile.regime), &profile.by);
    let shares = shares.collect::<Vec<_>>().join(", ");
    plain(&format!("where the time goes ({regime}, {by}): {shares}"))
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

fn costs(view: &View<'_>, comparison: &Comparison<'_>) -> String {
    let (own, other) = (parts(comparison.own), parts(comparison.other));
    if own.is_empty() {
        return "where the time goes wasn't measured".to_owned();
    }
    let parts =
        own.iter().map(|(what, figure)| match other.iter().find(|(known, _)| known == what) {
            Some((_, theirs)) => format!("{what} {figure} ({theirs})"),
            None => format!("{what} {figure}"),
        });
    let (place, whose) = (comparison.place.words(), whose(view, comparison.other));
    let parts = parts.collect::<Vec<_>>().join(", ");
    plain(&format!("where the time goes ({place}; in brackets {whose}): {parts}"))
}

fn parts(cell: &Cell) -> Vec<(String, String)> {
    let median = |measure: &str| spread(cell, measure).map(|spread| spread.median);
    let mut parts = Vec::new();
    let mut add = |what: &str, measure: &str, value: Option<f64>| {
        parts.extend(value.map(|value| (what.to_owned(), names::figure(measure, value))));
    };
    for (operation, word) in [("pair", "pair"), ("turn", "turn"), ("hand_over", "hand-over")] {
        let client = median(&format!("client_cpu_us_per_{operation}"));
        let server = median(&format!("server_cpu_us_per_{operation}"));
        let (Some(client_us), Some(server_us)) = (client, server) else { continue };
        add(&format!("per {word} client CPU"), "cpu_us", client);
        add("server CPU", "cpu_us", server);
        let rate = median(&format!("{operation}s_per_second")).filter(|rate| *rate > 0.0);
        let waiting = rate.map(|rate| (1e6 / rate - client_us - server_us).max(0.0));
        add("waiting", "waiting_us", waiting);
        let commands = format!("server_commands_per_{operation}");
        add("server commands", &commands, median(&commands));
        return parts;
    }
    for measure in
        ["client_cpu_percent", "server_cpu_percent", "server_commands_per_second", KEEP_ALIVES]
    {
        add(&names::title(measure), measure, median(measure));
    }
    parts
}

fn why(view: &View<'_>, group: &Group<'_>) -> String {
    let Comparison { place, own, other, .. } = &group[0];
    let cells = group.iter().flat_map(|comparison| [comparison.own, comparison.other]);
    let mut notes: BTreeSet<String> = cells.filter_map(|cell| cell.note.clone()).collect();
    for name in [&own.subject, &other.subject] {
        let known = view.results.subjects.iter().filter(|known| known.name == *name);
        let about = known.flat_map(|known| &known.notes).filter(|note| is_about(view, note, place));
        notes.extend(about.map(|note| format!("{name}: {note}")));
    }
    if notes.is_empty() {
        return "**unexplained**".to_owned();
    }
    plain(&format!("noted: {}", notes.into_iter().collect::<Vec<_>>().join("; ")))
}

/// Returns whether `note` names the place's backend, or if it names no backend, the workload or the
/// baseline.
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
