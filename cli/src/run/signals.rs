//! The signals that `lockwright run` hears.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What is passed on to CMD.
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

/// The signals to pass on. Those that were ignored when we were started stay ignored, for CMD too:
/// `nohup` works.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored_signals();
        let mut streams = Vec::new();
        for signal in FORWARDED {
            if ignored >> (signal.as_raw() - 1) & 1 == 0 {
                let stream = unix::signal(SignalKind::from_raw(signal.as_raw()))?;
                streams.push((signal, stream));
            }
        }
        Ok(Self(streams))
    }

    /// From now on Ctrl-Z suspends nothing: the hold would be lost by it.
    pub(crate) fn refuse_suspension(&mut self) -> io::Result<()> {
        if ignored_signals() >> (Signal::TSTP.as_raw() - 1) & 1 == 0 {
            let stream = unix::signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
            self.0.push((Signal::TSTP, stream));
        }
        Ok(())
    }

    /// The next one. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next one that ends a program which doesn't expect it.
    pub(crate) async fn next_ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal) {
                return signal;
            }
        }
    }
}

/// A bit for each signal that is ignored, the lowest for signal 1.
fn ignored_signals() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    })
}
