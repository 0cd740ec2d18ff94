//! A folder for each test, processes that never outlive the test, and polling.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A script that runs until [`Sandbox::end`].
pub(crate) const UNTIL_DONE: &str = "while [ ! -e done ]; do sleep 0.02; done";

/// The environment variable by which a test finds its processes. Its value is the test's folder.
const MARK: &str = "LOCKWRIGHT_TEST_SANDBOX";

pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
    url: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        Self { folder, url }
    }

    pub(crate) fn at(url: &str) -> Self {
        let mut sandbox = Self::new();
        sandbox.url = url.to_owned();
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("env");
        command
            // Children inherit which signals this process ignores, for example under `nohup`.
            .arg("--default-signal=INT,QUIT,HUP")
            .arg(program)
            .env(MARK, self.folder.path())
            .env("LOCKWRIGHT_URL", &self.url)
            .env("DIR", self.folder.path())
            .env_remove("LOCKWRIGHT_NAMESPACE")
            .env_remove("LOCKWRIGHT_HOLDS")
            .env_remove("RUST_LOG")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn lockwright<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = self.command(program());
        command.args(args);
        command
    }

    /// Returns a shell script whose `$0` is the tested program.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = self.command("sh");
        command.args(["-c", script, program()]);
        command
    }

    pub(crate) fn output<const N: usize>(&self, args: [&str; N]) -> Finished {
        self.finish(&mut self.lockwright(args))
    }

    pub(crate) fn output_of(&self, args: &[&str]) -> Finished {
        self.finish(self.lockwright(["run"]).args(args))
    }

    /// Runs a program to its end. Its output goes to files, because descendants could keep a pipe
    /// open.
    pub(crate) fn finish(&self, command: &mut Command) -> Finished {
        let [out, err] = ["out", "err"].map(|name| self.fresh_path(name));
        let mut child = command
            .stdout(fs::File::create(&out).unwrap())
            .stderr(fs::File::create(&err).unwrap())
            .spawn()
            .unwrap();
        let status = wait_for("its end", || child.try_wait().unwrap());
        let read = |path| fs::read(path).unwrap();
        Finished(Output { status, stdout: read(out), stderr: read(err) })
    }

    fn fresh_path(&self, name: &str) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        self.path(&format!("{name}-{}", NUMBER.fetch_add(1, Ordering::SeqCst)))
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        self.start_as("run", args)
    }

    pub(crate) fn start_as(&self, subcommand: &str, args: &[&str]) -> Running {
        let [events, out] = ["events", "out"].map(|name| self.fresh_path(name));
        let child = self
            .command(program())
            .args([subcommand, "--json"])
            .args(args)
            .stderr(fs::File::create(&events).unwrap())
            .stdout(fs::File::create(&out).unwrap())
            .spawn()
            .unwrap();
        Running { child, events, out }
    }

    pub(crate) fn hold(&self, args: &[&str]) -> Running {
        let held = self.start(args);
        held.wait_for_event("started");
        held
    }

    pub(crate) fn end(&self, held: Running) {
        fs::write(self.path("done"), "").unwrap();
        assert_eq!(held.code(), 0);
    }

    pub(crate) fn processes(&self) -> Vec<i32> {
        let mark = format!("{MARK}={}", self.folder.path().display());
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid: &i32| {
                // Ended processes don't count: a zombie's environment is empty, and others can't be
                // read.
                fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
                    environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
                })
            })
            .collect()
    }

    pub(crate) fn wait_until_empty(&self) {
        wait_until("every process is gone", || self.processes().is_empty());
    }

    pub(crate) fn assert_free(&self, name: &str) {
        self.output(["run", "-n", name, "--", "true"]).exits(0);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for pid in self.processes() {
            signal(pid, Signal::KILL);
        }
    }
}

pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_lockwright")
}

pub(crate) struct Finished(pub Output);

impl Finished {
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{}{}", self.stdout(), self.stderr());
        self
    }

    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr().contains(text), "{text:?}: {}", self.stderr());
        self
    }

    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout().contains(text), "{text:?}: {}{}", self.stdout(), self.stderr());
        self
    }

    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap_or_else(|| panic!("{:?}", self.0))
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.0.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?} {:?}", self.stdout(), self.stderr()))
    }
}

pub(crate) struct Running {
    pub child: Child,
    pub(crate) events: PathBuf,
    pub(crate) out: PathBuf,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn signal(&self, wanted: Signal) {
        signal(self.pid(), wanted);
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.events).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        // Lines that aren't JSON are the command's standard error.
        whole.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn event(&self, name: &str) -> Option<Value> {
        self.events().into_iter().rfind(|event| event["event"] == name)
    }

    pub(crate) fn wait_for_event(&self, name: &str) -> Value {
        wait_for(&format!("event {name:?} among {:?}", self.events), || self.event(name))
    }

    /// Waits for the error with which the run ends.
    pub(crate) fn wait_for_error(&self, code: i32) -> Value {
        let error = self.wait_for_event("error");
        assert_eq!(error["exit_code"], code, "{error}");
        error
    }

    /// Returns the hold's latest deadline, in seconds of the boot clock.
    pub(crate) fn deadline(&self) -> f64 {
        let deadlines = self.events().into_iter().filter_map(|event| event["deadline_ns"].as_u64());
        deadlines.max().expect("it held the lock") as f64 / 1e9
    }

    pub(crate) fn supervisor(&self) -> i32 {
        supervisor_of(self.pid())
    }

    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        let status = wait_for("its end", || self.child.try_wait().unwrap());
        (status, fs::read_to_string(&self.out).unwrap())
    }

    pub(crate) fn code(self) -> i32 {
        let events = self.events.clone();
        let (status, _) = self.finish();
        status.code().unwrap_or_else(|| panic!("{status}: {}", fs::read_to_string(events).unwrap()))
    }
}

pub(crate) fn supervisor_of(pid: i32) -> i32 {
    wait_for("the supervisor", || {
        descendants(pid).into_iter().find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.trim() == "lockwright-sup")
        })
    })
}

pub(crate) fn descendants(pid: i32) -> Vec<i32> {
    let found = lockwright_testbed::descendants::of(pid as u32);
    found.into_iter().map(|pid| pid as i32).collect()
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

pub(crate) fn uptime() -> f64 {
    lockwright::Clock::boot().now().as_nanos() as f64 / 1e9
}

pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "late: waited {LIMIT:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// A log of writes: each line has a time of the boot clock, a fence, and a name.
pub(crate) struct Log(PathBuf);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub time: f64,
    pub fence: u64,
    pub who: String,
}

impl Log {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        Self(sandbox.path("log"))
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| {
                let mut parts = line.split(' ');
                let mut next = || parts.next().unwrap_or_else(|| panic!("{line:?}"));
                Entry {
                    time: next().parse().unwrap(),
                    fence: next().parse().unwrap(),
                    who: next().to_owned(),
                }
            })
            .collect()
    }

    pub(crate) fn wait_for_all(&self, names: &[&str]) {
        let before = self.entries().len();
        for name in names {
            wait_until(&format!("{name} writes to {}", Path::new(&self.0).display()), || {
                self.entries()[before..].iter().any(|entry| entry.who == *name)
            });
        }
    }
}

/// Returns a command with a child, and with a grandchild and an orphan in other sessions. All write
/// to the log every 20 ms, and only KILL ends them.
pub(crate) fn family(sandbox: &Sandbox) -> String {
    let path = sandbox.path("stubborn.sh");
    let script = "trap '' TERM INT HUP QUIT USR1 USR2\n\
                  while :; do\n\
                  read -r now idle </proc/uptime\n\
                  echo \"$now $LOCKWRIGHT_FENCE $1\" >>\"$DIR/log\"\n\
                  sleep 0.02\n\
                  done\n";
    fs::write(&path, script).unwrap();
    let stubborn = path.display();
    format!(
        "sh {stubborn} child & setsid sh {stubborn} grandchild & \
         (setsid sh {stubborn} orphan &) & exec sh {stubborn} command"
    )
}

pub(crate) const FAMILY: [&str; 4] = ["command", "child", "grandchild", "orphan"];
