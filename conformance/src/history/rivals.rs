use std::collections::HashMap;

use lockwright_core::BootInstant;

use super::hold::Hold;
use super::run::{Request, Run};

#[derive(Debug, Default)]
pub(crate) struct Timed<'a> {
    holds: Vec<&'a Hold>,
    /// For each hold, the latest end among it and all earlier holds.
    latest_end: Vec<BootInstant>,
}

impl<'a> Timed<'a> {
    pub(crate) fn by_name(run: &'a Run) -> HashMap<&'a str, Self> {
        let mut names: HashMap<&str, Self> = HashMap::new();
        for tracked in &run.holds {
            names.entry(&tracked.hold.name).or_default().holds.push(&tracked.hold);
        }
        for timed in names.values_mut() {
            timed.holds.sort_by_key(|hold| hold.granted);
            let mut latest = BootInstant::from_nanos(0);
            let ends = timed.holds.iter().map(|hold| {
                latest = latest.max(hold.until);
                latest
            });
            timed.latest_end = ends.collect();
        }
        names
    }

    /// Returns all holds that overlap an interval, and possibly holds that ended before it, latest
    /// grant first.
    fn within(&self, from: BootInstant, to: BootInstant) -> impl Iterator<Item = &'a Hold> {
        let begun = self.holds.partition_point(|hold| hold.granted <= to);
        let holds = self.holds[..begun].iter().zip(&self.latest_end).rev();
        holds.take_while(move |(_, end)| from < **end).map(|(hold, _)| *hold)
    }

    fn rivals(&self, request: &Request, to: BootInstant) -> impl Iterator<Item = &'a Hold> {
        self.within(request.asked, to)
            .filter(|hold| hold.who != request.who && hold.competes_with(request.mode))
    }

    pub(crate) fn is_contended(&self, request: &Request) -> bool {
        self.rivals(request, request.asked).any(|rival| rival.is_valid_at(request.asked))
    }

    pub(crate) fn is_hand_over(&self, request: &Request) -> bool {
        let (Some(granted), Some(_), true) = (request.ended, request.hold, request.waits) else {
            return false;
        };
        self.rivals(request, granted)
            .any(|rival| request.asked < rival.until && rival.until <= granted)
    }
}
