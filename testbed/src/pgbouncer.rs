use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use tempfile::TempDir;

use crate::postgres::{self, DATABASE};
use crate::{Postgres, Process, Program, Result, folder, in_url, methods, port};

const PACKAGE: &str = "pgbouncer";

/// The user and password differ from the server's, so that a mix-up fails a test.
const USER: &str = "pooled";
const PASSWORD: &str = "not-for-logs-5528";

/// MD5, unlike SCRAM, is fast in an unoptimized client.
const CHECKED_BY: &str = "md5";

/// Options, by default with transaction pooling.
#[derive(Debug, Clone)]
pub struct Options {
    server: SocketAddr,
    server_password: String,
    settings: Vec<(String, String)>,
}

impl Options {
    /// The last value of a name counts.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    pub fn start(self) -> Result<PgBouncer> {
        port::retried(|| PgBouncer::start_on(port::free(), &self))
    }
}

#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    port: u16,
    options: Options,
    folder: TempDir,
}

methods::process_methods!(PgBouncer);
methods::port_methods!(PgBouncer);

impl PgBouncer {
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

    pub fn url(&self) -> String {
        self.url_through(self.port)
    }

    pub fn url_through(&self, port: u16) -> String {
        url(port, DATABASE)
    }

    /// Returns rows as lines, with `|` between fields.
    pub fn sql(&self, statements: &str) -> Result<String> {
        psql(self.port, DATABASE, statements, self.folder.path())
    }

    pub fn command(&self, command: &str) -> Result<String> {
        psql(self.port, "pgbouncer", command, self.folder.path())
    }

    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.process = launch(self.port, &self.options, self.folder.path())?;
        Ok(())
    }
}

fn url(port: u16, database: &str) -> String {
    format!("postgres://{USER}:{}@127.0.0.1:{port}/{database}", in_url(PASSWORD))
}

fn psql(port: u16, database: &str, statements: &str, folder: &Path) -> Result<String> {
    let psql = postgres::psql()?
        // PgBouncer's commands need simple queries, which psql sends.
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
        // A connection is a cheap poll. `psql` proves that this PgBouncer has the port.
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        psql(port, "pgbouncer", "SHOW VERSION;", folder).ok()
    })?;
    Ok(process)
}
