use std::time::Duration;

use lockwright_core::BootInstant;

use super::journal::Signal;

const NEVER: BootInstant = BootInstant::FAR_FUTURE;

#[derive(Debug, Default)]
pub(crate) struct Process {
    /// Start and end of each suspension by SIGSTOP. Without a SIGCONT, the last end is `NEVER`.
    pub(crate) stops: Vec<(BootInstant, BootInstant)>,
    /// Times in which the busy machine ran none of the process's tasks. They may overlap each other
    /// and `stops`.
    pub(crate) delays: Vec<(BootInstant, BootInstant)>,
    pub(crate) killed: Option<BootInstant>,
    pub(crate) ended: Option<BootInstant>,
    pub(crate) last: Option<BootInstant>,
}

impl Process {
    pub(crate) fn signalled(&mut self, at: BootInstant, signal: Signal) {
        let open = self.stops.last_mut().filter(|(_, to)| *to == NEVER);
        match (signal, open) {
            (Signal::Stopped, None) => self.stops.push((at, NEVER)),
            (Signal::Continued, Some((_, to))) => *to = at,
            (Signal::Killed, _) => self.killed = Some(self.killed.unwrap_or(at)),
            _ => {}
        }
    }

    pub(crate) fn runs_from(&self, at: BootInstant) -> BootInstant {
        let stop = self.stops.iter().find(|(from, to)| *from <= at && at < *to);
        stop.map_or(at, |(_, to)| *to)
    }

    pub(crate) fn is_over(&self) -> bool {
        let is_stopped = self.stops.last().is_some_and(|(_, to)| *to == NEVER);
        is_stopped || self.killed.is_some() || self.ended.is_some()
    }

    pub(crate) fn running(
        &self,
        from: BootInstant,
        to: BootInstant,
    ) -> Vec<(BootInstant, BootInstant)> {
        Self::without(&self.stops, from, to)
    }

    /// `pauses` must be sorted by start.
    fn without(
        pauses: &[(BootInstant, BootInstant)],
        from: BootInstant,
        to: BootInstant,
    ) -> Vec<(BootInstant, BootInstant)> {
        let mut times = Vec::new();
        let mut begun = from;
        for (stop, go) in pauses {
            times.push((begun, (*stop).min(to)));
            begun = begun.max(*go);
        }
        times.push((begun, to));
        times.retain(|(from, to)| from < to);
        times
    }

    /// Returns how long the process ran in an interval. A killed process ran until its last entry.
    pub(crate) fn awake(&self, from: BootInstant, to: BootInstant) -> Duration {
        let last = self.killed.and(self.last);
        let over = self.killed.into_iter().chain(self.ended).chain(last).fold(to, BootInstant::min);
        let mut pauses = [&self.stops[..], &self.delays[..]].concat();
        pauses.sort_unstable_by_key(|(from, _)| *from);
        let running = Self::without(&pauses, from, over);
        running.iter().map(|(from, to)| to.saturating_since(*from)).sum()
    }
}
