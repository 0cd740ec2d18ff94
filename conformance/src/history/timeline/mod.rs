mod draw;
mod items;
mod legend;
mod panel;
mod scale;

use std::time::Duration;

use svg::Document;
use svg::node::element::{Definitions, Group, Line, Pattern};

use self::draw::{GREY, INK, RED, WIDTH, badge, bold, lines, rectangle, text};
use self::items::{items, processes};
use self::legend::legend;
use self::panel::{Shown, panel};
use self::scale::Scale;
use super::hold::seconds;
use super::journal::Entry;
use super::run::Run;
use super::violation::Violation;

const MOST: usize = 12;

/// Draws a run as an SVG: rows for processes, bands for faults, and numbered red bands for
/// violations. For a long run, a second panel enlarges the first violation. Entries must be sorted
/// by timestamp.
pub fn timeline(entries: &[Entry], violations: &[Violation]) -> String {
    let run = Run::of(entries);
    let names: Vec<String> = run.names().into_iter().cloned().collect();
    let processes = processes(&run);
    let items = items(&run, &names);
    let marked = &violations[..violations.len().min(MOST)];
    let shown = Shown { run: &run, names: &names, processes: &processes, items: &items, marked };
    let (legend, mut bottom) = legend(&shown, 66.0);
    let mut body = Group::new().add(heading(&run, &processes, violations)).add(legend);
    for (title, scale) in panels(&run, marked) {
        if let Some(title) = title {
            body = body.add(bold(text(12.0, bottom + 18.0, 13.0, INK, &title)));
            bottom += 28.0;
        }
        let (panel, end) = panel(&shown, scale, bottom + 6.0);
        (body, bottom) = (body.add(panel), end + 8.0);
    }
    let (captions, bottom) = captions(violations, bottom);
    document(body.add(captions), bottom + 12.0)
}

fn document(body: Group, height: f64) -> String {
    let stripes = Line::new().set("x1", 0).set("y1", 0).set("x2", 0).set("y2", 7);
    let stopped = Pattern::new()
        .set("id", "stopped")
        .set("width", 7)
        .set("height", 7)
        .set("patternUnits", "userSpaceOnUse")
        .set("patternTransform", "rotate(45)")
        .add(stripes.set("stroke", GREY).set("stroke-width", 3).set("stroke-opacity", 0.45));
    let document = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", "Helvetica, Arial, sans-serif")
        .add(Definitions::new().add(stopped))
        .add(rectangle(0.0, 0.0, WIDTH, height, "#ffffff"))
        .add(body);
    document.to_string() + "\n"
}

fn heading(run: &Run, processes: &[String], violations: &[Violation]) -> Group {
    let length = run.end.saturating_since(run.start).as_secs_f64();
    let count = |number: usize, what: &str| match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    let title = if violations.is_empty() {
        "A run without violations".to_owned()
    } else {
        format!("A run with {}", count(violations.len(), "violation"))
    };
    let parts = [
        format!("{length:.3} s"),
        count(processes.len(), "process").replace("sss", "sses"),
        count(run.requests.len(), "request"),
        count(run.holds.iter().filter(|hold| !hold.is_part).count(), "hold"),
        count(run.faults.len(), "fault"),
    ];
    let colour = if violations.is_empty() { INK } else { RED };
    Group::new().add(bold(text(12.0, 26.0, 18.0, colour, &title))).add(text(
        12.0,
        44.0,
        12.0,
        GREY,
        &parts.join(", "),
    ))
}

fn panels(run: &Run, marked: &[Violation]) -> Vec<(Option<String>, Scale)> {
    let whole = Scale { zero: run.start, from: run.start, to: run.end };
    let mut panels = vec![(None, whole)];
    let mut times =
        marked.iter().zip(1_usize..).filter_map(|(one, number)| Some((one.time?, number)));
    if let Some(((from, to), number)) = times.next() {
        let around = (to.saturating_since(from) * 2).max(whole.length() / 40);
        let near = Scale {
            zero: run.start,
            from: (from - around).max(run.start),
            to: (to + around).min(run.end),
        };
        if near.length() < whole.length() / 8 && near.length() > Duration::ZERO {
            let (from, to) = (seconds(run.start, near.from), seconds(run.start, near.to));
            let title = format!("Around violation {number}: from {from:.3} s to {to:.3} s");
            panels.push((Some(title), near));
        }
    }
    panels
}

fn captions(violations: &[Violation], top: f64) -> (Group, f64) {
    let (mut group, mut y) = (Group::new(), top + 8.0);
    for (violation, number) in violations.iter().zip(1_usize..).take(MOST) {
        group = group.add(badge(20.0, y - 4.0, number));
        for line in lines(&violation.to_string(), 180) {
            group = group.add(text(36.0, y, 12.0, INK, &line));
            y += 16.0;
        }
        y += 6.0;
    }
    if violations.len() > MOST {
        let more = format!("and {} more", violations.len() - MOST);
        group = group.add(text(36.0, y, 12.0, GREY, &more));
        y += 16.0;
    }
    (group, y)
}
