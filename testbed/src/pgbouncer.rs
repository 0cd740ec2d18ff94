//! PgBouncer, a pool of connections in front of a PostgreSQL server.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use tempfile::TempDir;

use crate::postgres::{self, DATABASE};
use crate::{Postgres, Process, Program, Result, folder, in_url, port};

/// The package, for Debian.
const PACKAGE: &str = "pgbouncer";

/// Who may connect to it, and with which password: others than behind it, so that a test notices
/// when they are mixed up.
const USER: &str = "pooled";
const PASSWORD: &str = "not-for-logs-5528";

/// How it checks that password: unlike SCRAM, cheap for a client that isn't built to be fast.
const CHECKED_BY: &str = "md5";

/// How a [`PgBouncer`] is to be started. What isn't set is as PgBouncer has it, but it pools
/// transactions.
#[derive(Debug, Clone)]
pub struct Options {
    server: SocketAddr,
    server_password: String,
    settings: Vec<(String, String)>,
}

impl Options {
    /// What a client has to itself: a connection of the server for a whole `session`, for a
    /// `transaction`, or for a `statement`.
    pub fn pool_mode(self, mode: &str) -> Self {
        self.set("pool_mode", mode)
    }

    /// Any setting, as the `[pgbouncer]` part of `pgbouncer.ini` has them. The last one of a name
    /// counts.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Connects to the server through a proxy that listens on `port`.
    pub fn through(mut self, port: u16) -> Self {
        self.server.set_port(port);
        self
    }

    /// Starts it, and waits until it answers.
    pub fn start(self) -> Result<PgBouncer> {
        port::retried(|| PgBouncer::start_on(port::free(), &self))
    }
}

/// A PgBouncer of our own. Dropping it ends it.
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    port: u16,
    options: Options,
    folder: TempDir,
}

impl PgBouncer {
    /// One through which the given server's database `lockwright` can be used, as its user
    /// `lockwright`.
    pub fn in_front_of(server: &Postgres) -> Options {
        Options {
            server: server.address(),
            server_password: server.password().to_owned(),
            settings: Vec::new(),
        }
    }

    fn start_on(port: u16, options: &Options) -> Result<Self> {
        let folder = folder::temporary("pgbouncer", postgres::account())?;
        let process = launch(port, options, folder.path())?;
        Ok(Self { process, port, options: options.clone(), folder })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// How to connect, with its own user and password, to the database `lockwright` behind it.
    pub fn url(&self) -> String {
        self.url_through(self.port)
    }

    /// How to connect through a proxy that listens on `port`.
    pub fn url_through(&self, port: u16) -> String {
        url(port, DATABASE)
    }

    /// The process: its id, its log.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Runs SQL in the database behind it. Returns the rows: a line each, with `|` between their
    /// fields.
    pub fn sql(&self, statements: &str) -> Result<String> {
        psql(self.port, DATABASE, statements, self.folder.path())
    }

    /// Runs a command of its own: `SHOW POOLS`, `PAUSE`, `KILL lockwright`, …
    pub fn command(&self, command: &str) -> Result<String> {
        psql(self.port, "pgbouncer", command, self.folder.path())
    }

    /// Starts it again on the same port, after a [`PgBouncer::kill`] too. Its clients lose their
    /// connections.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.process = launch(self.port, &self.options, self.folder.path())?;
        Ok(())
    }

    /// Ends it at once. There is no orderly end besides: nothing would be different after it.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it in its tracks: its connections stay open, and it passes nothing on.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.thaw();
    }
}

fn url(port: u16, database: &str) -> String {
    format!("postgres://{USER}:{}@127.0.0.1:{port}/{database}", in_url(PASSWORD))
}

fn psql(port: u16, database: &str, statements: &str, folder: &Path) -> Result<String> {
    let psql = postgres::psql()?
        // Not `-c`: the commands of its own have to come by the simple protocol, one by one.
        .args(["-f", "-", &url(port, database)])
        .env("PGCONNECT_TIMEOUT", "10");
    Ok(psql.run(folder, statements)?.trim_end_matches('\n').to_owned())
}

fn launch(port: u16, options: &Options, folder: &Path) -> Result<Process> {
    let mut settings = format!(
        "[databases]\n\
         {DATABASE} = host={} port={} user={} password='{}'\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = {CHECKED_BY}\n\
         auth_file = users\n\
         admin_users = {USER}\n\
         pool_mode = transaction\n",
        options.server.ip(),
        options.server.port(),
        postgres::USER,
        options.server_password.replace('\'', "''"),
    );
    for (name, value) in &options.settings {
        settings += &format!("{name} = {value}\n");
    }
    let users = format!("\"{USER}\" \"{PASSWORD}\"\n");
    folder::write(&folder.join("pgbouncer.ini"), &settings, postgres::account())?;
    folder::write(&folder.join("users"), &users, postgres::account())?;
    let mut process = Program::new("pgbouncer", PACKAGE)
        .arg("pgbouncer.ini")
        .env("LC_ALL", "C")
        .run_as(postgres::account())
        .start(folder)?;
    process.wait_until_ready(|| {
        // Much cheaper than what follows, which shows that it is ours.
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        psql(port, "pgbouncer", "SHOW VERSION;", folder).ok()
    })?;
    Ok(process)
}
