use svg::node::element::{Group, Title};

use super::draw::{
    FAINT, FAULT, GREY, INK, LEFT, RED, RIGHT, badge, bold, colour, line, rectangle, text,
    triangle, width, write,
};
use super::items::Item;
use super::scale::{Lanes, Scale};
use crate::history::hold::Hold;
use crate::history::run::Run;
use crate::history::violation::Violation;

/// Heights in pixels.
const LANE: f64 = 26.0;
const BAND: f64 = 20.0;
const BAR: f64 = 16.0;

pub(super) struct Shown<'a> {
    pub(super) run: &'a Run,
    pub(super) names: &'a [String],
    pub(super) processes: &'a [String],
    pub(super) items: &'a [Item],
    pub(super) marked: &'a [Violation],
}

struct Row {
    top: f64,
    bottom: f64,
    has_states: bool,
    items: Vec<(usize, usize)>,
}

pub(super) fn panel(shown: &Shown<'_>, scale: Scale, top: f64) -> (Group, f64) {
    let (faults, rows_top) = faults(shown, scale, top);
    let (badges, rows_top) = badges(shown, scale, rows_top);
    let (rows, bottom) = rows(shown, scale, rows_top);
    let mut group = Group::new().add(axis(scale, rows_top, bottom));
    for row in &rows {
        group = group.add(line((12.0, row.bottom), (RIGHT, row.bottom), FAINT, 1.0));
    }
    group = group.add(fault_bands(shown, scale, rows_top, bottom)).add(faults);
    for (who, row) in shown.processes.iter().zip(&rows) {
        group = group.add(states(shown.run, who, scale, row)).add(label(who, row));
    }
    for (violation, index) in shown.marked.iter().zip(1_usize..) {
        group = group.add(violation_band(shown, violation, scale, &rows, index));
    }
    for row in &rows {
        for (item, lane) in &row.items {
            group = group.add(bar(shown, &shown.items[*item], scale, row, *lane));
        }
    }
    (group.add(badges), bottom + 38.0)
}

fn axis(scale: Scale, top: f64, bottom: f64) -> Group {
    let mut group = Group::new();
    for (x, label) in scale.ticks() {
        let label = text(x, bottom + 16.0, 11.0, GREY, &label).set("text-anchor", "middle");
        group = group.add(line((x, top), (x, bottom + 4.0), FAINT, 1.0)).add(label);
    }
    let title =
        text((LEFT + RIGHT) / 2.0, bottom + 31.0, 11.0, GREY, "seconds since the beginning");
    group
        .add(line((LEFT, bottom), (RIGHT, bottom), GREY, 1.0))
        .add(title.set("text-anchor", "middle"))
}

fn faults(shown: &Shown<'_>, scale: Scale, top: f64) -> (Group, f64) {
    let mut spans: Vec<_> = shown
        .run
        .faults
        .iter()
        .map(|fault| {
            let label = format!("{}: {}", fault.fault, fault.target);
            let effect = fault.effect.as_deref().map(|effect| format!(", {effect}"));
            (fault.from, fault.to.unwrap_or(shown.run.end), label + &effect.unwrap_or_default())
        })
        .collect();
    let breaks = shown.run.breaks.iter();
    spans.extend(breaks.map(|one| (one.at, one.at, format!("break: {}, at once", one.name))));
    spans.retain(|(from, to, _)| scale.shows(*from, *to));
    spans.sort_by_key(|(from, ..)| *from);
    let (mut group, mut lanes) = (Group::new(), Lanes::default());
    for (from, to, label) in &spans {
        let (x, wide) = scale.span(*from, *to, 3.0);
        let label_width = width(label, 11.0);
        let start = if label_width + 8.0 <= wide {
            x + 4.0
        } else if x + wide + 4.0 + label_width <= RIGHT {
            x + wide + 4.0
        } else {
            (x - 4.0 - label_width).max(LEFT)
        };
        let lane = lanes.take(x.min(start), (x + wide).max(start + label_width) + 8.0);
        let y = top + lane as f64 * BAND;
        let bar = rectangle(x, y + 1.0, wide, BAND - 4.0, FAULT).set("fill-opacity", 0.3);
        group = group.add(bar.set("stroke", FAULT)).add(text(start, y + 13.0, 11.0, INK, label));
    }
    if !spans.is_empty() {
        group = group.add(text(12.0, top + 13.0, 12.0, GREY, "faults"));
    }
    (group, top + lanes.count() as f64 * BAND + 6.0)
}

fn fault_bands(shown: &Shown<'_>, scale: Scale, top: f64, bottom: f64) -> Group {
    let mut group = Group::new();
    for fault in &shown.run.faults {
        let to = fault.to.unwrap_or(shown.run.end);
        if scale.shows(fault.from, to) {
            let (x, wide) = scale.span(fault.from, to, 1.0);
            let band = rectangle(x, top, wide, bottom - top, FAULT);
            group = group.add(band.set("fill-opacity", 0.08));
        }
    }
    group
}

fn badges(shown: &Shown<'_>, scale: Scale, top: f64) -> (Group, f64) {
    let (mut group, mut lanes) = (Group::new(), Lanes::default());
    let mut placed: Vec<_> = shown
        .marked
        .iter()
        .zip(1_usize..)
        .filter_map(|(violation, number)| Some((middle(violation, scale)?, number)))
        .collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (x, number) in &placed {
        let lane = lanes.take(x - 9.0, x + 9.0);
        group = group.add(badge(*x, top + 10.0 + lane as f64 * BAND, *number));
    }
    if !placed.is_empty() {
        group = group.add(text(12.0, top + 14.0, 12.0, RED, "violations"));
    }
    (group, top + lanes.count() as f64 * BAND + 4.0)
}

fn middle(violation: &Violation, scale: Scale) -> Option<f64> {
    let (from, to) = violation.time?;
    scale.shows(from, to).then(|| (scale.x(from) + scale.x(to)) / 2.0)
}

fn rows(shown: &Shown<'_>, scale: Scale, top: f64) -> (Vec<Row>, f64) {
    let (mut rows, mut top) = (Vec::new(), top);
    for who in shown.processes {
        let process = shown.run.process(who);
        let has_states = !process.stops.is_empty() || process.killed.is_some();
        let (mut items, mut lanes) = (Vec::new(), Lanes::default());
        for (index, item) in shown.items.iter().enumerate().filter(|(_, item)| item.who == *who) {
            if scale.shows(item.waits_from, item.end()) {
                let room = if item.writes.is_empty() && item.lost.is_none() { 0.0 } else { 5.0 };
                let (from, to) = (scale.x(item.waits_from), scale.x(item.end()) + room);
                items.push((index, lanes.take(from, to.max(from + 1.0))));
            }
        }
        let states = if has_states { BAND - 2.0 } else { 0.0 };
        let bottom = top + states + lanes.count().max(1) as f64 * LANE + 6.0;
        rows.push(Row { top, bottom, has_states, items });
        top = bottom;
    }
    (rows, top)
}

fn label(who: &str, row: &Row) -> Group {
    let most = ((LEFT - 24.0) / (12.0 * 0.58)) as usize;
    let short: String = if who.chars().count() > most {
        who.chars().take(most - 1).chain(['…']).collect()
    } else {
        who.to_owned()
    };
    let label = bold(text(12.0, (row.top + row.bottom) / 2.0 + 4.0, 12.0, INK, &short));
    Group::new().add(Title::new(who)).add(label)
}

fn states(run: &Run, who: &str, scale: Scale, row: &Row) -> Group {
    let (process, mut group) = (run.process(who), Group::new());
    let height = row.bottom - row.top;
    for (from, to) in &process.stops {
        let to = (*to).min(process.killed.unwrap_or(run.end));
        if scale.shows(*from, to) {
            let (x, wide) = (scale.x(*from), scale.x(to) - scale.x(*from));
            let label = format!("stopped for {:.3} s", to.saturating_since(*from).as_secs_f64());
            let labels = [&*label, "stopped"];
            group = group
                .add(rectangle(x, row.top, wide.max(1.0), height, "url(#stopped)"))
                .add(state(&labels, x, wide, row.top));
        }
    }
    if let Some(killed) = process.killed.filter(|killed| scale.shows(*killed, scale.to)) {
        let x = scale.x(killed).max(LEFT);
        group = group
            .add(rectangle(x, row.top, RIGHT - x, height, GREY).set("fill-opacity", 0.18))
            .add(line((x, row.top), (x, row.bottom), INK, 2.0))
            .add(state(&["killed"], x + 2.0, RIGHT - x, row.top));
    }
    group
}

fn state(labels: &[&str], x: f64, room: f64, top: f64) -> Group {
    match labels.iter().find(|label| width(label, 11.0) + 8.0 <= room) {
        Some(label) => Group::new().add(text(x + 4.0, top + 14.0, 11.0, INK, label)),
        None => Group::new(),
    }
}

fn bar(shown: &Shown<'_>, item: &Item, scale: Scale, row: &Row, lane: usize) -> Group {
    let (fill, on_it) = colour(item.name);
    let states = if row.has_states { BAND - 2.0 } else { 0.0 };
    let y = row.top + states + lane as f64 * LANE + 6.0;
    let mut group = Group::new().add(Title::new(&item.tooltip));
    if scale.shows(item.waits_from, item.waits_to) {
        let (x, wide) = scale.span(item.waits_from, item.waits_to, 1.0);
        let wait = rectangle(x, y + 4.0, wide, BAR - 8.0, fill).set("fill-opacity", 0.18);
        group = group.add(wait.set("stroke", fill).set("stroke-width", 0.7));
    }
    if let Some(hold) = item.hold.as_ref().filter(|hold| scale.shows(hold.granted, hold.until)) {
        let (x, wide) = scale.span(hold.granted, hold.until, 1.0);
        let is_this = |other: &Hold| other.who == hold.who && other.token == hold.token;
        let is_wrong = shown.marked.iter().any(|violation| violation.holds.iter().any(is_this));
        let edge = if is_wrong { RED } else { fill };
        let bar = rectangle(x, y, wide, BAR, fill).set("rx", 2).set("stroke", edge);
        let edge_width = if edge == RED { 2.0 } else { 0.5 };
        group = group.add(bar.set("stroke-width", edge_width));
        let room = clear_of_writes(item, scale, x, wide);
        let labels = hold_labels(hold, &shown.names[item.name], shown.names.len());
        if let Some(label) = labels.iter().find(|label| width(label, 11.0) + 10.0 <= room) {
            group = group.add(text(x + 5.0, y + 12.0, 11.0, on_it, label));
        }
    }
    for (at, accepted) in item.writes.iter().filter(|(at, _)| scale.shows(*at, *at)) {
        group = group.add(write(scale.x(*at), y + BAR / 2.0, *accepted));
    }
    if let Some(lost) = item.lost.filter(|lost| scale.shows(*lost, *lost)) {
        group = group.add(triangle(scale.x(lost), y - 5.0));
    }
    group
}

fn clear_of_writes(item: &Item, scale: Scale, x: f64, wide: f64) -> f64 {
    let shown = item.writes.iter().filter(|(at, _)| scale.shows(*at, *at));
    let writes = shown.map(|(at, _)| scale.x(*at) - x - 5.0);
    writes.filter(|clear| *clear > -5.0).fold(wide, f64::min)
}

/// Returns a hold's possible labels, the longest first.
fn hold_labels(hold: &Hold, name: &str, names: usize) -> Vec<String> {
    let what = match (hold.mode, hold.permits()) {
        (_, Some((count, of))) => format!("{count} of {of} permits"),
        (lockwright_core::Mode::Shared, _) => format!("reads, fence {}", hold.fence),
        _ => format!("fence {}", hold.fence),
    };
    let mut labels = vec![what.clone(), hold.fence.to_string()];
    if names > 1 {
        labels.insert(0, format!("{name}, {what}"));
    }
    labels
}

fn violation_band(
    shown: &Shown<'_>,
    violation: &Violation,
    scale: Scale,
    rows: &[Row],
    number: usize,
) -> Group {
    let Some((from, to)) = violation.time else { return Group::new() };
    if !scale.shows(from, to) {
        return Group::new();
    }
    let all = violation.who.is_empty();
    let is_meant = |(who, _): &(&String, &Row)| all || violation.who.contains(who);
    let mut concerned = shown.processes.iter().zip(rows).filter(is_meant).map(|(_, row)| row);
    let Some(first) = concerned.next() else { return Group::new() };
    let last = concerned.next_back().unwrap_or(first);
    let (x, wide) = scale.span(from, to, 2.0);
    let band = rectangle(x, first.top, wide, last.bottom - first.top, RED);
    let stem = line((x + wide / 2.0, rows[0].top), (x + wide / 2.0, first.top), RED, 1.0);
    let band = band.set("fill-opacity", 0.22).set("stroke", RED).set("stroke-width", 0.8);
    let band = band.add(Title::new(format!("violation {number}")));
    Group::new().add(stem).add(band)
}
