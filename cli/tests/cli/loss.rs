//! Tests that after a loss of the hold, the command and its descendants end before the deadline and
//! the next grant, whichever process was killed or suspended.
//!
//! Each test checks by a log that no writes of two holders overlap.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use lockwright_testbed::redis::Redis;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Signal;

use crate::harness::{
    Entry, FAMILY, Log, Running, Sandbox, UNTIL_DONE, descendants, family, program, signal,
    supervisor_of, uptime, wait_for, wait_until,
};

/// With this TTL, the hold counts as lost 800 ms before the deadline. In this time, even a busy
/// machine ends the command.
const TTL: &str = "8s";

/// A holder whose command is a [`family`], and a waiter.
struct Scene {
    sandbox: Sandbox,
    log: Log,
    holder: Running,
    next: Running,
}

impl Scene {
    fn begin() -> Self {
        Self::begin_in(Sandbox::new())
    }

    fn begin_in(sandbox: Sandbox) -> Self {
        let log = Log::new(&sandbox);
        let family = family(&sandbox);
        let holder = sandbox.start(&["--ttl", TTL, "a", "--", "sh", "-c", &family]);
        log.wait_for_all(&FAMILY);
        // The tests need a deadline that was set by a renewal.
        holder.wait_for_event("renewed");
        let script = "i=0; while [ $i -lt 20 ]; do read -r now idle </proc/uptime; \
                      echo \"$now $LOCKWRIGHT_FENCE next\" >>\"$DIR/log\"; sleep 0.02; \
                      i=$((i + 1)); done";
        let next = sandbox.start(&["--ttl", TTL, "-w", "60", "a", "--", "sh", "-c", script]);
        next.wait_for_event("waiting");
        Self { sandbox, log, holder, next }
    }

    fn finish(self) -> Outcome {
        let fence_of_next = self.next.wait_for_event("granted")["fence"].as_u64().unwrap();
        assert_eq!(self.next.code(), 0);
        self.sandbox.wait_until_empty();
        let deadline = self.holder.deadline();
        let entries = self.log.entries();
        let (next, first): (Vec<_>, Vec<_>) =
            entries.iter().cloned().partition(|entry| entry.fence == fence_of_next);
        let result = Outcome { deadline, first, next };
        result.assert_apart(&entries);
        result
    }
}

struct Outcome {
    deadline: f64,
    first: Vec<Entry>,
    next: Vec<Entry>,
}

impl Outcome {
    fn assert_apart(&self, entries: &[Entry]) {
        assert_eq!(self.next.len(), 20);
        for who in FAMILY {
            assert!(self.first.iter().any(|entry| entry.who == who), "{who} wrote nothing");
        }
        let changes = entries.windows(2).filter(|pair| pair[0].fence != pair[1].fence).count();
        assert_eq!(changes, 1, "the lines of two holders are mixed: {entries:?}");
        assert!(self.first[0].fence < self.next[0].fence);
        let last = self.last();
        assert!(last < self.next[0].time, "{last} and {}", self.next[0].time);
    }

    fn last(&self) -> f64 {
        self.first.iter().map(|entry| entry.time).fold(0.0, f64::max)
    }

    fn assert_ended_by_deadline(&self) {
        assert_in_time(self.last(), self.deadline);
        let before = self.deadline - self.last();
        assert!(before < 1.0, "ended {before} s before the deadline");
    }
}

fn assert_in_time(last: f64, deadline: f64) {
    assert!(last < deadline, "late: written {} s after the deadline", last - deadline);
}

#[test]
fn a_killed_run_takes_its_command_along() {
    let scene = Scene::begin();
    let killed_at = uptime();
    scene.holder.signal(Signal::KILL);
    let result = scene.finish();
    assert_in_time(result.last(), result.deadline);
    assert!(result.next[0].time >= killed_at);
}

#[test]
fn a_killed_run_ends_a_command_that_heeds_term_at_once() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--ttl", "60s", "a", "--", "sh", "-c", "setsid sleep 60 & sleep 60"]);
    wait_until("the grandchild", || sandbox.processes().len() >= 5);
    let killed_at = uptime();
    held.signal(Signal::KILL);
    // The killed run stays a zombie, which `processes` doesn't list.
    sandbox.wait_until_empty();
    assert!(uptime() - killed_at < 4.0, "neither the deadline nor the KILL was waited for");
}

#[test]
fn a_stopped_run_does_not_keep_its_command_beyond_the_deadline() {
    let scene = Scene::begin();
    scene.holder.signal(Signal::STOP);
    let granted = scene.next.wait_for_event("granted");
    assert!(scene.holder.event("error").is_none(), "it is stopped: {granted}");
    scene.holder.signal(Signal::CONT);
    scene.holder.wait_for_error(75);
    scene.finish().assert_ended_by_deadline();
}

#[test]
fn a_stopped_run_reports_the_end_of_its_command() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--ttl", "2s", "a", "--", "sleep", "60"]);
    held.signal(Signal::STOP);
    wait_until("only the stopped one is left", || sandbox.processes() == [held.pid()]);
    held.signal(Signal::CONT);
    let (error, exit) = (held.wait_for_event("error"), held.wait_for_event("ended"));
    assert!(error["message"].as_str().unwrap().contains("not renewed"), "{error}");
    assert_eq!(exit["signal"], 15, "it had its chance to end by itself");
    assert_eq!(held.code(), 75);
}

#[test]
fn a_command_ends_with_its_killed_supervisor() {
    let scene = Scene::begin();
    let killed_at = uptime();
    signal(scene.holder.supervisor(), Signal::KILL);
    scene.holder.wait_for_error(70);
    let result = scene.finish();
    assert!(result.last() < killed_at + 1.0, "ended {} s later", result.last() - killed_at);
    let at = result.next[0].time;
    assert!(at < result.deadline, "the lock was released at once, as nothing was left");
}

#[test]
fn a_stopped_supervisor_is_continued() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--ttl", "1s", "a", "--", "sh", "-c", UNTIL_DONE]);
    signal(held.supervisor(), Signal::STOP);
    sandbox.end(held);
}

/// Either the supervisor ends the command between two suspensions, or `lockwright run` ends it.
#[test]
fn a_supervisor_that_is_stopped_again_and_again_does_not_help_the_command() {
    let sandbox = Sandbox::new();
    let log = Log::new(&sandbox);
    let family = family(&sandbox);
    // With this TTL, the hold counts as lost a second before the deadline. A busy machine's
    // pauses are shorter.
    let held = sandbox.start(&["--fixed", "--ttl", "10s", "a", "--", "sh", "-c", &family]);
    log.wait_for_all(&FAMILY);
    let supervisor = held.supervisor();
    wait_until("its end", || {
        for _ in 0..20 {
            signal(supervisor, Signal::STOP);
            std::thread::sleep(Duration::from_micros(100));
        }
        held.event("error").is_some()
    });
    held.wait_for_error(75);
    let deadline = held.deadline();
    assert_eq!(held.code(), 75);
    assert_eq!(sandbox.processes(), [0; 0]);
    assert_in_time(log.entries().last().unwrap().time, deadline);
}

#[test]
fn the_command_dies_when_run_and_supervisor_are_killed_together() {
    let sandbox = Sandbox::new();
    let script = "echo $$ >pid; trap '' TERM; while :; do sleep 0.02; done";
    let held = sandbox.start(&["a", "--", "sh", "-c", script]);
    let command = wait_for("the command", || {
        fs::read_to_string(sandbox.path("pid")).ok()?.trim().parse::<i32>().ok()
    });
    let supervisor = held.supervisor();
    // Suspend both processes first, so that the supervisor can't act between the kills.
    held.signal(Signal::STOP);
    signal(supervisor, Signal::STOP);
    held.signal(Signal::KILL);
    signal(supervisor, Signal::KILL);
    wait_until("the command is dead", || !sandbox.processes().contains(&command));
    sandbox.wait_until_empty();
}

#[test]
fn everything_stopped_and_continued_is_ended_at_once() {
    let scene = Scene::begin();
    let supervisor = scene.holder.supervisor();
    let family = descendants(supervisor);
    scene.holder.signal(Signal::STOP);
    signal(supervisor, Signal::STOP);
    for pid in &family {
        signal(*pid, Signal::STOP);
    }
    let fence = scene.next.wait_for_event("granted")["fence"].as_u64().unwrap();
    scene.next.wait_for_event("ended");
    let continued_at = uptime();
    signal(supervisor, Signal::CONT);
    scene.holder.signal(Signal::CONT);
    for pid in &family {
        signal(*pid, Signal::CONT);
    }
    scene.holder.wait_for_error(75);
    assert_eq!(scene.holder.code(), 75);
    scene.sandbox.wait_until_empty();
    for entry in scene.log.entries() {
        if entry.fence != fence && entry.time > continued_at {
            // The first holder's last writes have an old fence, so a resource can reject them.
            assert!(entry.time < continued_at + 1.0, "not ended at once: {entry:?}");
            assert!(entry.fence < fence);
        }
    }
}

#[test]
fn a_broken_lock_ends_the_command_before_the_next_holder_begins() {
    let scene = Scene::begin();
    scene.sandbox.output(["break", "--yes", "--reason", "test", "a"]).exits(0);
    let error = scene.holder.wait_for_error(75);
    assert!(error["message"].as_str().unwrap().contains("operator"), "{error}");
    scene.finish();
}

#[test]
fn a_database_that_stays_locked_ends_the_command_by_the_deadline() {
    let scene = Scene::begin();
    let mut locking = scene
        .sandbox
        .command("sqlite3")
        .arg("locks.db")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut statements = locking.stdin.take().unwrap();
    statements.write_all(b".timeout 10000\nBEGIN EXCLUSIVE;\nSELECT 'locked';\n").unwrap();
    let mut answer = String::new();
    BufReader::new(locking.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "locked\n");

    scene.holder.wait_for_event("at_risk");
    scene.holder.wait_for_error(75);
    assert!(scene.next.event("granted").is_none());
    drop(statements);
    assert!(locking.wait().unwrap().success());
    scene.finish().assert_ended_by_deadline();
}

#[test]
fn a_redis_that_is_stopped_ends_the_command_by_the_deadline() {
    let redis = Redis::start().unwrap();
    let scene = Scene::begin_in(Sandbox::at(&redis.url()));
    redis.freeze();
    scene.holder.wait_for_error(75);
    redis.thaw();
    scene.finish().assert_ended_by_deadline();
}

/// A successful renewal is reported only after a failed one.
#[test]
fn a_redis_that_comes_back_in_time_is_reported() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let said = sandbox.path("said");
    let mut held = sandbox.lockwright(["run", "--ttl", "10s", "a", "--", "sleep", "60"]);
    let mut held = held.stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    let says = |words: &str| fs::read_to_string(&said).unwrap().contains(words);
    wait_until("it is held", || sandbox.output(["run", "-n", "a", "true"]).code() == 1);
    redis.freeze();
    wait_until("the risk is told", || says("could not be renewed yet"));
    assert!(!says("is renewed again"));
    redis.thaw();
    wait_until("that it is over is told", || says("the lock \"a\" is renewed again"));
    assert!(held.try_wait().unwrap().is_none(), "the command goes on");
    held.kill().unwrap();
    held.wait().unwrap();
}

#[test]
fn a_command_that_forks_all_the_time_is_ended_too() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; (setsid sh hop.sh &) ; sleep 60";
    fs::write(
        sandbox.path("hop.sh"),
        "trap '' TERM\nread -r now idle </proc/uptime\n\
         echo \"$now $LOCKWRIGHT_FENCE hop\" >>\"$DIR/log\"\nsleep 0.01\n(setsid sh hop.sh &)\n",
    )
    .unwrap();
    let log = Log::new(&sandbox);
    let held = sandbox.start(&["--ttl", TTL, "a", "--", "sh", "-c", script]);
    log.wait_for_all(&["hop"]);
    held.signal(Signal::STOP);
    wait_until("only the stopped one is left", || sandbox.processes() == [held.pid()]);
    assert_in_time(log.entries().last().unwrap().time, held.deadline());
}

/// Tests the clock check of the process that becomes the command.
#[test]
fn a_command_does_not_begin_after_its_term() {
    let sandbox = Sandbox::new();
    let begin = |lost_at: u64| {
        let mut command = sandbox.command(program());
        command.args(["__become", &std::process::id().to_string(), "-", &lost_at.to_string()]);
        sandbox.finish(command.args(["touch", "began"]))
    };
    let now = lockwright::Clock::boot().now().as_nanos();
    begin(now).exits(75);
    assert!(!sandbox.path("began").exists());
    assert_eq!(begin(now + 3_600_000_000_000).code(), 0);
    assert!(sandbox.path("began").exists());
}

/// Simulates that `lockwright run` was suspended between the grant and its first order.
#[test]
fn a_supervisor_does_not_start_a_command_after_its_term() {
    let sandbox = Sandbox::new();
    let supervise = |lost_at: u64| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = sandbox.command(program());
        command.args(["__supervise", "touch", "began"]).stdin(OwnedFd::from(theirs));
        let term = serde_json::json!({ "lost_at": lost_at, "deadline": lost_at + 1_000_000_000 });
        let order = format!("{:96}", serde_json::json!({ "Confirmed": term }).to_string());
        let null = fs::File::open("/dev/null").unwrap();
        let fds = [std::os::fd::AsFd::as_fd(&null)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let bytes = [std::io::IoSlice::new(order.as_bytes())];
        sendmsg(&ours, &bytes, &mut ancillary, SendFlags::empty()).unwrap();
        sandbox.finish(&mut command).code()
    };
    let now = lockwright::Clock::boot().now().as_nanos();
    assert_eq!(supervise(now), 75);
    assert!(!sandbox.path("began").exists());
    assert_eq!(supervise(now + 3_600_000_000_000), 0);
    assert!(sandbox.path("began").exists());
}

/// A shell with a background job becomes `lockwright run`. Because of the job, `wait` can't confirm
/// that no process of the command is left, so the lock must expire.
#[test]
fn lock_is_not_released_if_the_supervisor_is_killed_next_to_a_shells_job() {
    let sandbox = Sandbox::new();
    let log = Log::new(&sandbox);
    fs::write(sandbox.path("family.sh"), family(&sandbox)).unwrap();
    let events = fs::File::create(sandbox.path("told")).unwrap();
    let script =
        format!("sleep 1234 & echo $! >job; exec $0 run --json --ttl {TTL} a -- sh family.sh");
    let mut shell = sandbox.shell(&script).stderr(events).spawn().unwrap();
    log.wait_for_all(&FAMILY);
    let job: i32 = fs::read_to_string(sandbox.path("job")).unwrap().trim().parse().unwrap();
    signal(supervisor_of(shell.id() as i32), Signal::KILL);
    let status = wait_for("its end", || shell.try_wait().unwrap());
    assert_eq!(status.code(), Some(70));
    assert_eq!(sandbox.processes(), [job], "the command's are gone, the shell's job isn't");
    let told = fs::read_to_string(sandbox.path("told")).unwrap();
    assert!(told.contains("\"not_released\""), "{told}");
    sandbox.output(["run", "-n", "a", "--", "true"]).exits(1);
    sandbox.output(["run", "-w", "20", "a", "--", "true"]).exits(0);
}

/// A shell with a background job becomes `lockwright run`. The job isn't a part of CMD.
#[test]
fn a_job_of_the_shell_and_its_orphans_are_left_alone() {
    let sandbox = Sandbox::new();
    let script = format!(
        "(until [ -e orphan ]; do sleep 0.01; done; setsid sleep 1234 & echo $! >job) & \
         exec $0 run --ttl {TTL} a -- sh -c 'touch orphan; until [ -s job ]; do sleep 0.01; done'"
    );
    sandbox.finish(&mut sandbox.shell(&script)).exits(0);
    let job: i32 = fs::read_to_string(sandbox.path("job")).unwrap().trim().parse().unwrap();
    sandbox.assert_free("a");
    assert_eq!(sandbox.processes(), [job]);
}

/// Each process forks the next one, and exits before a scan can find it.
#[test]
fn a_fast_chain_of_forks_is_ended_too() {
    let sandbox = Sandbox::new();
    let script = "$SIG{TERM} = 'IGNORE'; open(my $up, '>', 'up'); close($up); \
                  while (time < $^T + 40) { my $pid = fork(); exit 0 if $pid; }";
    // With this TTL, the hold is lost before the supervisor would kill leftover processes.
    let held = sandbox.start(&["--fixed", "--ttl", "4s", "a", "--", "perl", "-e", script]);
    wait_until("the chain", || sandbox.path("up").exists());
    let deadline = held.deadline();
    held.wait_for_error(75);
    let now = uptime();
    // The time includes the final requests to the server.
    assert!(now < deadline + 2.0, "ended {} s after the deadline", now - deadline);
    assert_eq!(sandbox.processes(), [0; 0]);
}

fn assert_exits_on_full_pipe(mut command: Command, code: i32) {
    let (_reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut run = command.stderr(writer).spawn().unwrap();
    let status = wait_for("its end", || run.try_wait().unwrap());
    assert_eq!(status.code(), Some(code));
}

/// The run drops its message if the pipe is full.
#[test]
fn a_full_pipe_keeps_no_lock_of_a_command_that_is_not_executed() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("script"), "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(sandbox.path("script"), mode).unwrap();
    assert_exits_on_full_pipe(sandbox.lockwright(["run", "a", "--", "./script"]), 127);
}

/// On a full pipe, the run drops its events.
#[test]
fn a_full_pipe_of_messages_stops_nothing() {
    let sandbox = Sandbox::new();
    let script = "sleep 3; touch done";
    let run = ["run", "--json", "--ttl", "1s", "a", "--", "sh", "-c", script];
    assert_exits_on_full_pipe(sandbox.lockwright(run), 0);
    assert!(sandbox.path("done").exists());
}

#[test]
fn a_full_pipe_of_log_events_stops_nothing() {
    let sandbox = Sandbox::new();
    let script = "\"$0\" break --yes --now a >/dev/null; sleep 60";
    let mut run =
        sandbox.lockwright(["run", "--ttl", "2s", "a", "--", "sh", "-c", script, program()]);
    run.env("RUST_LOG", "warn");
    assert_exits_on_full_pipe(run, 75);
}
