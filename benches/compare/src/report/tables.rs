//! The figures of each workload.

use std::collections::{BTreeMap, BTreeSet};

use super::Extent;
use super::document::{Block, Item, Line, Picture, Row, Table};
use super::names;
use super::view::{Place, View, spread};
use crate::results::{Kind, Regime};
use crate::workload::Workload;

pub(super) fn glance(view: &View<'_>) -> Vec<Block> {
    let workloads: Vec<_> = view.workloads().filter(|workload| workload.grows.is_none()).collect();
    let workloads: Vec<_> =
        workloads.into_iter().filter(|workload| workload.more_is_better).collect();
    let ours = view.results.subjects.iter().filter(|known| known.kind == Kind::Ours);
    let mut rows = Vec::new();
    for ours in ours {
        for backend in &view.backends {
            let cell = |workload: &&&Workload| {
                per_regime(view, workload, |regime| {
                    let place = Place { workload: workload.id, backend, at: 0, regime };
                    let against = view.to_baseline(view.cell(&place, &ours.name)?)?;
                    Some(names::times(against.ratio.median))
                })
            };
            let mut cells = vec![(*backend).to_owned()];
            cells.extend(workloads.iter().map(|workload| cell(&workload)));
            if cells[1..].iter().any(|cell| cell != names::NONE) {
                rows.push(Row { cells, stands_out: false });
            }
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let mut head = vec!["backend".to_owned()];
    head.extend(workloads.iter().map(|workload| workload.title.to_owned()));
    vec![
        Block::heading("Lockwright and the baseline at a glance"),
        Block::text(
            "Lockwright's speed as a share of the baseline's: on two cores / on one core. 1 is as \
             fast.",
        ),
        Block::Table(Table { head, words: 1, rows }),
    ]
}

pub(super) fn workload(
    view: &View<'_>,
    workload: &Workload,
    pictures: &[Picture],
    extent: Extent,
) -> Vec<Block> {
    let mut blocks = vec![Block::heading(workload.title), Block::text(workload.what)];
    if extent == Extent::Full {
        blocks.extend(all_figures(view, workload));
    }
    let id = format!("{}-", workload.id);
    let known =
        |rest: &str| super::pictures::KINDS.iter().any(|kind| rest == format!("{kind}.svg"));
    let its = pictures.iter().filter(|picture| picture.file.strip_prefix(&id).is_some_and(known));
    blocks.extend(its.cloned().map(Block::Picture));
    blocks
}

fn all_figures(view: &View<'_>, workload: &Workload) -> Vec<Block> {
    let mut blocks = Vec::new();
    let better = if workload.more_is_better { "more" } else { "less" };
    let figure = names::title(workload.measure);
    let rounds = match rounds(view, workload) {
        1 => "a single round".to_owned(),
        rounds => format!("{rounds} rounds"),
    };
    match workload.grows {
        None => {
            blocks.push(Block::text(format!(
                "The figure: {figure}, the median of {rounds}; {better} is better. The next \
                 column has its ratio to the baseline's, with the spread."
            )));
            blocks.push(Block::Table(figures(view, workload)));
            blocks.extend(beside(view, workload));
        }
        Some(grows) => {
            blocks.push(Block::text(format!(
                "The figure: {figure}, by {grows}, the median of {rounds}; {better} is better. In \
                 brackets its ratio to the baseline's."
            )));
            blocks.push(Block::Table(growth(view, workload)));
            blocks.extend(beside_growth(view, workload, grows));
        }
    }
    blocks.extend(notes(view, workload));
    blocks
}

/// A failed subject has fewer rounds.
fn rounds(view: &View<'_>, workload: &Workload) -> usize {
    let cells = view.places(workload).flat_map(|place| view.at(&place).to_vec());
    let rounds =
        cells.filter_map(|cell| spread(cell, workload.measure)).map(|spread| spread.rounds);
    rounds.max().unwrap_or(0)
}

fn per_regime(
    view: &View<'_>,
    workload: &Workload,
    figure: impl Fn(Regime) -> Option<String>,
) -> String {
    let cells: Vec<_> = view.regimes(workload).into_iter().map(figure).collect();
    if cells.iter().all(Option::is_none) {
        return names::NONE.to_owned();
    }
    let written = cells.into_iter().map(|cell| cell.unwrap_or_else(|| names::NONE.to_owned()));
    written.collect::<Vec<_>>().join(" / ")
}

/// The backend's name is in its first row.
fn rows(
    view: &View<'_>,
    workload: &Workload,
    cells: impl Fn(&str, &str) -> Option<Vec<String>>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for backend in &view.backends {
        let mut name = *backend;
        for subject in view.subjects(workload, backend) {
            let Some(cells) = cells(backend, subject) else { continue };
            let words = [std::mem::take(&mut name).to_owned(), subject.to_owned()];
            let stands_out = view.kind(subject) == Kind::Ours;
            rows.push(Row { cells: words.into_iter().chain(cells).collect(), stands_out });
        }
    }
    rows
}

fn head(more: impl IntoIterator<Item = String>) -> Vec<String> {
    ["backend", "subject"].map(str::to_owned).into_iter().chain(more).collect()
}

fn figures(view: &View<'_>, workload: &Workload) -> Table {
    let regimes = view.regimes(workload);
    let rows = rows(view, workload, |backend, subject| {
        let cells = regimes.iter().flat_map(|regime| {
            let place = Place { workload: workload.id, backend, at: 0, regime: *regime };
            let found = view.cell(&place, subject);
            let figure = found.and_then(|cell| spread(cell, workload.measure));
            let is_baseline = view.kind(subject) == Kind::Baseline;
            let ratio = found.filter(|_| !is_baseline).and_then(|cell| view.to_baseline(cell));
            [
                figure.map(|figure| names::figure(workload.measure, figure.median)),
                ratio.map(|ratio| names::ratio(&ratio.ratio)),
            ]
        });
        Some(cells.map(|cell| cell.unwrap_or_else(|| names::NONE.to_owned())).collect())
    });
    let columns = regimes
        .iter()
        .flat_map(|regime| [names::regime(*regime).to_owned(), "to the baseline".to_owned()]);
    Table { head: head(columns), words: 2, rows }
}

fn beside(view: &View<'_>, workload: &Workload) -> Vec<Block> {
    let is_there = |measure: &&&str| {
        view.places(workload)
            .any(|place| view.at(&place).iter().any(|cell| cell.measures.contains_key(**measure)))
    };
    let measures: Vec<_> = workload.beside.iter().filter(is_there).collect();
    if measures.is_empty() {
        return Vec::new();
    }
    let rows = rows(view, workload, |backend, subject| {
        let cells = measures.iter().map(|measure| {
            per_regime(view, workload, |regime| {
                let place = Place { workload: workload.id, backend, at: 0, regime };
                let figure = spread(view.cell(&place, subject)?, measure)?;
                Some(names::figure(measure, figure.median))
            })
        });
        let cells: Vec<String> = cells.collect();
        cells.iter().any(|cell| cell != names::NONE).then_some(cells)
    });
    let regimes: Vec<_> = view
        .regimes(workload)
        .into_iter()
        .map(|regime| format!("on {}", names::regime(regime)))
        .collect();
    let columns = measures.iter().map(|measure| names::title(measure));
    vec![
        Block::text(format!("Other measures, {}:", regimes.join(" / "))),
        Block::Table(Table { head: head(columns), words: 2, rows }),
    ]
}

fn growth(view: &View<'_>, workload: &Workload) -> Table {
    let (numbers, regimes) = (view.numbers(workload), view.regimes(workload));
    let rows = rows(view, workload, |backend, subject| {
        let cells = numbers.iter().map(|at| {
            per_regime(view, workload, |regime| {
                let place = Place { workload: workload.id, backend, at: *at, regime };
                let cell = view.cell(&place, subject)?;
                let figure = spread(cell, workload.measure)?.median;
                let figure = names::figure(workload.measure, figure);
                let is_baseline = view.kind(subject) == Kind::Baseline;
                let ratio = view.to_baseline(cell).filter(|_| !is_baseline);
                Some(match ratio.map(|ratio| names::times(ratio.ratio.median)) {
                    Some(ratio) if ratio != names::NONE => format!("{figure} ({ratio})"),
                    _ => figure,
                })
            })
        });
        Some(cells.collect())
    });
    let mut first =
        regimes.iter().map(|regime| names::regime(*regime)).collect::<Vec<_>>().join(" / ");
    let columns = numbers.iter().map(|at| match std::mem::take(&mut first) {
        regimes if regimes.is_empty() => names::count(*at as f64),
        regimes => format!("{regimes}: {}", names::count(*at as f64)),
    });
    Table { head: head(columns), words: 2, rows }
}

fn beside_growth(view: &View<'_>, workload: &Workload, grows: &str) -> Vec<Block> {
    let numbers = view.numbers(workload);
    let rows = rows(view, workload, |backend, subject| {
        let has_any = |at: &&u64| {
            view.regimes(workload).into_iter().any(|regime| {
                let place = Place { workload: workload.id, backend, at: **at, regime };
                let cell = view.cell(&place, subject);
                cell.is_some_and(|cell| {
                    workload.beside.iter().any(|measure| cell.measures.contains_key(*measure))
                })
            })
        };
        let at = *numbers.iter().rev().find(has_any)?;
        let mut cells = vec![names::count(at as f64)];
        cells.extend(workload.beside.iter().map(|measure| {
            per_regime(view, workload, |regime| {
                let place = Place { workload: workload.id, backend, at, regime };
                let figure = spread(view.cell(&place, subject)?, measure)?;
                Some(names::figure(measure, figure.median))
            })
        }));
        Some(cells)
    });
    if rows.is_empty() {
        return Vec::new();
    }
    let columns = workload.beside.iter().map(|measure| names::title(measure));
    let head = head([grows.to_owned()].into_iter().chain(columns));
    vec![
        Block::text(format!("Other measures, at each subject's largest number of {grows}:")),
        Block::Table(Table { head, words: 2, rows }),
    ]
}

/// Each note once, with its subjects.
fn notes(view: &View<'_>, workload: &Workload) -> Vec<Block> {
    type Numbers = BTreeSet<u64>;
    let mut notes: BTreeMap<&str, BTreeMap<&str, BTreeMap<&str, Numbers>>> = BTreeMap::new();
    for place in view.places(workload) {
        for cell in view.at(&place) {
            let Some(note) = &cell.note else { continue };
            let whom = notes.entry(note).or_default().entry(&cell.subject).or_default();
            whom.entry(&cell.backend).or_default().insert(cell.at);
        }
    }
    if notes.is_empty() {
        return Vec::new();
    }
    let all = view.numbers(workload);
    let place = |(backend, numbers): (&str, Numbers)| {
        if numbers.len() == all.len() {
            return backend.to_owned();
        }
        let numbers: Vec<_> = numbers.iter().map(|at| names::count(*at as f64)).collect();
        format!("{backend} with {}", numbers.join(" and "))
    };
    let items = notes.into_iter().map(|(note, whom)| {
        let whom = whom.into_iter().map(|(who, places)| {
            let places: Vec<String> = places.into_iter().map(place).collect();
            format!("{who} ({})", places.join(", "))
        });
        let whom = whom.collect::<Vec<_>>().join("; ");
        Item { line: Line::from(note), below: vec![Line::from(whom)] }
    });
    vec![Block::text("Notes of the run:"), Block::List(items.collect())]
}
