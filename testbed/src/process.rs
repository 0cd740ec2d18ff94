use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::descendants::{self, KillOnExit};
use crate::{Account, Error, Result, methods, wait};

static ENVIRONMENT: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Sets environment variables for later calls of [`Program::start`]. A program's own take
/// precedence.
pub fn set_environment(variables: Vec<(String, String)>) {
    *ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner) = variables;
}

#[derive(Debug, Clone)]
pub struct Program {
    binary: String,
    package: &'static str,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    account: Option<Account>,
    last_signal: &'static str,
    stop_signal: Signal,
    has_children: bool,
    limit: Duration,
}

methods::setters! { Program {
    pub fn run_as(account: Option<Account>) sets account to account;
    /// The limit of [`run`](Self::run), by default two minutes.
    pub fn within(limit: Duration) sets limit to limit;
} }

impl Program {
    pub fn new(binary: impl Into<String>, package: &'static str) -> Self {
        Self {
            binary: binary.into(),
            package,
            arguments: Vec::new(),
            environment: Vec::new(),
            account: None,
            last_signal: "KILL",
            stop_signal: Signal::TERM,
            has_children: false,
            limit: 2 * wait::LIMIT,
        }
    }

    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Makes kills and freezes include the program's children. Two signals must end them: `stop`,
    /// and `last` (without `SIG`), which is sent when this process ends.
    pub(crate) fn with_children(mut self, stop: Signal, last: &'static str) -> Self {
        self.has_children = true;
        (self.stop_signal, self.last_signal) = (stop, last);
        self
    }

    pub fn locate(&self) -> Result<PathBuf> {
        locate(&self.binary, self.package)
    }

    /// Starts the program in `folder`, with its log there, until this process ends.
    pub fn start(&self, folder: &Path) -> Result<Process> {
        let log = folder.join(format!("{}.log", self.short_name()));
        let out = fs_err::File::options().create(true).append(true).open(&log)?.into_parts().0;
        let both = out.try_clone()?;
        let mut command = self.dying_with_us()?;
        for (name, value) in ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if self.environment.iter().all(|(own, _)| own != name) {
                command.env(name, value);
            }
        }
        command.current_dir(folder).stdin(Stdio::null()).stdout(out).stderr(both);
        let child = spawn(command)
            .map_err(|error| Error::new(format!("{} did not start: {error}", self.binary)))?;
        Ok(Process {
            name: self.short_name().to_owned(),
            child,
            log,
            stop_signal: self.stop_signal,
            has_children: self.has_children,
            kill_on_exit: Mutex::default(),
        })
    }

    /// Returns the program's output, which an error also contains.
    pub fn run(&self, folder: &Path, input: &str) -> Result<String> {
        let failed = |error: io::Error| Error::new(format!("{}: {error}", self.binary));
        let files = || Ok([tempfile::tempfile()?, tempfile::tempfile()?, tempfile::tempfile()?]);
        let [mut given, mut output, mut complaints] = files().map_err(failed)?;
        given.write_all(input.as_bytes()).and_then(|()| given.rewind()).map_err(failed)?;
        let mut command = self.dying_with_us()?;
        command.current_dir(folder).stdin(given);
        command.stdout(output.try_clone()?).stderr(complaints.try_clone()?);
        let mut child = spawn(command).map_err(failed)?;
        let ended = wait::until(self.limit, || child.try_wait().transpose());
        if ended.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let how = match ended {
            Some(Ok(status)) if status.success() => return all_of(&mut output).map_err(failed),
            Some(Ok(status)) => status.to_string(),
            Some(Err(error)) => return Err(failed(error)),
            None => format!("it did not end within {:?}", self.limit),
        };
        let (output, complaints) = (all_of(&mut output)?, all_of(&mut complaints)?);
        Err(Error::new(format!("{}: {how}\n{output}{complaints}", self.binary)))
    }

    fn short_name(&self) -> &str {
        Path::new(&self.binary).file_name().and_then(|name| name.to_str()).unwrap_or(&self.binary)
    }

    /// `setpriv` ends the command with this process, without unsafe code.
    fn dying_with_us(&self) -> Result<Command> {
        let mut command = if cfg!(target_os = "linux") {
            let mut setpriv = Command::new(locate("setpriv", "util-linux")?);
            setpriv.args(["--pdeathsig", self.last_signal, "--"]).arg(self.locate()?);
            setpriv
        } else {
            Command::new(self.locate()?)
        };
        command.args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        Ok(command)
    }
}

fn all_of(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn locate(binary: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A user's PATH often lacks these.
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(binary))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| {
            Error::new(format!(
                "{binary} is not installed; on Debian or Ubuntu it is in the package {package}, \
                 and `cargo xtask test`, run as root, installs it without starting its service"
            ))
        })
}

/// Starts processes from one permanent thread: the kernel sends the parent death signal when the
/// starting *thread* ends.
fn spawn(command: Command) -> io::Result<Child> {
    type Job = (Command, Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        thread::Builder::new()
            .name("testbed-spawner".to_owned())
            .spawn(move || {
                for (mut command, answer) in queue {
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("a thread starts");
        Mutex::new(jobs)
    });
    let (answer, child) = channel();
    let sent =
        spawner.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer)).is_ok();
    assert!(sent, "the spawner lives as long as the process");
    child.recv().expect("the spawner answers")
}

#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    stop_signal: Signal,
    has_children: bool,
    kill_on_exit: Mutex<Option<KillOnExit>>,
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// If the process ends, or after [`wait::LIMIT`], returns an error with the log.
    pub fn wait_until_ready<T>(&mut self, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
        let answer = wait::until(wait::LIMIT, || match ask() {
            Some(answer) => Some(Some(answer)),
            None => self.ended().map(|_| None),
        });
        match answer {
            Some(Some(answer)) => Ok(answer),
            Some(None) => Err(Error::new(format!("{} ended at once:\n{}", self.name, self.log()))),
            None => Err(Error::new(format!("{} does not answer:\n{}", self.name, self.log()))),
        }
    }

    /// Resumes the process and sends its stop signal. Kills it after [`wait::LIMIT`].
    pub fn stop(&mut self) {
        self.stop_by(self.stop_signal);
    }

    pub(crate) fn stop_by(&mut self, signal: Signal) {
        if self.ended().is_some() {
            return;
        }
        self.thaw();
        descendants::signal(&[self.pid()], signal);
        if wait::until(wait::LIMIT, || self.ended()).is_none() {
            self.kill();
        }
    }

    pub fn kill(&mut self) {
        if self.has_children && self.ended().is_none() {
            // A frozen process neither starts nor reaps children, so their ids can't be reused.
            self.freeze_one();
            let children = descendants::of(self.pid());
            descendants::signal(&children, Signal::KILL);
            descendants::wait(&children, descendants::has_ended);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.cancel_kill_on_exit();
    }

    pub fn freeze(&self) {
        self.freeze_one();
        if self.has_children {
            let mut all = descendants::of(self.pid());
            descendants::signal(&all, Signal::STOP);
            let stopped = descendants::wait(&all, is_stopped_or_has_ended);
            assert!(stopped, "the children of {} can be stopped", self.name);
            all.push(self.pid());
            let kill_on_exit = KillOnExit::watch(&all).expect("sh starts");
            *self.kill_on_exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(kill_on_exit);
        }
    }

    fn freeze_one(&self) {
        descendants::signal(&[self.pid()], Signal::STOP);
        let stopped = descendants::wait(&[self.pid()], is_stopped_or_has_ended);
        assert!(stopped, "{} can be stopped", self.name);
    }

    pub fn thaw(&self) {
        if self.has_children {
            self.cancel_kill_on_exit();
            descendants::signal(&descendants::of(self.pid()), Signal::CONT);
        }
        descendants::signal(&[self.pid()], Signal::CONT);
    }

    pub(crate) fn is_frozen(&self) -> bool {
        descendants::is_stopped(self.pid())
    }

    fn cancel_kill_on_exit(&self) {
        *self.kill_on_exit.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn is_stopped_or_has_ended(pid: u32) -> bool {
    descendants::is_stopped(pid) || descendants::has_ended(pid)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
