use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::Failure;

const FORWARDED: [Signal; 8] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::CONT,
    Signal::WINCH,
];

/// The signals to forward to CMD. Signals that `nohup` or a shell has set to be ignored stay
/// ignored.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    termination: Option<Signal>,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let mut this = Self { streams: Vec::new(), termination: None };
        let added = FORWARDED.into_iter().try_for_each(|signal| this.add(signal));
        added.map_err(|error| Failure::os("cannot listen for signals", error))?;
        Ok(this)
    }

    /// Adds SIGTSTP to the handled signals, because a suspended process would lose the hold.
    pub(crate) fn refuse_suspension(&mut self) -> io::Result<()> {
        self.add(Signal::TSTP)
    }

    fn add(&mut self, signal: Signal) -> io::Result<()> {
        let is_new = self.streams.iter().all(|(present, _)| *present != signal);
        if is_new && ignored_signals() >> (signal.as_raw() - 1) & 1 == 0 {
            let stream = unix::signal(SignalKind::from_raw(signal.as_raw()))?;
            self.streams.push((signal, stream));
        }
        Ok(())
    }

    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await;
        if [Signal::TERM, Signal::INT, Signal::QUIT].contains(&signal) {
            self.termination = Some(signal);
        }
        signal
    }

    /// Returns the last TERM, INT or QUIT. Daemons reload their configuration at a HUP, so that
    /// isn't included.
    pub(crate) fn termination(&self) -> Option<Signal> {
        self.termination
    }

    pub(crate) async fn next_ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal) {
                return signal;
            }
        }
    }
}

fn ignored_signals() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    })
}
