use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use lockwright::{BootInstant, Clock, Held, HoldState};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use serde_json::json;
use tokio::io::Interest;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::fallback_kill::Children;
use super::hold::{NamedHold, RunHold};
use super::signals::Signals;
use crate::run::process::Exit;
use crate::run::process::foreground::{Terminal, group_of};
use crate::run::process::ipc::{self, FRAME, Order, Report, Term};
use crate::{Failure, Output, exit, millis};

#[derive(Debug)]
pub(crate) struct Conclusion {
    /// An error if the user's command (CMD) didn't start, was ended, or may have run without the
    /// lock.
    pub outcome: Result<Exit, Failure>,
    /// If false, processes of CMD may be left, so the lock must not be released.
    pub all_gone: bool,
}

pub(crate) async fn hold(
    output: Output,
    name: &str,
    guard: &impl RunHold,
    supervisor: Command,
    signals: &mut Signals,
) -> Conclusion {
    let begun = begin(output, name, guard, supervisor, signals)
        .map_err(|error| Failure::os("cannot start the supervisor process", error))
        .and_then(|held| held.ok_or_else(|| not_started(guard)));
    let (held, mut child_changed) = match begun {
        Ok(begun) => begun,
        Err(failure) => return Conclusion { outcome: Err(failure), all_gone: true },
    };
    let outcome = held.watch(signals, &mut child_changed).await;
    let all_gone = held.end_all().await;
    // A killed or suspended supervisor left the foreground with CMD's ended process group.
    Terminal::open().take_back(group_of(None));
    Conclusion { outcome, all_gone }
}

fn begin<'a, H: RunHold>(
    output: Output,
    name: &'a str,
    guard: &'a H,
    mut supervisor: Command,
    signals: &mut Signals,
) -> io::Result<Option<(LockHolder<'a, H>, tokio::signal::unix::Signal)>> {
    let children = Children::adopt()?;
    // Listening begins before the first child exists, so no child's end is missed.
    let child_changed = signal(SignalKind::child())?;
    signals.refuse_suspension()?;
    if guard.check().is_err() {
        return Ok(None);
    }
    let (ours, theirs) = UnixStream::pair()?;
    // Steps that can fail precede the first order, which starts the command.
    ours.set_nonblocking(true)?;
    let socket = tokio::net::UnixStream::from_std(ours)?;
    // In its own group, the supervisor gets no signals from the terminal.
    let child =
        supervisor.arg0("lockwright").process_group(0).stdin(OwnedFd::from(theirs)).spawn()?;
    // Its copy of `theirs` would keep the stream open after the child's end.
    drop(supervisor);
    // If sending fails, the socket is dropped, so the supervisor exits.
    ipc::post_start(&socket, term(guard), rustix::stdio::stdin())?;
    let held = LockHolder {
        output,
        name,
        guard,
        socket,
        supervisor: Pid::from_child(&child),
        supervisor_done: Cell::new(false),
        command: Cell::new(None),
        children,
        risk_reported: Cell::new(false),
        loss_reported: Cell::new(false),
    };
    Ok(Some((held, child_changed)))
}

fn not_started(guard: &impl RunHold) -> Failure {
    let lost = lost_part(guard);
    let message = format!("lost {lost} before the command could start; it was not started");
    Failure::new(exit::LOST, "lost", message)
}

async fn sleep_until(instant: Option<BootInstant>) {
    Clock::boot().sleep_until(instant.unwrap_or(BootInstant::FAR_FUTURE)).await;
}

/// Returns the hold that is lost, or the first if the supervisor noticed the loss before the guard.
fn lost_part(guard: &impl RunHold) -> NamedHold<'_> {
    let mut parts = guard.parts();
    let lost = parts.iter().position(|part| part.is_lost).unwrap_or(0);
    parts.swap_remove(lost)
}

fn term(guard: &impl Held) -> Term {
    Term { lost_at: guard.lost_at(), deadline: guard.deadline() }
}

struct LockHolder<'a, H> {
    output: Output,
    name: &'a str,
    guard: &'a H,
    socket: tokio::net::UnixStream,
    supervisor: Pid,
    supervisor_done: Cell<bool>,
    command: Cell<Option<Pid>>,
    children: Children,
    risk_reported: Cell<bool>,
    loss_reported: Cell<bool>,
}

impl<H: RunHold> LockHolder<'_, H> {
    async fn watch(
        &self,
        signals: &mut Signals,
        child_changed: &mut tokio::signal::unix::Signal,
    ) -> Result<Exit, Failure> {
        let mut hold = self.guard.signal();
        let mut give_up_at = None;
        loop {
            tokio::select! {
                report = self.report() => match report {
                    Some(report) => if let Some(outcome) = self.on_report(report) {
                        self.reap_supervisor().await;
                        return outcome;
                    },
                    None => {
                        self.end_all().await;
                        let message =
                            "the supervisor process was killed, so the command was ended with it";
                        return Err(Failure::new(exit::SUPERVISOR, "supervisor_killed", message));
                    }
                },
                state = hold.changed(), if give_up_at.is_none() => match state {
                    HoldState::Held => self.confirm(),
                    HoldState::AtRisk => self.report_risk(),
                    _ => {
                        self.order(Order::Lost);
                        give_up_at = Some(self.give_up_at());
                        self.report_loss();
                    }
                },
                signal = signals.next() => self.forward(signal),
                _ = child_changed.recv() => self.continue_supervisor(),
                () = sleep_until(give_up_at) => {
                    // The supervisor's last report is unread, or the supervisor is suspended.
                    while let Ok(report) = self.try_report() {
                        if let Some(outcome) = self.on_report(report) {
                            self.reap_supervisor().await;
                            return outcome;
                        }
                    }
                    self.end_all().await;
                    return Err(self.lost(None));
                }
            }
        }
    }

    /// Ends CMD's processes. Returns `true` if certainly none is left.
    async fn end_all(&self) -> bool {
        if self.supervisor_done.get() && self.children.has_foreign() {
            // The supervisor reported that no process of CMD is left, so the others are foreign.
            return true;
        }
        self.children.end_all(self.command.get()).await
    }

    /// Cancel safe.
    async fn report(&self) -> Option<Report> {
        self.socket.async_io(Interest::READABLE, || self.try_report()).await.ok()
    }

    /// Returns a report even before Tokio notices it.
    fn try_report(&self) -> io::Result<Report> {
        let mut bytes = [0; FRAME];
        let (length, _) = recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT)?;
        let report = if length == FRAME { ipc::decode(&bytes) } else { None };
        report.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Ignores a failure: the supervisor has ended, or ends all processes by the last deadline that
    /// it received.
    fn order(&self, order: Order) {
        let _ = ipc::post(&self.socket, &order);
    }

    fn confirm(&self) {
        let term = term(self.guard);
        self.order(Order::Confirmed(term));
        self.children.update_foreign(self.supervisor);
        let name = self.name;
        let fields = json!({ "name": name, "deadline_ns": term.deadline.as_nanos() });
        if self.risk_reported.replace(false) {
            let again = format!("the lock {name:?} is renewed again; the command continues");
            self.output.report("renewed", fields, &again);
        } else {
            self.output.event("renewed", fields);
        }
    }

    /// Returns how CMD ended, if the report is the supervisor's last.
    fn on_report(&self, report: Report) -> Option<Result<Exit, Failure>> {
        let name = self.name;
        self.supervisor_done
            .set(matches!(report, Report::Done { .. } | Report::NotStarted(_) | Report::TooLate));
        match report {
            Report::Started(pid) => {
                self.command.set(i32::try_from(pid).ok().and_then(Pid::from_raw));
                self.output.event("started", json!({ "pid": pid }));
            }
            Report::NotStarted(errno) => {
                let error = io::Error::from_raw_os_error(errno);
                return Some(Err(Failure::os("cannot start the command", error)));
            }
            Report::TooLate => return Some(Err(not_started(self.guard))),
            Report::NotSuspended => self.refuse_suspension(),
            Report::Leftovers => self.output.report(
                "leftovers",
                json!({ "name": name }),
                "the command ended and left processes behind; they are ended before the lock is \
                 released",
            ),
            Report::OutOfReach(count) => self.output.report(
                "out_of_reach",
                json!({ "name": name, "count": count }),
                &format!(
                    "{count} of the command's processes belong to another user and can't be \
                     ended; the lock is kept for as long as they run, or until it is lost"
                ),
            ),
            Report::Done { exit, lost: false } => {
                self.output.event("ended", exit_fields(exit));
                return Some(Ok(exit));
            }
            Report::Done { exit, lost: true } => return Some(Err(self.lost(Some(exit)))),
        }
        None
    }

    fn forward(&self, signal: Signal) {
        if signal == Signal::TSTP {
            self.refuse_suspension();
        } else {
            self.order(Order::Forward(signal.as_raw()));
        }
    }

    fn refuse_suspension(&self) {
        self.output.report(
            "not_suspended",
            json!({ "name": self.name }),
            "not suspended, because other clients may wait for the lock; Ctrl-C ends the command",
        );
    }

    fn report_risk(&self) {
        self.risk_reported.set(true);
        self.output.report(
            "at_risk",
            json!({ "name": self.name, "left_ms": millis(self.guard.remaining()) }),
            &format!(
                "a hold of {:?} could not be renewed yet; without a renewal, the command is ended in {}",
                self.guard.parts().iter().map(|part| part.name).collect::<Vec<_>>().join(", "),
                crate::duration::show(self.guard.remaining())
            ),
        );
    }

    /// Returns when this process ends the command itself: halfway between the supervisor's KILL and
    /// the deadline. A loss before `lost_at` makes it earlier by the difference.
    fn give_up_at(&self) -> BootInstant {
        let term = term(self.guard);
        let kill_at = term.kill_at();
        let patience = term.deadline.saturating_since(kill_at);
        let after_order = Clock::boot().now() + patience * 3 / 2;
        (kill_at + patience / 2).min(after_order)
    }

    fn why_lost(&self) -> String {
        match self.guard.check().err().and_then(|error| error.lost_reason()) {
            Some(reason) => reason.to_string(),
            // The supervisor noticed the loss before the guard did.
            None => "it was not renewed within its TTL".to_owned(),
        }
    }

    /// Reports the loss at once, because ending the command can take seconds.
    fn report_loss(&self) {
        if self.loss_reported.replace(true) {
            return;
        }
        let (lost, because) = (lost_part(self.guard), self.why_lost());
        let fence = lost.fenced.as_ref().map(|fenced| fenced.fence);
        self.output.report(
            "lost",
            json!({ "name": lost.name, "fence": fence, "reason": because }),
            &format!("lost {lost}: {because}; ending the command"),
        );
    }

    fn lost(&self, exit: Option<Exit>) -> Failure {
        self.report_loss();
        if let Some(exit) = exit {
            self.output.event("ended", exit_fields(exit));
        }
        let message = format!(
            "the command was ended, because {} was lost: {}",
            lost_part(self.guard),
            self.why_lost()
        );
        Failure::new(exit::LOST, "lost", message)
    }

    /// Without an init process, the supervisor would stay a zombie.
    async fn reap_supervisor(&self) {
        let limit = Clock::boot().now() + SUPERVISOR_EXIT_TIMEOUT;
        while Clock::boot().now() < limit {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, _))) if pid == self.supervisor => return,
                Ok(Some(_)) => {}
                Ok(None) => sleep(Duration::from_millis(1)).await,
                Err(_) => return,
            }
        }
    }

    fn continue_supervisor(&self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid == self.supervisor && status.stopped() {
                let _ = kill_process(pid, Signal::CONT);
            }
        }
        // If a foreign process ended, its orphans are now children of this process, and foreign.
        self.children.update_foreign(self.supervisor);
    }
}

const SUPERVISOR_EXIT_TIMEOUT: Duration = Duration::from_secs(1);

fn exit_fields(exit: Exit) -> serde_json::Value {
    match exit {
        Exit::Code(code) => json!({ "code": code }),
        Exit::Signal(signal) => json!({ "signal": signal }),
    }
}
