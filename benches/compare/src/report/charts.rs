use plotters::style::RGBColor;

use super::draw::{Drawn, INK, Lines, Point, Points, Row, Series};
use super::names;
use super::view::{Place, View, spread};
use crate::results::{Kind, Regime};
use crate::workload::Workload;

pub(super) const KINDS: [&str; 3] = ["points", "latency", "growth"];

const OURS: RGBColor = RGBColor(11, 107, 203);
const BEFORE: RGBColor = RGBColor(127, 178, 229);
const BASELINE: RGBColor = RGBColor(110, 119, 129);
/// Points are labelled, so all peers have one colour.
const PEER: RGBColor = RGBColor(169, 184, 198);
const HUES: [u32; 15] = [
    0xe6_194b, 0x3c_b44b, 0x91_1eb4, 0x00_8080, 0xf5_8230, 0xf0_32e6, 0x80_8000, 0xa0_0000,
    0x5a_5aa0, 0x9a_6324, 0x28_bed2, 0xe6_7896, 0x6e_a000, 0x50_3c28, 0xc8_aa00,
];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Picture {
    pub(super) workload: &'static str,
    pub(super) file: String,
    pub(super) alt: String,
    pub(super) svg: String,
}

pub(super) fn all(view: &View<'_>) -> Drawn<Vec<Picture>> {
    let mut pictures = Vec::new();
    for workload in view.workloads() {
        let mut add = |kind: &str, alt: String, svg: Option<String>| {
            let file = format!("{}-{kind}.svg", workload.id);
            let alt = format!("{}: {alt}.", workload.title);
            pictures.extend(svg.map(|svg| Picture { workload: workload.id, file, alt, svg }));
        };
        let measure = names::title(workload.measure);
        if let Some(grows) = workload.grows {
            let alt = format!("{measure} by {grows}, by backend and subject");
            add("growth", alt, growth(view, workload, grows)?);
            continue;
        }
        let alt = match workload.more_is_better {
            true => "each subject's ratio to the baseline, by backend".to_owned(),
            false => format!("{measure}, by backend and subject"),
        };
        add("points", alt, points(view, workload)?);
        let what = timed(workload);
        let alt = format!("percentiles of how long the {what} take, by backend and subject");
        add("latency", alt, latency(view, workload)?);
    }
    Ok(pictures)
}

fn timed(workload: &Workload) -> &'static str {
    if workload.id == "pairs" { "pairs" } else { "waits" }
}

/// Draws ratios to the baseline; figures if less is better, because the baseline's is often zero.
fn points(view: &View<'_>, workload: &Workload) -> Drawn<Option<String>> {
    let are_ratios = workload.more_is_better;
    let regimes = view.regimes(workload);
    let point = |backend, subject, regime| {
        let cell = view.cell(&Place { workload: workload.id, backend, at: 0, regime }, subject)?;
        let (spread, text) = if are_ratios {
            let ratio = view.to_baseline(cell)?.ratio;
            (ratio, names::times(ratio.median))
        } else {
            let spread = spread(cell, workload.measure)?;
            (spread, names::figure(workload.measure, spread.median))
        };
        let (low, value, high) = (spread.low, spread.median, spread.high);
        high.is_finite().then_some(Point { low, value, high, text })
    };
    let mut rows = Vec::new();
    for backend in view.backends.iter().copied() {
        let subjects = view.subjects(workload, backend).into_iter();
        let shown = subjects.filter(|name| !are_ratios || view.kind(name) != Kind::Baseline);
        let found = shown.map(|name| Row {
            name: name.to_owned(),
            colour: colour(view, name).unwrap_or(PEER),
            points: regimes.iter().map(|regime| point(backend, name, *regime)).collect(),
        });
        let mut found: Vec<_> =
            found.filter(|row| row.points.iter().any(Option::is_some)).collect();
        if !found.is_empty() {
            rows.push(Row { name: backend.to_owned(), colour: INK, points: Vec::new() });
            rows.append(&mut found);
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let measure = names::title(workload.measure);
    let plot = Points {
        title: workload.title,
        scale: if are_ratios {
            format!("{measure}, ratio to the baseline with spread (more is better)")
        } else {
            format!("{measure} (less is better; 0 is at the left edge)")
        },
        panels: regimes.iter().map(|regime| names::regime(*regime)).collect(),
        rows,
        base: are_ratios.then_some(1.0),
        tick: names::count,
    };
    plot.draw().map(Some)
}

fn latency(view: &View<'_>, workload: &Workload) -> Drawn<Option<String>> {
    let spaced = |share: f64| -(1.0 - share).log10();
    let ticks = [(0.0, "0 %"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %")];
    let mut ticks = ticks.map(|(share, label)| (spaced(share), label.to_owned())).to_vec();
    let longest = spaced(0.999) + 0.6;
    ticks.push((longest, "longest".to_owned()));
    let panels = panels(view, workload, |place, subject| {
        let shares = view.cell(place, subject).map(|cell| &cell.distribution);
        let shares = shares.into_iter().flatten();
        let shares = shares.filter(|(share, time)| (0.0..=1.0).contains(share) && time.is_finite());
        shares.map(|(share, time)| (spaced(*share).min(longest), *time)).collect()
    });
    let what = timed(workload);
    lines(Lines {
        title: format!("{}: how long the {what} take", workload.title),
        scales: format!("to the right: the share of {what} that took no longer; upwards: how long"),
        panels,
        ticks,
        tick: &|value| names::figure("p50_us", value),
        dots: false,
    })
}

fn growth(view: &View<'_>, workload: &Workload, grows: &str) -> Drawn<Option<String>> {
    let numbers = view.numbers(workload);
    let along = |at: u64| (at.max(1) as f64).log10();
    let panels = panels(view, workload, |place, subject| {
        let point = |at: &u64| {
            let cell = view.cell(&Place { at: *at, ..*place }, subject)?;
            let value = spread(cell, workload.measure)?.median;
            value.is_finite().then_some((along(*at), value))
        };
        numbers.iter().filter_map(point).collect()
    });
    let measure = names::title(workload.measure);
    let better = if workload.more_is_better { "more" } else { "less" };
    lines(Lines {
        title: workload.title.to_owned(),
        scales: format!(
            "to the right: {grows}; upwards: {measure}, {better} is better; 0 isn't drawn"
        ),
        panels,
        ticks: numbers.iter().map(|at| (along(*at), names::count(*at as f64))).collect(),
        tick: &|value| names::figure(workload.measure, value),
        dots: true,
    })
}

fn lines(lines: Lines<'_>) -> Drawn<Option<String>> {
    if lines.panels.is_empty() { Ok(None) } else { lines.draw().map(Some) }
}

fn panels<'a>(
    view: &View<'a>,
    workload: &Workload,
    points: impl Fn(&Place<'a>, &str) -> Vec<(f64, f64)>,
) -> Vec<(String, Vec<Series>)> {
    let mut panels = Vec::new();
    let regimes = view.regimes(workload);
    for backend in view.backends.iter().copied() {
        for regime in regimes.iter().copied() {
            let place = Place { workload: workload.id, backend, at: 0, regime };
            let series = view.subjects(workload, backend).into_iter().map(|name| Series {
                name: name.to_owned(),
                colour: colour(view, name).unwrap_or_else(|| hue(view, name)),
                width: if view.kind(name) == Kind::Peer { 1 } else { 2 },
                points: points(&place, name),
            });
            let series: Vec<_> = series.filter(|series| !series.points.is_empty()).collect();
            let is_positive = |series: &Series| series.points.iter().any(|(_, value)| *value > 0.0);
            if series.iter().any(is_positive) {
                panels.push((title(backend, regime, &regimes), series));
            }
        }
    }
    panels
}

fn title(backend: &str, regime: Regime, regimes: &[Regime]) -> String {
    if regimes.len() == 1 {
        return backend.to_owned();
    }
    format!("{backend} · {}", names::regime(regime))
}

fn colour(view: &View<'_>, subject: &str) -> Option<RGBColor> {
    match view.kind(subject) {
        Kind::Ours => Some(OURS),
        Kind::Before => Some(BEFORE),
        Kind::Baseline => Some(BASELINE),
        Kind::Peer => None,
    }
}

fn hue(view: &View<'_>, subject: &str) -> RGBColor {
    let mut peers = view.results.subjects.iter().filter(|known| known.kind == Kind::Peer);
    let index = peers.position(|known| known.name == subject).unwrap_or(0);
    let [_, red, green, blue] = HUES[index % HUES.len()].to_be_bytes();
    RGBColor(red, green, blue)
}
