use crate::server::Micros;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    wanted: bool,
    lines: Vec<(Micros, String)>,
}

impl Trace {
    /// Returns a trace that records nothing, because recording is slow.
    pub(crate) fn unwanted() -> Self {
        Self::default()
    }

    pub(crate) fn wanted() -> Self {
        Self { wanted: true, lines: Vec::new() }
    }

    pub(crate) fn note(&mut self, now: Micros, text: impl FnOnce() -> String) {
        if self.wanted {
            self.lines.push((now, text()));
        }
    }

    /// Returns the lines, sorted by time, because `Net::deliver` records a sent message late.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<&(Micros, String)> = self.lines.iter().collect();
        lines.sort_by_key(|(at, _)| *at);
        let shown = lines.into_iter();
        shown.map(|(at, text)| format!("{:10.3} ms  {text}", *at as f64 / 1_000.0)).collect()
    }
}
