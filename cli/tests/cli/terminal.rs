//! Tests on a pseudo-terminal: the foreground, Ctrl-C, Ctrl-Z, and the status line.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio};

use lockwright_testbed::redis::Redis;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::harness::{Sandbox, UNTIL_DONE, program, signal, wait_for, wait_until};

pub(crate) struct Terminal {
    master: Option<File>,
    shown: Vec<u8>,
    child: Child,
}

impl Terminal {
    pub(crate) fn run(sandbox: &Sandbox, program: &str, args: &[&str]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = || {
            let path = std::ffi::OsStr::from_bytes(name.to_bytes());
            // The terminal must not become this process's controlling terminal.
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
            rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap()
        };
        let child = sandbox
            .command("setsid")
            .args(["--ctty", "--wait", program])
            .args(args)
            .env("TERM", "xterm")
            .env("PS1", "prompt$ ")
            .env("LW", crate::harness::program())
            .stdin(Stdio::from(slave()))
            .stdout(Stdio::from(slave()))
            .stderr(Stdio::from(slave()))
            .spawn()
            .unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        Self { master: Some(File::from(master)), shown: Vec::new(), child }
    }

    /// Runs a script in a non-interactive shell, which keeps all processes in its own group.
    pub(crate) fn script(sandbox: &Sandbox, script: &str) -> Self {
        Self::run(sandbox, "sh", &["-c", script])
    }

    pub(crate) fn typed(&mut self, text: &str) {
        self.master.as_ref().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn answers(&mut self, typed: &str, shown: &str) {
        self.typed(typed);
        self.wait_for(shown);
    }

    pub(crate) fn screen(&mut self) -> String {
        let mut bytes = [0; 4096];
        // An error means that there is no new output, or that the other side is closed.
        while let Some(Ok(count @ 1..)) = self.master.as_ref().map(|mut tty| tty.read(&mut bytes)) {
            self.shown.extend(&bytes[..count]);
        }
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    pub(crate) fn wait_for(&mut self, text: &str) {
        wait_until(&format!("{text:?} on the screen"), || self.screen().contains(text));
    }

    pub(crate) fn code(mut self) -> i32 {
        let status = wait_for("the end of the session", || {
            self.screen();
            self.child.try_wait().unwrap()
        });
        status.code().unwrap_or_else(|| panic!("{status}: {}", self.screen()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen: {:?}", self.screen());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_command_reads_from_the_terminal_and_the_shell_does_afterwards() {
    for (before, stdin) in [("", ""), ("echo x |", "</dev/tty")] {
        let sandbox = Sandbox::new();
        let script = format!(
            "{before} $LW run a -- sh -c 'echo ready; read x {stdin}; echo \"command: $x\"'; \
             echo again; read y; echo \"shell: $y\""
        );
        let mut terminal = Terminal::script(&sandbox, &script);
        terminal.wait_for("ready");
        terminal.answers("one\n", "command: one");
        terminal.wait_for("again");
        terminal.answers("two\n", "shell: two");
        assert_eq!(terminal.code(), 0);
    }
}

#[test]
fn terminal_is_taken_back_after_the_supervisor_was_killed() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::script(
        &sandbox,
        "$LW run a -- sh -c 'echo $PPID >supervisor; echo ready; sleep 60'; \
         echo \"code: $?\"; read y; echo \"shell: $y\"",
    );
    terminal.wait_for("ready");
    let supervisor = std::fs::read_to_string(sandbox.path("supervisor")).unwrap();
    signal(supervisor.trim().parse().unwrap(), Signal::KILL);
    terminal.wait_for("code: 70");
    terminal.answers("two\n", "shell: two");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let sandbox = Sandbox::new();
    for stdin in ["", "</dev/null"] {
        let script = format!(
            "trap : INT; $LW run a -- sh -c 'trap \"echo interrupted; exit 6\" INT; echo ready; \
             while :; do sleep 0.02; done' {stdin}; echo \"code: $?\""
        );
        let mut terminal = Terminal::script(&sandbox, &script);
        terminal.wait_for("ready");
        terminal.answers("\x03", "code: 6");
        assert_eq!(terminal.screen().matches("interrupted").count(), 1, "{}", terminal.screen());
        assert_eq!(terminal.code(), 0);
        sandbox.assert_free("a");
    }
}

#[test]
fn ctrl_z_suspends_nothing() {
    // The second command stops itself by STOP instead of TSTP, as editors do.
    for command in [
        "echo rea''dy; read x",
        "trap 'kill -STOP 0' TSTP; echo rea''dy; until read -t 0.2 x; do :; done",
    ] {
        let sandbox = Sandbox::new();
        let command = format!("{command}; echo \"command: $x\"");
        let args = ["run", "a", "--", "bash", "-c", &command];
        let mut terminal = Terminal::run(&sandbox, program(), &args);
        terminal.wait_for("ready");
        terminal.answers("\x1a", "not suspended");
        terminal.answers("one\n", "command: one");
        assert_eq!(terminal.code(), 0);
    }
}

/// A pager or a password prompt in the same pipeline reads from the terminal.
#[test]
fn a_pipeline_may_read_from_the_terminal() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::run(&sandbox, "bash", &["--norc", "--noprofile", "-i"]);
    let reader = "sh -c 'read x; echo \"got $x\"; read x </dev/tty; echo \"typed $x\"'";
    let command = format!("$LW run a -- sh -c 'echo da''ta; sleep 1' | {reader}\n");
    terminal.answers(&command, "got data");
    terminal.answers("one\n", "typed one");
    assert!(!terminal.screen().contains("Stopped"), "{}", terminal.screen());
    terminal.typed("exit\n");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn a_job_in_the_background_reads_when_it_comes_to_the_foreground() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::run(&sandbox, "bash", &["--norc", "--noprofile", "-i"]);
    let script = "$LW run a -- sh -c 'echo rea''dy; read x; echo \"command: $x\"' &\n";
    terminal.answers(script, "ready");
    terminal.answers("echo still'' here\n", "still here");
    terminal.typed("fg\n");
    wait_until("the command has the foreground", || {
        // The second match is in the shell's message about the resumed job.
        terminal.screen().matches("rea''dy").count() >= 2
    });
    terminal.answers("one\n", "command: one");
    terminal.answers("echo sh''ell\n", "shell");
    terminal.typed("exit\n");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn waiting_shows_the_holder_and_its_remaining_time() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--label", "nightly", "a", "--", "sh", "-c", UNTIL_DONE]);
    let mut terminal = Terminal::run(&sandbox, program(), &["run", "a", "--", "echo", "ran"]);
    for shown in ["waiting for \"a\" (1 s): held by nightly@", " s left unless renewed)"] {
        terminal.wait_for(shown);
    }
    sandbox.end(held);
    terminal.wait_for("ran");
    assert!(terminal.screen().ends_with("\r\x1b[Kran\r\n"), "{:?}", terminal.screen());
    assert_eq!(terminal.code(), 0);
}

#[test]
fn only_giving_up_is_shown_without_a_terminal() {
    let sandbox = Sandbox::new();
    let _held = sandbox.hold(&["a", "--", "sleep", "60"]);
    let waited = sandbox.output(["run", "-w", "1.5", "a", "--", "true"]);
    assert_eq!(waited.stderr().lines().count(), 1, "{}", waited.stderr());
    waited.exits(1).says("lockwright: did not get \"a\": held by ");
}

#[test]
fn quiet_wait_shows_nothing() {
    let sandbox = Sandbox::new();
    let _held = sandbox.hold(&["a", "--", "sleep", "60"]);
    let args = ["run", "-q", "-w", "1.5", "a", "--", "true"];
    assert_eq!(sandbox.output(args).exits(1).stderr(), "");
    let mut terminal = Terminal::run(&sandbox, program(), &args);
    wait_until("the end", || terminal.child.try_wait().unwrap().is_some());
    assert_eq!(terminal.screen(), "");
}

#[test]
fn a_terminal_that_closes_ends_the_command() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::run(&sandbox, program(), &["run", "a", "--", "sleep", "60"]);
    wait_until("the command", || sandbox.processes().len() == 3);
    terminal.master = None;
    assert_eq!(terminal.code(), 129);
    sandbox.wait_until_empty();
    sandbox.assert_free("a");
}

/// The command in the background is stopped, because it reads from the terminal.
#[test]
fn a_terminal_that_closes_ends_a_stopped_command() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::run(&sandbox, "bash", &["--norc", "--noprofile", "-i"]);
    terminal.typed("$LW run a -- cat &\n");
    let is_stopped = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        status.is_ok_and(|status| status.contains("(cat) T"))
    };
    wait_until("the command to stop", || sandbox.processes().iter().any(is_stopped));
    terminal.master = None;
    sandbox.wait_until_empty();
    sandbox.assert_free("a");
}

#[test]
fn only_the_foreign_hold_that_was_shown_is_broken_on_redis() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let script = "$LW break --now a; echo \"code: $?\"";
    redis.command::<()>(&["SET", "a", "somebody else's", "PX", "600000"]).unwrap();
    let mut terminal = Terminal::script(&sandbox, script);
    terminal.wait_for("[y/N]");
    redis.command::<()>(&["DEL", "a"]).unwrap();
    let held = sandbox.hold(&["a", "--", "sleep", "600"]);
    terminal.answers("y\n", "code: 1");
    assert!(terminal.screen().contains("nothing was changed"), "{}", terminal.screen());
    assert_eq!(terminal.code(), 0);
    assert_eq!(sandbox.output(["run", "-n", "a", "--", "true"]).code(), 1, "it is still held");
    assert!(held.event("lost").is_none());
    drop(held);

    let sandbox = Sandbox::at(&redis.url());
    redis.command::<()>(&["SET", "b", "somebody else's", "PX", "600000"]).unwrap();
    let mut terminal = Terminal::script(&sandbox, &script.replace(" a;", " b;"));
    terminal.wait_for("[y/N]");
    terminal.answers("y\n", "code: 0");
    assert_eq!(terminal.code(), 0);
    sandbox.assert_free("b");
}
