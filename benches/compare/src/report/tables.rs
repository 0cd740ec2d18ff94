use std::collections::{BTreeMap, BTreeSet};

use super::names;
use super::page::{Page, plain};
use super::view::{Place, View, spread};
use crate::results::{Cell, Kind};
use crate::workload::Workload;

pub(super) fn glance(page: &mut Page, view: &View<'_>) {
    let is_speed = |workload: &&Workload| workload.grows.is_none() && workload.more_is_better;
    let workloads: Vec<_> = view.workloads().filter(is_speed).collect();
    let mut subjects = view.results.subjects.iter();
    let Some(ours) = subjects.find(|known| known.kind == Kind::Ours) else { return };
    let mut rows = Vec::new();
    for backend in &view.backends {
        let mut cells = vec![(*backend).to_owned()];
        cells.extend(workloads.iter().map(|workload| {
            per_regime(view, workload, (backend, &ours.name, 0), |cell| {
                Some(names::times(view.to_baseline(cell)?.ratio.median))
            })
        }));
        if cells[1..].iter().any(|cell| cell != names::NONE) {
            rows.push(cells);
        }
    }
    if rows.is_empty() {
        return;
    }
    let titles = workloads.iter().map(|workload| workload.title.to_owned());
    let head: Vec<_> = ["backend".to_owned()].into_iter().chain(titles).collect();
    page.heading("Lockwright and the baseline at a glance");
    page.paragraph(
        "Lockwright's speed as a share of the baseline's: on two cores / on one core. 1 is as \
         fast.",
    );
    page.table(&head, 1, &rows);
}

pub(super) fn figures(page: &mut Page, view: &View<'_>, workload: &Workload) {
    let figure = names::title(workload.measure);
    // A failed subject has fewer rounds.
    let cells = view.places(workload).flat_map(|place| view.at(&place).to_vec());
    let rounds = cells.filter_map(|cell| Some(spread(cell, workload.measure)?.rounds)).max();
    let rounds = match rounds.unwrap_or(0) {
        1 => "a single round".to_owned(),
        rounds => format!("{rounds} rounds"),
    };
    let better = if workload.more_is_better { "more" } else { "less" };
    let by = workload.grows.map_or_else(String::new, |grows| format!(", by {grows}"));
    page.paragraph(&format!(
        "The figure: {figure}{by}, the median of {rounds}; {better} is better. After the dot: its \
         ratio to the baseline's, with the spread."
    ));
    measured(page, view, workload);
    others(page, view, workload);
    notes(page, view, workload);
}

fn per_regime<'a>(
    view: &View<'a>,
    workload: &Workload,
    (backend, subject, at): (&'a str, &str, u64),
    figure: impl Fn(&'a Cell) -> Option<String>,
) -> String {
    let figures = view.regimes(workload).into_iter().map(|regime| {
        figure(view.cell(&Place { workload: workload.id, backend, at, regime }, subject)?)
    });
    let figures: Vec<_> = figures.collect();
    if figures.iter().all(Option::is_none) {
        return names::NONE.to_owned();
    }
    let written =
        figures.into_iter().map(|figure| figure.unwrap_or_else(|| names::NONE.to_owned()));
    written.collect::<Vec<_>>().join(" / ")
}

/// Writes each backend's name only in its first row.
fn table<'a>(
    page: &mut Page,
    view: &View<'a>,
    workload: &Workload,
    columns: impl IntoIterator<Item = String>,
    cells: impl Fn(&'a str, &'a str) -> Option<Vec<String>>,
) {
    let head: Vec<_> =
        ["backend", "subject"].map(str::to_owned).into_iter().chain(columns).collect();
    let mut rows = Vec::new();
    for backend in view.backends.iter().copied() {
        let mut name = backend;
        for subject in view.subjects(workload, backend) {
            let Some(cells) = cells(backend, subject) else { continue };
            let is_ours = view.kind(subject) == Kind::Ours;
            let strong = if is_ours { "**" } else { "" };
            let subject = format!("{strong}{}{strong}", plain(subject));
            let words = [std::mem::take(&mut name).to_owned(), subject];
            rows.push(words.into_iter().chain(cells).collect());
        }
    }
    page.table(&head, 2, &rows);
}

fn measured(page: &mut Page, view: &View<'_>, workload: &Workload) {
    let numbers = view.numbers(workload);
    let mut columns: Vec<_> = match workload.grows {
        Some(_) => numbers.iter().map(|at| names::count(*at as f64)).collect(),
        None => vec![names::title(workload.measure)],
    };
    columns[0] = format!("{}: {}", regimes(view, workload), columns[0]);
    table(page, view, workload, columns, |backend, subject| {
        let cells = numbers.iter().map(|at| {
            per_regime(view, workload, (backend, subject, *at), |cell| {
                let figure = spread(cell, workload.measure)?.median;
                let figure = names::figure(workload.measure, figure);
                let ratio = view.to_baseline(cell).map(|to| names::ratio(&to.ratio));
                Some(match ratio {
                    Some(ratio) if ratio != names::NONE => format!("{figure} · {ratio}"),
                    _ => figure,
                })
            })
        });
        Some(cells.collect())
    });
}

fn regimes(view: &View<'_>, workload: &Workload) -> String {
    view.regimes(workload).into_iter().map(names::regime).collect::<Vec<_>>().join(" / ")
}

/// Writes the workload's other measures, at each subject's largest number if one grows (of waiters,
/// for example).
fn others(page: &mut Page, view: &View<'_>, workload: &Workload) {
    let has = |cell: &Cell, measure: &str| cell.measures.contains_key(measure);
    let cells = || view.places(workload).flat_map(|place| view.at(&place).to_vec());
    let is_there = |measure: &&&str| cells().any(|cell| has(cell, measure));
    let measures: Vec<&str> = workload.columns.iter().filter(is_there).copied().collect();
    if measures.is_empty() {
        return;
    }
    let at = workload
        .grows
        .map_or_else(String::new, |grows| format!(", at each subject's largest number of {grows}"));
    page.paragraph(&format!("Other measures, {}{at}:", regimes(view, workload)));
    let columns = measures.iter().map(|measure| names::title(measure));
    let columns = workload.grows.map(str::to_owned).into_iter().chain(columns);
    table(page, view, workload, columns, |backend, subject| {
        let its = cells().filter(|cell| cell.backend == backend && cell.subject == subject);
        let its = its.filter(|cell| measures.iter().any(|measure| has(cell, measure)));
        let at = its.map(|cell| cell.at).max()?;
        let cells = measures.iter().map(|measure| {
            per_regime(view, workload, (backend, subject, at), |cell| {
                Some(names::figure(measure, spread(cell, measure)?.median))
            })
        });
        Some(workload.grows.map(|_| names::count(at as f64)).into_iter().chain(cells).collect())
    });
}

fn notes(page: &mut Page, view: &View<'_>, workload: &Workload) {
    type Numbers = BTreeSet<u64>;
    let mut notes: BTreeMap<&str, BTreeMap<&str, BTreeMap<&str, Numbers>>> = BTreeMap::new();
    for cell in view.places(workload).flat_map(|place| view.at(&place).to_vec()) {
        let Some(note) = &cell.note else { continue };
        let whom = notes.entry(note).or_default().entry(&cell.subject).or_default();
        whom.entry(&cell.backend).or_default().insert(cell.at);
    }
    if notes.is_empty() {
        return;
    }
    let all = view.numbers(workload);
    let place = |(backend, numbers): (&str, Numbers)| {
        if numbers.len() == all.len() {
            return backend.to_owned();
        }
        let numbers: Vec<_> = numbers.iter().map(|at| names::count(*at as f64)).collect();
        format!("{backend} with {}", numbers.join(" and "))
    };
    page.paragraph("Notes of the run:");
    page.list(notes.into_iter().map(|(note, whom)| {
        let whom = whom.into_iter().map(|(who, places)| {
            let places: Vec<String> = places.into_iter().map(place).collect();
            format!("{who} ({})", places.join(", "))
        });
        (plain(note), vec![plain(&whom.collect::<Vec<_>>().join("; "))])
    }));
}
