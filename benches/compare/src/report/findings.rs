use std::collections::BTreeSet;

use super::names;
use super::page::{Page, plain};
use super::view::{Against, Place, View, against, spread};
use crate::results::{Cell, Kind};
use crate::workload::Workload;

/// A `goodness` below this is reported as far from the baseline.
pub(super) const FAR: f64 = 0.5;

struct Comparison<'a> {
    place: Place<'a>,
    workload: &'static Workload,
    own: &'a Cell,
    other: &'a Cell,
    against: Against,
}

type Group<'a> = Vec<Comparison<'a>>;

pub(super) fn all(page: &mut Page, view: &View<'_>) {
    behind(page, view);
    far(page, view);
    beaten(page, view);
}

fn behind(page: &mut Page, view: &View<'_>) {
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
    page.list(grouped(behind).iter().map(|group| {
        let Comparison { place, workload, .. } = &group[0];
        (format!("**{}** · {}", plain(place.backend), workload.title), sentences(group))
    }));
}

fn far(page: &mut Page, view: &View<'_>) {
    page.heading("Where Lockwright is far from the baseline");
    let mut far = comparisons(view, |own, other| own == Kind::Ours && other == Kind::Baseline);
    let count = far.len();
    far.retain(|Comparison { against, .. }| against.is_beyond_noise && against.goodness < FAR);
    let bound = "below half of the baseline's speed, or above twice its cost";
    page.paragraph(&match (count, far.len()) {
        (0, _) => "No baseline was measured with Lockwright.".to_owned(),
        (_, 0) => format!("Nowhere, in {count} comparisons with baselines, Lockwright is {bound}."),
        (_, some) => format!(
            "In {some} of {count} comparisons with baselines Lockwright is {bound}. The table at a \
             glance has the ratios."
        ),
    });
}

fn beaten(page: &mut Page, view: &View<'_>) {
    page.heading("Where a baseline was beaten");
    let mut better =
        comparisons(view, |own, other| own != Kind::Baseline && other == Kind::Baseline);
    better.retain(|Comparison { against, .. }| against.is_beyond_noise && against.goodness > 1.0);
    let found = match better.len() {
        0 => "No subject was better by more than the noise.".to_owned(),
        some => format!(
            "In {some} comparisons, a subject was better by more than the noise. There the \
             baseline is no lower bound."
        ),
    };
    page.paragraph(&format!(
        "The baseline is the bare commands through the client library that Lockwright uses. {found}"
    ));
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
        let key = |of: &Comparison<'_>| (of.workload.id, of.place.backend.to_owned());
        match groups.iter_mut().find(|group| key(&group[0]) == key(&comparison)) {
            Some(group) => group.push(comparison),
            None => groups.push(vec![comparison]),
        }
    }
    groups
}

fn sentences(group: &Group<'_>) -> Vec<String> {
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
        let line = sentence(worst);
        if others.is_empty() { line } else { format!("{line}; {}", others.join(", ")) }
    });
    lines.collect()
}

fn sentence(comparison: &Comparison<'_>) -> String {
    let Comparison { place, workload, own, other, against } = comparison;
    let figure = |cell| {
        let median = spread(cell, workload.measure).map_or(f64::NAN, |spread| spread.median);
        names::figure(workload.measure, median)
    };
    let (place, whose) = (place.words(), plain(&other.subject));
    let (own, other) = (figure(own), figure(other));
    let ratio = names::ratio(&against.ratio);
    if ratio == names::NONE {
        return format!("{place}: {own}, where {whose}'s is {other}");
    }
    let of = if workload.more_is_better { "of" } else { "times" };
    format!("{place}: {own}, **{ratio}** {of} {whose}'s {other}")
}
