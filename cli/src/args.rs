use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use lockwright::Mode;

use crate::{duration, exit};

/// Distributed locks for the shell.
#[derive(Debug, Parser)]
#[command(name = "lockwright", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten, next_help_heading = "Connection options")]
    pub connection: ConnectionOptions,
    #[command(subcommand)]
    pub command: Command,
}

/// The options of the connection and of the output.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectionOptions {
    /// The server or file with the locks: sqlite:PATH, redis://HOST/, postgres://..., zookeeper:A,B,C, ...
    ///
    /// Also mysql://..., valkey://..., redis+sentinel:, redis+cluster: and redlock:, and
    /// etcd:http://A,http://B if this build includes it; the guide lists all.
    ///
    /// Default: a SQLite file in your state folder ($XDG_STATE_HOME/lockwright/locks.db or
    /// ~/.local/state/lockwright/locks.db), which the processes of this machine share. Set a URL
    /// with a password in the environment: all users of this machine can see arguments. An empty
    /// URL is an error.
    #[arg(long, global = true, env = "LOCKWRIGHT_URL", hide_env_values = true, value_name = "URL")]
    pub url: Option<String>,

    /// A configuration file in TOML: url, ttl, wait, namespace, label, require, sweep, ...
    ///
    /// It has the format of the library's `Config`. Options and the variables LOCKWRIGHT_...
    /// override it.
    #[arg(long, global = true, env = "LOCKWRIGHT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The prefix of every name, so that several projects can share a server
    #[arg(long, global = true, env = "LOCKWRIGHT_NAMESPACE", value_name = "PREFIX")]
    pub namespace: Option<String>,

    /// The holder's name in `show` and `list`: a job, a service. Default: LOCKWRIGHT_LABEL
    #[arg(long, global = true, value_name = "TEXT")]
    pub label: Option<String>,

    /// Write JSON: events of `run`, `elect` and `acquire` on standard error, other results on standard output
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    ///
    /// Acquires the lock NAME, runs CMD, releases the lock and exits with CMD's exit code. While
    /// CMD runs, the lock is renewed. If the hold is lost (the server was unreachable for too long,
    /// an operator broke it, this process was stopped), CMD and all its descendants are ended before
    /// another client can hold the lock: TERM, then KILL.
    #[command(
        after_help = exit::TABLE,
        override_usage = "lockwright run [OPTIONS] NAME [--] CMD [ARG]...\n       \
                          lockwright run [OPTIONS] NAME -c COMMAND"
    )]
    Run(Box<Run>),

    /// Run a command while leading an election
    ///
    /// Like `run`, but after a loss, acquires the lock again and runs CMD again. If CMD ends by
    /// itself, ends with CMD's exit code. After the first loss, retries while the server is
    /// unreachable. If -n or -w gives up, ends with exit code 1, or -E.
    #[command(
        after_help = exit::TABLE,
        override_usage = "lockwright elect [OPTIONS] NAME [--] CMD [ARG]...\n       \
                          lockwright elect [OPTIONS] NAME -c COMMAND"
    )]
    Elect(Box<Run>),

    /// Acquire a lock for several commands, and print a ticket
    ///
    /// The lock stays held after this command ends: until `release TICKET`, or until the TTL has
    /// passed since `acquire` or the last `renew TICKET`. Exit codes: see `run`.
    Acquire(Acquire),

    /// Extend a ticket's hold to a whole TTL
    ///
    /// The ticket stays the same. Exit code 75 if the hold has ended.
    Renew {
        /// The ticket from `acquire`; `-` reads it from standard input, where other users can't see it
        ticket: String,
    },

    /// Release a ticket's hold
    ///
    /// Exit code 75 if the hold had ended before.
    Release {
        /// The ticket from `acquire`; `-` reads it from standard input, where other users can't see it
        ticket: String,
    },

    /// List the held locks
    ///
    /// On Redis, locks of other libraries are not listed, because their keys look like any other
    /// key. `show NAME` shows one.
    List {
        /// List only names with this prefix
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },

    /// Print a line for each change of the held locks
    ///
    /// Prints the present holds, and then a line when a hold begins, ends or is broken, or when the
    /// number of waiters changes. `watch` polls, so it may miss a hold that is shorter than the pause
    /// between two polls. It continues while the server is unreachable.
    Watch(PollOptions),

    /// Show the held locks on a live screen
    ///
    /// Keys: n, l and w sort by name, time left and waiters; r reverses the order; / filters by
    /// text, and Esc shows all again; the arrow and page keys scroll; q ends. SINCE is the time
    /// since the grant. If that is unknown, it counts from the first poll with the hold; `>` then
    /// marks a hold of the very first poll.
    Top(PollOptions),

    /// Show a lock's holders
    ///
    /// Exit code 1 if the lock is free.
    Show {
        /// The lock's name
        name: String,
    },

    /// Break another client's hold of a lock
    ///
    /// The hold can no longer be renewed, and the lock is free when the hold expires. So there are
    /// never two holders. --now frees the lock at once, and then two clients may work at a time.
    Break(Break),

    /// Delete the records of unused names
    ///
    /// A SQL database keeps a row with the fence of every name that was ever locked. This deletes
    /// the rows of names that were not used for a while, in small steps that don't block locking. A
    /// name that is used again still gets a higher fence than before. Run this regularly, or set
    /// `sweep` in a client's configuration.
    Sweep {
        /// Delete only rows that were not used for this long: 10m, 1d
        #[arg(long, value_name = "TIME", default_value = "1h")]
        #[arg(allow_hyphen_values = true, value_parser = duration::any)]
        idle: Duration,
    },

    /// Print the SQL statements that create the tables
    ///
    /// Use it if the clients' database user may not create tables. The URL sets the names (?table=,
    /// ?schema=). No connection is made.
    Schema,

    /// Let new nodes of a Redlock vote
    ///
    /// A node that was never used, or that lost its data, doesn't vote until one largest TTL has
    /// passed: it may have lost a lock that is still held. Without --yes this only shows which
    /// nodes vote. Exit code 1 if not all of them vote.
    Admit(Admit),

    /// Check the server's configuration for risks to the safety of locks
    ///
    /// Exit code 1 if an error was found.
    Doctor,

    /// Check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),

    /// Run the conformance suite against a server
    ///
    /// The suite locks names of its own. On Redis, the keys it leaves behind expire: fences after a
    /// week, tombstones after an hour.
    Conformance(Conformance),

    /// Print a completion script for a shell
    ///
    /// For bash: lockwright completions bash >~/.local/share/bash-completion/completions/lockwright
    Completions {
        /// The shell
        shell: Shell,
    },

    /// Write the man pages, one for each subcommand
    #[command(hide = true)]
    Man {
        /// An existing folder for the pages. Default: standard output
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the settings, their sources, and problems, without connecting
    ///
    /// Exit code 78 if there is a problem. A server may lack more of the required properties.
    Check {
        /// The file, instead of --config
        file: Option<PathBuf>,
    },
}

/// The arguments of `run` and `elect`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// The lock's name
    pub name: String,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Run this through sh instead of CMD
    #[arg(short = 'c', long = "command", value_name = "COMMAND", conflicts_with = "command")]
    pub shell: Option<OsString>,

    /// Acquire the lock NAME too; repeat the option for more locks
    #[arg(long, value_name = "NAME", conflicts_with_all = ["shared", "semaphore"])]
    pub and: Vec<String>,

    /// Acquire permits of a semaphore of SIZE instead of the lock
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["shared", "exclusive"])]
    pub semaphore: Option<u32>,

    /// The number of permits to acquire
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "semaphore")]
    pub permits: u32,

    #[command(flatten)]
    pub request: RequestOptions,

    /// How long the server keeps the lock if this machine fails: 500ms, 1m. Default: LOCKWRIGHT_TTL, the configuration's ttl, or 30s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::ttl)]
    pub ttl: Option<Duration>,

    /// Don't renew the hold. CMD is ended when the TTL expires
    #[arg(long)]
    pub fixed: bool,

    /// End CMD when the lock was held for this long
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::some)]
    pub max_hold: Option<Duration>,

    /// Keep the lock for at least this long, even if CMD ends sooner
    ///
    /// So a short job doesn't run again on a machine whose clock is late.
    #[arg(long, value_name = "TIME", conflicts_with = "fixed")]
    #[arg(allow_hyphen_values = true, value_parser = duration::some)]
    pub at_least: Option<Duration>,

    /// Keep the lock for this long after CMD has succeeded; if CMD fails, release it
    ///
    /// So CMD succeeds once per period. Not on etcd and ZooKeeper, and not in the modes session and row.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["and", "semaphore", "shared"])]
    #[arg(allow_hyphen_values = true, value_parser = duration::some)]
    pub once_per: Option<Duration>,
}

impl Run {
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(&self.and)
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.semaphore {
            Some(of) => Mode::Permits { count: self.permits, of },
            None if self.request.shared => Mode::Shared,
            None => Mode::Exclusive,
        }
    }
}

/// The options of a request. flock(1)'s options keep their meaning.
#[derive(Debug, Clone, Args)]
pub(crate) struct RequestOptions {
    /// Fail if the lock is held, instead of waiting (exit code 1, or -E)
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with = "timeout")]
    pub nonblock: bool,

    /// Wait at most this long: seconds, or 500ms, 2m (exit code 1, or -E). Default: LOCKWRIGHT_WAIT, the
    /// configuration's wait, or no limit
    #[arg(short = 'w', long, visible_alias = "wait", value_name = "SECONDS")]
    // A negative value must be reported as an invalid time, not as an unknown option.
    #[arg(allow_hyphen_values = true, value_parser = duration::any)]
    pub timeout: Option<Duration>,

    /// Acquire a shared lock, which excludes only exclusive holders
    #[arg(short = 's', long, conflicts_with = "exclusive")]
    pub shared: bool,

    /// Acquire an exclusive lock (the default)
    #[arg(short = 'x', long, visible_short_alias = 'e')]
    pub exclusive: bool,

    /// Don't show the holder, neither while waiting nor when giving up
    #[arg(short = 'q', long)]
    pub quiet: bool,

    /// The exit code if the lock is held
    #[arg(short = 'E', long, value_name = "NUMBER", default_value_t = exit::HELD)]
    pub conflict_exit_code: u8,
}

impl RequestOptions {
    /// Returns the limit of the wait: zero for one try, `None` for no limit.
    pub(crate) fn limit(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.timeout }
    }

    /// Uses `wait`, the configuration's limit, if no option limits the wait.
    pub(crate) fn or_wait(&self, wait: Option<Duration>) -> Self {
        Self { timeout: self.timeout.or(wait.filter(|_| !self.nonblock)), ..self.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Acquire {
    /// The lock's name
    pub name: String,

    #[command(flatten)]
    pub request: RequestOptions,

    /// How long the hold lasts after `acquire`, and after each `renew`: 10m, 1h
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::ttl)]
    pub ttl: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct PollOptions {
    /// Only names with this prefix
    #[arg(default_value = "", hide_default_value = true)]
    pub prefix: String,

    /// The pause between two polls, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "3s")]
    #[arg(allow_hyphen_values = true, value_parser = duration::every)]
    pub every: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Break {
    /// The lock's name
    pub name: String,

    /// Don't ask for confirmation
    #[arg(short = 'y', long)]
    pub yes: bool,

    /// Free the lock at once, although its holder may still be working when the next one starts
    #[arg(long)]
    pub now: bool,

    /// The reason, for the holder and for `show`
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,

    /// The token of the hold to break, from `show`. Default: the present hold
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Admit {
    /// Let the new nodes vote now; no lock may be held on any node
    #[arg(long, conflicts_with = "wait")]
    pub yes: bool,

    /// Let the new nodes vote even if other nodes vote already: the new ones may have lost data
    #[arg(long, requires = "yes")]
    pub force: bool,

    /// Wait until this command may admit the new nodes. Needed if only short-lived commands use the
    /// nodes, because each ends before it may admit a node
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Run only cases whose name contains this
    #[arg(value_name = "FILTER")]
    pub filter: Option<String>,

    /// List the cases, without running them
    #[arg(long)]
    pub list: bool,
}
