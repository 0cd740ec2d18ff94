use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, PipeReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::{folders, timeout, tmp};

pub(crate) const WITH_BUILDING: Duration = Duration::from_secs(30 * 60);

/// The time limit of a run. On slow cores, the slowest tests take eight minutes, plus a Go
/// program's first build.
pub(crate) const RUNNING: Duration = Duration::from_secs(15 * 60);

/// Names the compiler of the workspace's crates. Clippy's compiles and lints at once, so the step
/// `clippy` doesn't check all crates a second time.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

pub(crate) fn cargo(args: &[&str]) -> Command {
    cargo_by(Command::new(program()), args)
}

/// Like [`cargo`], with the lowest priority, so that tests come first.
pub(crate) fn cargo_in_background(args: &[&str]) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program());
    cargo_by(command, args)
}

/// Removes clippy, whose compiler doesn't optimise MIR.
pub(crate) fn without_lints(command: &mut Command) -> &mut Command {
    command.env_remove(WRAPPER)
}

fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn cargo_by(mut command: Command, args: &[&str]) -> Command {
    command.args(args).current_dir(folders::root()).env(WRAPPER, "clippy-driver");
    without_our_own(&mut command);
    if colours() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

pub(crate) fn our_program(path: PathBuf, args: &[String]) -> Command {
    let mut command = Command::new(path);
    without_our_own(&mut command);
    command.args(args).env("CARGO_TARGET_DIR", folders::target());
    command.env("LOCKWRIGHT_ROOT", folders::root());
    command
}

pub(crate) fn exit_code(mut command: Command) -> Result<ExitCode, String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}

pub(crate) fn succeeds(command: Command) -> Result<(), String> {
    let done = exit_code(command)? == ExitCode::SUCCESS;
    done.then_some(()).ok_or_else(|| "it can't be built: see above".to_owned())
}

pub(crate) fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).current_dir(folders::root()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{program} {}`: {}: {}", args.join(" "), output.status, complaint.trim()))
}

/// `cargo run`'s variables would make cargo rebuild crates.
pub(crate) fn without_our_own(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_"))
            || name == "CARGO_MANIFEST_DIR"
            || name == "CARGO_MANIFEST_PATH"
        {
            command.env_remove(name);
        }
    }
}

pub(crate) fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

#[derive(Default)]
pub(crate) struct Finished {
    status: Option<ExitStatus>,
    pub(crate) lines: Vec<String>,
    coloured: Vec<String>,
    /// Processes that kept the output open after the command's end.
    left_behind: Option<String>,
    /// The exceeded limit, and the processes' states then.
    hung: Option<(Duration, String)>,
    log: PathBuf,
}

/// Output that is open this long after the command's end shows a process left behind.
const LINGER: Duration =
    if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(5) };

/// Runs `command` in the foreground, so that Ctrl-C ends it. Writes the output without colours to
/// `target/xtask/NAME.log`, and calls `each` with each line.
pub(crate) fn run(
    name: &str,
    command: Command,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> Finished {
    let log = folders::logs().join(format!("{name}.log"));
    let mut finished = Finished { log, ..Finished::default() };
    let (mut log, pipe, reader, child) = match start(command, &finished.log) {
        Ok(started) => started,
        Err(error) => {
            finished.lines.push(format!("could not be run: {error}"));
            return finished;
        }
    };
    // A thread reads: a process left behind can keep the pipe open and block a read.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(reader).split(b'\n').map_while(Result::ok);
        let mut lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        lines.try_for_each(|line| sender.send(line))
    });
    let mut running = Running { child, end: Instant::now() + limit };
    let mut ended: Option<Instant> = None;
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(coloured) => {
                let line = plain(&coloured);
                let _ = writeln!(log, "{line}");
                progress(&line);
                each(&line);
                finished.lines.push(line);
                finished.coloured.push(coloured);
                running.end_if_it_hangs(&mut finished, limit);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if running.is_over(&mut finished, limit)
                    && ended.get_or_insert_with(Instant::now).elapsed() > LINGER
                {
                    finished.left_behind = Some(holders(pipe, finished.hung()));
                    break;
                }
            }
        }
    }
    clear_progress();
    // The command may have closed its output, but still run.
    while !running.is_over(&mut finished, limit) {
        std::thread::sleep(Duration::from_millis(20));
    }
    finished
}

fn start(mut command: Command, log: &Path) -> io::Result<(File, u64, PipeReader, Child)> {
    tmp::set(&mut command);
    std::fs::create_dir_all(folders::logs())?;
    let log = File::create(log)?;
    let (reader, writer) = io::pipe()?;
    let pipe = File::from(OwnedFd::from(writer.try_clone()?)).metadata()?.ino();
    // Through a shared pipe, cargo's and the tests' lines keep their order.
    let child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    Ok((log, pipe, reader, child))
}

struct Running {
    child: Child,
    end: Instant,
}

impl Running {
    fn is_over(&mut self, finished: &mut Finished, limit: Duration) -> bool {
        if finished.status.is_none() {
            finished.status = self.child.try_wait().ok().flatten();
            self.end_if_it_hangs(finished, limit);
        }
        finished.status.is_some()
    }

    fn end_if_it_hangs(&mut self, finished: &mut Finished, limit: Duration) {
        if !finished.hung() && finished.status.is_none() && Instant::now() >= self.end {
            finished.hung = Some((limit, timeout::end(&mut self.child)));
        }
    }
}

impl Finished {
    pub(crate) fn ok(&self) -> bool {
        self.ended(true)
    }

    pub(crate) fn ended(&self, well: bool) -> bool {
        self.status.is_some_and(|status| status.success() == well)
            && self.left_behind.is_none()
            && !self.hung()
    }

    pub(crate) fn ended_as_tests_fail(&self) -> bool {
        self.ended(false) && self.status.and_then(|status| status.code()) == Some(101)
    }

    pub(crate) fn hung(&self) -> bool {
        self.hung.is_some()
    }

    pub(crate) fn explain(&self) {
        if let Some((limit, doing)) = &self.hung {
            let limit = limit.as_secs();
            println!("     it had not ended after {limit} s, so it was killed. It was:");
            doing.lines().for_each(|line| println!("       {line}"));
        }
        if let Some(processes) = &self.left_behind {
            println!("     left behind, with its output still open: {processes}");
        }
        match self.status {
            Some(status) if status.success() => {}
            Some(status) => println!("     {status}"),
            None => println!("     {}", self.lines.join("\n     ")),
        }
        println!("     full output: {}", self.log.display());
    }

    pub(crate) fn show(&self) {
        const NOISE: &str =
            "Compiling Checking Downloading Downloaded Documenting Blocking Updating Locking";
        for (line, coloured) in self.lines.iter().zip(&self.coloured) {
            let first = line.split_whitespace().next().unwrap_or_default();
            // The log has cargo's messages for programs.
            let is_message = line.starts_with("{\"reason\":");
            if !is_message && !NOISE.split(' ').any(|word| word == first) {
                println!("{coloured}");
            }
        }
    }
}

/// Returns the processes with `pipe` open. Kills them if the command was `killed`.
fn holders(pipe: u64, killed: bool) -> String {
    let target = PathBuf::from(format!("pipe:[{pipe}]"));
    let holds = |process: &Path| {
        let mut files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.any(|file| std::fs::read_link(file.path()).is_ok_and(|opened| opened == target))
    };
    let ours = std::process::id();
    let others = timeout::processes().filter(|(pid, folder)| *pid != ours && holds(folder));
    let found: Vec<u32> = others.map(|(pid, _)| pid).collect();
    let names: Vec<String> = found.iter().map(|pid| timeout::name(*pid)).collect();
    if killed {
        timeout::kill(&found);
    }
    if names.is_empty() { "some process".to_owned() } else { names.join(", ") }
}

/// If the command fails, prints its output and returns an empty error.
pub(crate) fn quietly(name: &str, command: Command) -> Result<Finished, String> {
    let finished = run(name, command, WITH_BUILDING, |_| {});
    if finished.ok() {
        return Ok(finished);
    }
    finished.show();
    finished.explain();
    Err(String::new())
}

fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest)
    })
}

fn progress(line: &str) {
    if io::stdout().is_terminal() {
        let line: String = line.trim().chars().take(72).collect();
        print!("\r\u{1b}[K     {line}");
        let _ = io::stdout().flush();
    }
}

pub(crate) fn clear_progress() {
    if io::stdout().is_terminal() {
        print!("\r\u{1b}[K");
        let _ = io::stdout().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_in_shell(name: &str, script: &str, limit: Duration) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(&format!("self-test-{name}"), command, limit, |_| {})
    }

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(plain("\u{1b}[1m\u{1b}[32mRunning\u{1b}[0m x"), "Running x");
    }

    #[test]
    fn both_outputs_come_in_their_order() {
        let finished = run_in_shell("order", "echo 1; echo 2 >&2; echo 3", RUNNING);
        assert!(finished.ok() && !finished.hung());
        assert_eq!(finished.lines, ["1", "2", "3"]);
        assert_eq!(std::fs::read_to_string(&finished.log).unwrap(), "1\n2\n3\n");
    }

    #[test]
    fn a_failure_is_not_hidden() {
        assert!(!run_in_shell("exit", "exit 3", RUNNING).ok());
        assert!(!run_in_shell("signal", "kill -9 $$", RUNNING).ok());
        assert!(!run("self-test-missing", Command::new("/does/not/exist"), RUNNING, |_| {}).ok());
    }

    #[test]
    fn a_process_left_behind_is_a_failure_and_does_not_hang_the_run() {
        let finished = run_in_shell("left", "sleep 60 & echo $!", RUNNING);
        let _ = Command::new("kill").arg(&finished.lines[0]).status();
        let said = finished.left_behind.as_deref().unwrap_or_default();
        assert!(!finished.ok());
        if cfg!(target_os = "linux") {
            assert!(said.contains(&finished.lines[0]) && said.contains("sleep 60"), "{said}");
        }
    }

    #[test]
    fn hanging_binary_fails_and_is_ended_with_its_processes() {
        let limit = Duration::from_millis(500);
        for (what, script) in [
            ("child", "sleep 1000 & echo $!; wait"),
            ("orphan", "(sleep 1000 & echo $!); sleep 1000; true"),
            ("silent", "echo $$; exec sleep 1000 >&- 2>&-"),
        ] {
            let begun = Instant::now();
            let finished = run_in_shell(what, script, limit);
            assert!(begun.elapsed() >= limit && begun.elapsed() < RUNNING / 2, "{what}");
            assert!(finished.hung() && finished.status.is_some(), "{what}");
            assert!(!finished.ok() && !finished.ended(false), "{what}");
            if cfg!(target_os = "linux") {
                let (_, doing) = finished.hung.as_ref().unwrap();
                assert!(doing.contains("sleep 1000): sleep in ") || what == "orphan", "{doing}");
                let pid = finished.lines[0].parse().unwrap();
                let gone = (0..500).any(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    // A zombie has no command line.
                    !timeout::name(pid).contains("sleep")
                });
                assert!(gone, "{what}: {doing}");
            }
        }
    }
}
