use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

pub(super) struct Progress {
    begun: Instant,
    backends: usize,
    done: Cell<usize>,
    last_line: Cell<Option<Instant>>,
}

const EACH: Duration = Duration::from_secs(30);

impl Progress {
    pub(super) fn of(backends: usize) -> Self {
        Self { begun: Instant::now(), backends, done: Cell::new(0), last_line: Cell::new(None) }
    }

    pub(super) fn done_with_backend(&self) {
        self.done.update(|done| done + 1);
    }

    pub(super) fn say(&self, what: &str) {
        let is_terminal = stderr().is_terminal();
        if !is_terminal && self.last_line.get().is_some_and(|last| last.elapsed() < EACH) {
            return;
        }
        self.last_line.set(Some(Instant::now()));
        let seconds = self.begun.elapsed().as_secs();
        let (minutes, seconds, backend) = (seconds / 60, seconds % 60, self.done.get() + 1);
        let line =
            format!("[{minutes}:{seconds:02}, backend {backend} of {}] {what}", self.backends);
        let _ = if is_terminal {
            write!(stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(stderr(), "{line}")
        };
    }

    pub(super) fn tell(&self, what: &str) {
        let start = if stderr().is_terminal() { "\r\x1b[K" } else { "" };
        let _ = writeln!(stderr(), "{start}{what}");
    }
}
