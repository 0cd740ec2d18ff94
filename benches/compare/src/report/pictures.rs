//! The pictures of a report.

use super::document::Picture;
use super::names;
use super::plots::{Panel, Panels, Point, PointRow, Points, Series};
use super::statistics::Spread;
use super::view::{Place, View, spread};
use crate::results::{Kind, Regime};
use crate::workload::Workload;

pub(super) const KINDS: [&str; 3] = ["points", "latency", "growth"];

const OURS: &str = "#0b6bcb";
const BEFORE: &str = "#7fb2e5";
const BASELINE: &str = "#6e7781";
/// Peers' points are labelled.
const PEER: &str = "#a9b8c6";
const LINES: [&str; 8] =
    ["#d9730d", "#2e8b57", "#b5418b", "#8a6d3b", "#c0392b", "#0f9d9d", "#7b61c9", "#9a9a00"];

pub(super) fn all(view: &View<'_>) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for workload in view.workloads() {
        if workload.grows.is_some() {
            pictures.extend(growth(view, workload));
        } else {
            pictures.extend(points(view, workload));
            pictures.extend(latency(view, workload));
        }
    }
    pictures
}

/// By the ratio to the baseline. Where less is better, by the figure, as that baseline is often
/// zero.
fn points(view: &View<'_>, workload: &Workload) -> Option<Picture> {
    let are_ratios = workload.more_is_better;
    let regimes = view.regimes(workload);
    let value = |backend, subject, regime| {
        let place = Place { workload: workload.id, backend, at: 0, regime };
        let cell = view.cell(&place, subject)?;
        let (spread, text) = if are_ratios {
            let ratio = view.to_baseline(cell)?.ratio;
            (ratio, names::times(ratio.median))
        } else {
            let spread = spread(cell, workload.measure)?;
            (spread, names::figure(workload.measure, spread.median))
        };
        let Spread { low, median, high, .. } = spread;
        high.is_finite().then_some(Point { low, value: median, high, text })
    };
    let mut groups = Vec::new();
    for backend in view.backends.iter().copied() {
        let subjects = view.subjects(workload, backend).into_iter();
        let shown = subjects.filter(|name| !are_ratios || view.kind(name) != Kind::Baseline);
        let rows = shown.map(|name| PointRow {
            name: name.to_owned(),
            colour: match view.kind(name) {
                Kind::Ours => OURS,
                Kind::Before => BEFORE,
                Kind::Baseline => BASELINE,
                Kind::Peer => PEER,
            },
            points: regimes.iter().map(|regime| value(backend, name, *regime)).collect(),
        });
        let rows: Vec<PointRow> =
            rows.filter(|row| row.points.iter().any(Option::is_some)).collect();
        if !rows.is_empty() {
            groups.push((backend.to_owned(), rows));
        }
    }
    if groups.is_empty() {
        return None;
    }
    let measure = names::title(workload.measure);
    let (caption, alt) = if are_ratios {
        (
            format!(
                "{measure}: ratio to the baseline, which is the line at 1; more is better; \
                     the line through a point is its spread"
            ),
            format!("{}: each subject's ratio to the baseline, by backend.", workload.title),
        )
    } else {
        (
            format!("{measure}; less is better; the line through a point is its spread"),
            format!("{}: {measure}, by backend and subject.", workload.title),
        )
    };
    let plot = Points {
        title: workload.title.to_owned(),
        caption,
        panels: regimes.iter().map(|regime| names::regime(*regime).to_owned()).collect(),
        groups,
        base: are_ratios.then_some(1.0),
        tick: if are_ratios { names::tick } else { names::count },
    };
    Some(Picture { file: format!("{}-points.svg", workload.id), alt, svg: plot.draw() })
}

fn latency(view: &View<'_>, workload: &Workload) -> Option<Picture> {
    let mut panels = Vec::new();
    let mut last = 0.5_f64;
    for backend in view.backends.iter().copied() {
        for regime in view.regimes(workload) {
            let place = Place { workload: workload.id, backend, at: 0, regime };
            let shares = view.at(&place).iter().flat_map(|cell| &cell.distribution);
            last =
                shares.map(|(share, _)| *share).filter(|share| *share < 1.0).fold(last, f64::max);
            panels.push((place, format!("{backend} · {}", names::regime(regime))));
        }
    }
    let longest = spaced(last) + 0.6;
    let at = |share: f64| if share < 1.0 { spaced(share) } else { longest };
    let panels = panels.into_iter().map(|(place, title)| {
        let series = series(view, workload, &place, |subject| {
            let cell = view.cell(&place, subject)?;
            let points = cell
                .distribution
                .iter()
                .filter(|(share, time)| (0.0..=1.0).contains(share) && time.is_finite());
            Some(points.map(|(share, time)| (at(*share), *time)).collect())
        });
        Panel { title, series }
    });
    let panels: Vec<Panel> = panels.filter(|panel| !panel.series.is_empty()).collect();
    if panels.is_empty() {
        return None;
    }
    let ticks = [(0.0, ""), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %")];
    let ticks = ticks.into_iter().filter(|(share, _)| *share <= last);
    let mut ticks: Vec<_> = ticks.map(|(share, label)| (spaced(share), label.to_owned())).collect();
    ticks.push((longest, "longest".to_owned()));
    let what = if workload.id == "pairs" { "pairs" } else { "waits" };
    let plot = Panels {
        title: format!("{}: how long the {what} take", workload.title),
        caption: format!(
            "to the right: the share of {what} that took no longer; upwards: how long"
        ),
        measure: "p50_us",
        panels,
        ticks,
        dots: false,
    };
    Some(Picture {
        file: format!("{}-latency.svg", workload.id),
        alt: format!(
            "{}: percentiles of how long the {what} take, by backend and subject.",
            workload.title
        ),
        svg: plot.draw(),
    })
}

fn spaced(share: f64) -> f64 {
    -(1.0 - share).log10()
}

fn growth(view: &View<'_>, workload: &Workload) -> Option<Picture> {
    let grows = workload.grows?;
    let numbers = view.numbers(workload);
    let regimes = view.regimes(workload);
    let along = |at: u64| (at.max(1) as f64).log10();
    let mut panels = Vec::new();
    for backend in view.backends.iter().copied() {
        for regime in regimes.iter().copied() {
            let place = Place { workload: workload.id, backend, at: 0, regime };
            let series = series(view, workload, &place, |subject| {
                let point = |at: &u64| {
                    let cell = view.cell(&Place { at: *at, ..place }, subject)?;
                    let value = spread(cell, workload.measure)?.median;
                    value.is_finite().then_some((along(*at), value))
                };
                Some(numbers.iter().filter_map(point).collect())
            });
            if !series.is_empty() {
                panels.push(Panel { title: title(backend, regime, &regimes), series });
            }
        }
    }
    if panels.is_empty() {
        return None;
    }
    let measure = names::title(workload.measure);
    let better = if workload.more_is_better { "more" } else { "less" };
    let plot = Panels {
        title: workload.title.to_owned(),
        caption: format!("to the right: {grows}; upwards: {measure}, {better} is better"),
        measure: workload.measure,
        panels,
        ticks: numbers.iter().map(|at| (along(*at), names::count(*at as f64))).collect(),
        dots: true,
    };
    Some(Picture {
        file: format!("{}-growth.svg", workload.id),
        alt: format!("{}: {measure} by {grows}, by backend and subject.", workload.title),
        svg: plot.draw(),
    })
}

fn title(backend: &str, regime: Regime, regimes: &[Regime]) -> String {
    if regimes.len() == 1 {
        return backend.to_owned();
    }
    format!("{backend} · {}", names::regime(regime))
}

fn series<'a>(
    view: &View<'a>,
    workload: &Workload,
    place: &Place<'a>,
    points: impl Fn(&str) -> Option<Vec<(f64, f64)>>,
) -> Vec<Series> {
    let subjects = view.subjects(workload, place.backend);
    let lines = subjects.into_iter().filter_map(|name| {
        let points = points(name).filter(|points| !points.is_empty())?;
        let (colour, dash) = line(view, name);
        Some(Series { name: name.to_owned(), colour, dash, points })
    });
    lines.collect()
}

fn line(view: &View<'_>, subject: &str) -> (&'static str, &'static str) {
    match view.kind(subject) {
        Kind::Ours => (OURS, ""),
        Kind::Before => (BEFORE, "5 3"),
        Kind::Baseline => (BASELINE, "5 3"),
        Kind::Peer => {
            let peers = view.results.subjects.iter().filter(|known| known.kind == Kind::Peer);
            let index = peers.into_iter().position(|known| known.name == subject).unwrap_or(0);
            (LINES[index % LINES.len()], ["", "2 2", "8 2 2 2"][index / LINES.len() % 3])
        }
    }
}
