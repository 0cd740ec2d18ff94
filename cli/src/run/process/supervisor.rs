//! Ends the user's command (CMD) and its descendants when the hold is lost, no new deadline arrives
//! in time, `lockwright run` has ended, or CMD left processes behind. Exits when no descendant is
//! left.

use std::env::ArgsOs;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use lockwright::{BootInstant, Clock};
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal::SIGCHLD;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process_group, wait,
};
use rustix::termios::isatty;

use super::descendants::{self, ADOPTS_ORPHANS};
use super::foreground::{Terminal, group_of};
use super::ipc::{self, FRAME, Order, Report, Term};
#[cfg(target_os = "linux")]
use super::timer::Timer;
use super::{Exit, ROLE_EXEC, exec_child, own_path};
use crate::exit;

/// How long processes that CMD left behind may continue, such as a pipeline's last `tee`.
const LEFTOVERS_PATIENCE: Duration = Duration::from_secs(1);

const GRACE: Duration = Duration::from_secs(5);

/// The longest time between two readings of the clock, even if the timer fails.
const SLICE: Duration = Duration::from_secs(1);

/// The pause between two checks of changes without a signal: the terminal's foreground, and
/// orphans that aren't this process's children.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(2);
const MAX_RETRY_PAUSE: Duration = Duration::from_millis(10);

const MAX_RETRY_PAUSE_OTHER_USERS: Duration = Duration::from_millis(100);

/// The most scans of the descendants without a pause.
const MAX_SCANS: u32 = 8;

pub(crate) fn main(args: ArgsOs) -> ExitCode {
    // From here on, only SIGKILL, SIGSTOP and SIGCHLD affect this process.
    let mut blocked = SigSet::all();
    blocked.remove(SIGCHLD);
    let _ = blocked.thread_set_mask();
    let socket = rustix::stdio::stdin();
    let command: Vec<OsString> = args.collect();
    let (term, stdin) = match ipc::receive_start(socket) {
        Ok(Some(start)) if !command.is_empty() => start,
        _ => return exit::internal_use_only(),
    };
    match Supervisor::start(socket, term, stdin, &command) {
        Ok(Some(supervisor)) => supervisor.run(),
        Ok(None) => {
            let _ = ipc::post(socket, &Report::TooLate);
            ExitCode::from(exit::LOST)
        }
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            let _ = ipc::post(socket, &Report::NotStarted(errno));
            ExitCode::from(exit::OS)
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct End {
    term_at: Option<BootInstant>,
    termed: bool,
    kill_at: Option<BootInstant>,
    lost: bool,
}

impl End {
    fn by(&mut self, term_at: BootInstant, kill_at: BootInstant) {
        self.term_at = Some(self.term_at.map_or(term_at, |earlier| earlier.min(term_at)));
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
    }
}

struct Supervisor {
    /// `None` once `lockwright run` has ended.
    socket: Option<BorrowedFd<'static>>,
    child_changed: UnixStream,
    clock: Clock,
    #[cfg(target_os = "linux")]
    timer: Timer,
    terminal: Terminal,
    run_group: Option<Pid>,
    command: Pid,
    exit: Option<Exit>,
    term: Term,
    end: End,
    out_of_reach: u32,
    waits_for_terminal: bool,
    retry_pause: Duration,
}

impl Supervisor {
    fn start(
        socket: BorrowedFd<'static>,
        term: Term,
        stdin: OwnedFd,
        command: &[OsString],
    ) -> io::Result<Option<Self>> {
        descendants::adopt_orphans()?;
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_name(c"lockwright-sup");
        let (child_changed, sender) = UnixStream::pair()?;
        child_changed.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD as i32, sender)?;

        let run_group = group_of(getppid());
        let terminal = Terminal::open();
        // In a pipeline, a pager may need the terminal, so CMD doesn't get it at first.
        let is_interactive = isatty(&stdin) && isatty(rustix::stdio::stdout());
        let hands_over = run_group.filter(|_| is_interactive && terminal.is_with(run_group));
        let hands_over = hands_over.map_or(exec_child::NO_FOREGROUND.to_owned(), |group| {
            group.as_raw_nonzero().to_string()
        });
        #[cfg(target_os = "linux")]
        let timer = Timer::new()?;
        let clock = Clock::boot();
        if clock.now() >= term.lost_at {
            return Ok(None);
        }
        let child = Command::new(own_path())
            .arg0("lockwright")
            .arg(ROLE_EXEC)
            .arg(getpid().as_raw_nonzero().to_string())
            .arg(hands_over)
            .arg(term.lost_at.as_nanos().to_string())
            .args(command)
            .process_group(0)
            .stdin(stdin)
            .spawn()?;
        let command = Pid::from_child(&child);
        let _ = ipc::post(socket, &Report::Started(child.id()));
        Ok(Some(Self {
            socket: Some(socket),
            child_changed,
            clock,
            #[cfg(target_os = "linux")]
            timer,
            terminal,
            run_group,
            command,
            exit: None,
            term,
            end: End::default(),
            out_of_reach: 0,
            waits_for_terminal: false,
            retry_pause: FIRST_RETRY_PAUSE,
        }))
    }

    fn run(mut self) -> ExitCode {
        loop {
            self.receive_orders();
            if self.reap() {
                break;
            }
            self.give_terminal();
            // This process may have been suspended above, so read the clock only now.
            let now = self.clock.now();
            self.decide(now);
            let next = self.act(now);
            self.sleep(next);
        }
        if self.socket.is_some() {
            self.terminal.take_back(self.run_group);
        }
        let exit = self.exit.unwrap_or(Exit::Signal(Signal::KILL.as_raw()));
        self.report(Report::Done { exit, lost: self.end.lost });
        ExitCode::SUCCESS
    }

    fn receive_orders(&mut self) {
        while let Some(socket) = self.socket {
            let mut bytes = [0; FRAME];
            let order = match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((FRAME, _)) => ipc::decode(&bytes),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                _ => None,
            };
            match order {
                Some(Order::Confirmed(term)) => self.term = term,
                Some(Order::Forward(signal)) => self.forward(signal),
                Some(Order::Lost) => {
                    let now = self.clock.now();
                    let patience = self.term.kill_at().saturating_since(self.term.lost_at);
                    self.end.lost = true;
                    self.end.by(now, (now + patience).min(self.term.kill_at()));
                }
                // `lockwright run` has ended, so no process renews the hold.
                None => {
                    let now = self.clock.now();
                    self.socket = None;
                    self.end.lost = true;
                    self.end.by(now, now + GRACE);
                }
            }
        }
    }

    fn forward(&self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        if self.exit.is_some() {
            // CMD was reaped, so the id of its group may be reused.
            return;
        }
        if signal == Signal::CONT {
            self.terminal.hand_over(self.run_group, self.command);
        }
        let _ = kill_process_group(self.command, signal);
        if self.waits_for_terminal && signal != Signal::CONT {
            // A stopped command handles a signal only after CONT. If it ignores the signal, the
            // terminal stops it again.
            let _ = kill_process_group(self.command, Signal::CONT);
        }
    }

    fn clear_child_changed(&self) {
        while matches!((&self.child_changed).read(&mut [0; 64]), Ok(1..)) {}
    }

    /// Returns `true` if no child is left, and so no descendant: orphans become children of this
    /// process, or stay in CMD's group.
    fn reap(&mut self) -> bool {
        self.clear_child_changed();
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.command => self.command_changed(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return false,
                Err(_) => return descendants::no_orphan_in(Some(self.command)),
            }
        }
    }

    fn command_changed(&mut self, status: WaitStatus) {
        if let Some(exit) = Exit::of(status) {
            self.exit = Some(exit);
            // If CMD ended after `lost_at`, its last actions may have been unprotected, or CMD was
            // never started.
            self.end.lost |= self.clock.now() >= self.term.lost_at;
            self.waits_for_terminal = false;
            return;
        }
        match status.stopping_signal().and_then(Signal::from_named_raw) {
            // CMD must not be suspended: others wait for the lock, and the shell waits for
            // `lockwright run`. Some programs stop themselves by STOP after Ctrl-Z.
            Some(Signal::TSTP) => self.resume(),
            Some(Signal::STOP) if self.terminal.is_with(Some(self.command)) => self.resume(),
            Some(Signal::TTIN | Signal::TTOU) => self.waits_for_terminal = true,
            _ => {}
        }
    }

    fn resume(&self) {
        let _ = kill_process_group(self.command, Signal::CONT);
        self.report(Report::NotSuspended);
    }

    /// The supervisor polls the foreground, because a shell's `fg` sends no signal to a running
    /// job.
    fn give_terminal(&mut self) {
        if self.waits_for_terminal
            && (self.terminal.hand_over(self.run_group, self.command)
                || self.terminal.is_with(Some(self.command)))
        {
            self.waits_for_terminal = false;
            let _ = kill_process_group(self.command, Signal::CONT);
        }
    }

    fn decide(&mut self, now: BootInstant) {
        if now >= self.term.lost_at {
            self.end.lost = true;
            self.end.by(self.term.lost_at, self.term.kill_at());
        }
        if let Some(kill_at) = self.end.kill_at {
            self.end.kill_at = Some(kill_at.min(self.term.kill_at()));
        }
        if self.exit.is_some() && self.end.term_at.is_none() {
            let term_at = now + LEFTOVERS_PATIENCE;
            self.end.by(term_at, term_at + GRACE);
        }
    }

    fn act(&mut self, now: BootInstant) -> BootInstant {
        let is_due = |at: Option<BootInstant>| at.is_some_and(|at| at <= now);
        if is_due(self.end.kill_at) {
            let limit = if (0..MAX_SCANS).any(|_| !self.kill_all()) {
                MAX_RETRY_PAUSE_OTHER_USERS
            } else {
                MAX_RETRY_PAUSE
            };
            if !ADOPTS_ORPHANS {
                // The ends of `ps` must not end the pause.
                self.clear_child_changed();
            }
            let next = self.clock.now() + self.retry_pause.min(limit);
            self.retry_pause = (self.retry_pause * 2).min(limit);
            return next;
        }
        if is_due(self.end.term_at) && !self.end.termed {
            self.end.termed = true;
            if self.exit.is_some() && !self.end.lost {
                self.report(Report::Leftovers);
            }
            self.signal_all(Signal::TERM);
            // A suspended process handles TERM only after CONT.
            self.signal_all(Signal::CONT);
        }
        let waits_for_orphans = !ADOPTS_ORPHANS && self.exit.is_some();
        let slice =
            if self.waits_for_terminal || waits_for_orphans { POLL_INTERVAL } else { SLICE };
        let term_at = self.end.term_at.filter(|_| !self.end.termed);
        [term_at, self.end.kill_at, Some(self.term.lost_at).filter(|at| *at > now)]
            .into_iter()
            .flatten()
            .fold(now + slice, BootInstant::min)
    }

    fn signal_all(&mut self, signal: Signal) {
        match descendants::of(getpid(), &[], Some(self.command)) {
            Ok(found) => self.report_out_of_reach(descendants::signal(&found, signal)),
            Err(_) => self.signal_group(signal),
        }
    }

    fn kill_all(&mut self) -> bool {
        self.signal_group(Signal::KILL);
        let Ok(killed) = descendants::kill_all(getpid(), &[], Some(self.command)) else {
            return true;
        };
        self.report_out_of_reach(killed.refused);
        killed.found > killed.refused as usize
    }

    fn signal_group(&self, signal: Signal) {
        if self.exit.is_none() {
            let _ = kill_process_group(self.command, signal);
        }
    }

    fn report_out_of_reach(&mut self, refused: u32) {
        if refused > self.out_of_reach {
            self.out_of_reach = refused;
            self.report(Report::OutOfReach(refused));
        }
    }

    fn sleep(&self, instant: BootInstant) {
        let left = instant.saturating_since(self.clock.now());
        let timeout = Timespec::try_from(left).ok();
        let mut fds = vec![PollFd::from_borrowed_fd(self.child_changed.as_fd(), PollFlags::IN)];
        #[cfg(target_os = "linux")]
        {
            self.timer.set(instant);
            fds.push(PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN));
        }
        fds.extend(self.socket.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let _ = poll(&mut fds, timeout.as_ref());
    }

    fn report(&self, report: Report) {
        if let Some(socket) = self.socket {
            let _ = ipc::post(socket, &report);
        }
    }
}
