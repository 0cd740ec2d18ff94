//! The command line, for clap.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::{duration, exit};

/// Locks that reach over machines, from the shell.
#[derive(Debug, Parser)]
#[command(name = "lockwright", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten, next_help_heading = "ConnectionOptions and manner")]
    pub connection: ConnectionOptions,
    #[command(subcommand)]
    pub command: Command,
}

/// Where the locks are, and how to talk.
#[derive(Debug, Args)]
pub(crate) struct ConnectionOptions {
    /// Where the locks are kept: sqlite:PATH, redis://HOST/, postgres://..., zookeeper:A,B,C, ...
    ///
    /// Also mysql://..., valkey://..., redis+sentinel:, redis+cluster: and redlock:, and
    /// etcd:http://A,http://B where it was built with that; the README has them all.
    ///
    /// Default: a SQLite file in your state folder ($XDG_STATE_HOME/lockwright/locks.db or
    /// ~/.local/state/lockwright/locks.db), which the processes of this machine share. A URL with a
    /// password belongs into the environment: everybody on this machine sees arguments. An empty
    /// one is an error.
    #[arg(long, global = true, env = "LOCKWRIGHT_URL", hide_env_values = true, value_name = "URL")]
    pub url: Option<String>,

    /// A configuration in TOML: url, ttl, wait, namespace, label, require, sweep
    ///
    /// As the library's `Config` takes it; the options beside this one go before what it says.
    #[arg(long, global = true, env = "LOCKWRIGHT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Put before every name: one server for several projects
    #[arg(long, global = true, env = "LOCKWRIGHT_NAMESPACE", value_name = "PREFIX")]
    pub namespace: Option<String>,

    /// Who you are, for those who look at the lock: a job, a service
    #[arg(long, global = true, value_name = "TEXT")]
    pub label: Option<String>,

    /// Write JSON: events on standard error for `run`, the answer on standard output for the rest
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    ///
    /// Takes the lock NAME, runs CMD, releases the lock and exits with CMD's exit code. While CMD
    /// runs, the lock is renewed. If the hold is lost (the server gone for too long, an operator,
    /// this process stopped), CMD and everything it started is ended before anybody else can hold
    /// the lock: TERM, then KILL.
    #[command(
        after_help = exit::TABLE,
        override_usage = "lockwright run [OPTIONS] NAME [--] CMD [ARG]...\n       \
                          lockwright run [OPTIONS] NAME -c COMMAND"
    )]
    Run(Box<Run>),

    /// List the locks that are held
    ///
    /// On Redis those of other lock libraries are not among them, as nothing but their name tells
    /// them from other keys; `show NAME` shows one.
    List {
        /// Only names that begin with this
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },

    /// Show who holds a lock
    Show {
        /// The lock's name
        name: String,
    },

    /// Release a lock that somebody else holds, by force
    ///
    /// The hold can't be renewed any more and is free when it runs out, so that nobody else holds
    /// it beside its holder. --now frees it at once, which may let two work at a time.
    Break(Break),

    /// Clear away what holds left behind that are over
    ///
    /// A SQL database keeps a row of every name that was ever locked, for its fence. This deletes
    /// those that nobody has used for a while, in small steps beside which locking goes on; a name
    /// that comes back gets a fence above its old one all the same. Run it now and then, or set
    /// `sweep` in a client's configuration.
    Sweep {
        /// Only what has been over for this long: 10m, 1d
        #[arg(
            long,
            value_name = "TIME",
            default_value = "1h",
            allow_hyphen_values = true,
            value_parser = duration::any
        )]
        idle: Duration,
    },

    /// Print the SQL that makes the tables
    ///
    /// For where the user that locks may not make them. They are named as the URL says (?table=,
    /// ?schema=). Nothing is connected to.
    Schema,

    /// Let new nodes of a Redlock vote
    ///
    /// A node that was never used, or that lost its data, doesn't vote for one largest TTL: it may
    /// have forgotten a lock that is still held. Without --yes this only shows how the nodes stand.
    /// Exit code 1 when less than all of them vote.
    Admit {
        /// No lock is held on these nodes: let the new ones vote now
        #[arg(long, conflicts_with = "wait")]
        yes: bool,

        /// Also where other nodes vote already, so that the new ones have most likely lost their data
        #[arg(long, requires = "yes")]
        force: bool,

        /// Stay until the new ones vote by themselves: nobody else may do that for a fleet that only
        /// short-lived commands use
        #[arg(long)]
        wait: bool,
    },

    /// Look at the server for what makes its locks less safe than they seem
    ///
    /// Exit code 1 when an error was found.
    Doctor,

    /// Run the conformance suite against a server
    ///
    /// It locks names of its own. What it leaves behind on Redis goes by itself: fences after a
    /// week, marks of tokens that have ended after an hour.
    Conformance(Conformance),
}

/// What `run` takes; flock(1)'s options mean the same here.
#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// The lock's name
    pub name: String,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,

    /// Run this through sh instead of CMD
    #[arg(short = 'c', long = "command", value_name = "COMMAND", conflicts_with = "command")]
    pub shell: Option<OsString>,

    /// Fail when the lock is held, instead of waiting (exit code 1, or -E)
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with = "timeout")]
    pub nonblock: bool,

    /// Wait at most this long: seconds, or 500ms, 2m (exit code 1, or -E)
    #[arg(
        short = 'w',
        long,
        visible_alias = "wait",
        value_name = "SECONDS",
        // So that a negative value is reported as an invalid time, not as an unknown option.
        allow_hyphen_values = true,
        value_parser = duration::any
    )]
    pub timeout: Option<Duration>,

    /// A shared lock, beside which no exclusive one is held
    #[arg(short = 's', long, conflicts_with = "exclusive")]
    pub shared: bool,

    /// An exclusive lock (the default)
    #[arg(short = 'x', long, visible_short_alias = 'e')]
    pub exclusive: bool,

    /// The exit code when the lock is held
    #[arg(short = 'E', long, value_name = "NUMBER", default_value_t = exit::HELD)]
    pub conflict_exit_code: u8,

    /// How long the server keeps the lock when this machine dies: 500ms, 1m. Default: 30s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::ttl)]
    pub ttl: Option<Duration>,

    /// Don't renew: CMD is ended when the TTL runs out
    #[arg(long)]
    pub fixed: bool,

    /// End CMD when it has held the lock for this long
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::some)]
    pub max_hold: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Break {
    /// The lock's name
    pub name: String,

    /// Don't ask
    #[arg(short = 'y', long)]
    pub yes: bool,

    /// Free it at once, though its holder may go on working beside the next one
    #[arg(long)]
    pub now: bool,

    /// Why; its holder and those who look at it see this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,

    /// The hold to break, as `show` tells it. Default: the one that holds now
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Only cases whose name contains this
    #[arg(value_name = "FILTER")]
    pub filter: Option<String>,

    /// Only list the cases
    #[arg(long)]
    pub list: bool,
}
