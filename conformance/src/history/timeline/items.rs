use std::collections::BTreeSet;

use lockwright_core::BootInstant;

use crate::history::hold::Hold;
use crate::history::run::{End, Run, Tracked, WriteOf};

/// A request with its hold, or the part of a hold after a late renewal.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) who: String,
    pub(super) name: usize,
    pub(super) waits_from: BootInstant,
    pub(super) waits_to: BootInstant,
    pub(super) hold: Option<Hold>,
    pub(super) lost: Option<BootInstant>,
    pub(super) writes: Vec<(BootInstant, bool)>,
    pub(super) tooltip: String,
}

impl Item {
    fn new(who: &str, name: usize, at: BootInstant) -> Self {
        Self { who: who.to_owned(), name, waits_from: at, waits_to: at, ..Self::default() }
    }

    pub(super) fn end(&self) -> BootInstant {
        let until = self.hold.as_ref().map_or(self.waits_to, |hold| hold.until);
        let writes = self.writes.iter().map(|(at, _)| *at);
        writes.chain(self.lost).fold(until, BootInstant::max)
    }
}

pub(super) fn processes(run: &Run) -> Vec<String> {
    let mut processes: Vec<String> = Vec::new();
    for request in &run.requests {
        if !processes.contains(&request.who) {
            processes.push(request.who.clone());
        }
    }
    processes
}

pub(super) fn items(run: &Run, names: &[String]) -> Vec<Item> {
    let number = |name: &String| names.iter().position(|other| other == name).unwrap_or_default();
    let mut writes: Vec<Vec<(BootInstant, bool)>> = vec![Vec::new(); run.holds.len()];
    for WriteOf { hold, write, .. } in &run.writes {
        writes[*hold].push((write.answered, write.accepted));
    }
    let mut items = Vec::new();
    let mut shown = BTreeSet::new();
    for request in &run.requests {
        let mut item = Item::new(&request.who, number(&request.name), request.asked);
        item.waits_to = run.wait_end(request);
        item.tooltip = format!("{} asks for {}, {}", request.who, request.name, request.mode);
        // Several guards can share a hold, but only one request shows its bar.
        if let Some(hold) = request.hold.filter(|hold| shown.insert(*hold)) {
            fill(&run.holds[hold], &mut item);
            item.writes = std::mem::take(&mut writes[hold]);
        }
        items.push(item);
    }
    for (tracked, writes) in run.holds.iter().zip(writes).filter(|(tracked, _)| tracked.is_part) {
        let hold = &tracked.hold;
        let mut item = Item::new(&hold.who, number(&hold.name), hold.granted);
        fill(tracked, &mut item);
        items.push(Item { writes, ..item });
    }
    items.sort_by_key(|item| item.waits_from);
    items
}

fn fill(tracked: &Tracked, item: &mut Item) {
    let hold = &tracked.hold;
    let end = match tracked.end {
        Some(End::Lost(at, reason)) => {
            item.lost = Some(at);
            format!("lost: {reason}")
        }
        Some(End::Releasing) => "released".to_owned(),
        _ => "until its deadline".to_owned(),
    };
    let (who, name, mode, fence) = (&hold.who, &hold.name, hold.mode, hold.fence);
    item.tooltip = format!("{who} holds {name}, {mode}, fence {fence}, {end}");
    item.hold = Some(hold.clone());
}
