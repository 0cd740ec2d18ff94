use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    Account, Error, Process, Program, Result, certificates, folder, in_url, methods, packages,
};

const PACKAGE: &str = "postgresql";

const ADMIN: &str = "postgres";
const ADMIN_PASSWORD: &str = "testbed-of-lockwright";
/// One round instead of 4096 makes unoptimized clients log in faster.
const ADMIN_SECRET: &str = "SCRAM-SHA-256$1:bG9ja3dyaWdodC10ZXN0IQ==$\
     pHUqSLfNgZ+06rp0UWw7h2WnL1y7FO+q/UlQ30cBlMY=:ifwj28B3RT0RUsXFOu6aY7oERkNWyJfj0tCAsGY01hQ=";

pub(crate) const USER: &str = "lockwright";
pub(crate) const DATABASE: &str = "lockwright";
/// Unique, so that tests can search logs for it.
const PASSWORD: &str = "not-for-logs-7391";
const SECRET: &str = "SCRAM-SHA-256$1:bG9ja3dyaWdodC10ZXN0IQ==$\
     J0qBPHxCAuWYjtWNlfFDdN3zOrtAjzKK1ZldAVNhEbE=:YyjJvneaAwoh+WHImC3KC1WJSVbJBQGNO7KVfqOXp/Q=";

/// Options, by default without syncs to disk.
#[derive(Debug, Clone, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    password: Option<String>,
    tls: bool,
    tls_only: bool,
    primary: Option<Primary>,
}

#[derive(Debug, Clone)]
struct Primary {
    folder: PathBuf,
    port: u16,
}

impl Options {
    pub fn durable(self) -> Self {
        self.set("fsync", "on").set("full_page_writes", "on")
    }

    pub fn tls_only(mut self) -> Self {
        self.tls_only = true;
        self.tls()
    }

    pub fn replica_of(mut self, primary: &Postgres) -> Self {
        self.primary =
            Some(Primary { folder: primary.folder.path().to_owned(), port: primary.port });
        // Some settings must not be smaller than the primary's.
        self.settings.splice(0..0, primary.options.settings.iter().cloned());
        self.password.clone_from(&primary.options.password);
        self
    }
}

#[derive(Debug)]
pub struct Postgres {
    process: Process,
    port: u16,
    options: Options,
    folder: TempDir,
}

methods::process_methods!(Postgres);
methods::port_methods!(Postgres);
methods::options!(Postgres, Options, "a setting of `postgresql.conf`");
methods::sql_methods!(Postgres, Options);

impl Postgres {
    fn prepare(&self, is_new: bool) -> Result<()> {
        match &self.options.password {
            Some(password) if is_new && self.options.primary.is_none() => {
                let quoted = password.replace('\'', "''");
                self.sql(&format!("ALTER ROLE {USER} PASSWORD '{quoted}'")).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn sql_as(&self, user: &str, password: &str, statements: &str) -> Result<String> {
        let psql = psql()?
            .args(["-h".to_owned(), folder::text(self.folder())])
            .args(["-p".to_owned(), self.port.to_string()])
            .args(["-U", user, "-d", DATABASE, "-c", statements])
            .env("PGPASSWORD", password)
            .env("PGCONNECT_TIMEOUT", "10")
            .env("PGOPTIONS", "-c statement_timeout=20s");
        Ok(psql.run(self.folder(), "")?.trim_end_matches('\n').to_owned())
    }

    pub fn terminate_sessions(&self) -> Result<usize> {
        let ended = self.sql(&format!(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 10000)) \
             FROM pg_stat_activity WHERE usename = '{USER}'"
        ))?;
        ended.parse().map_err(|_| Error::new(format!("not a number: {ended}")))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.process.is_frozen() {
            self.process.kill();
        } else {
            // SIGQUIT is faster than a shutdown, and frees the shared memory, unlike SIGKILL.
            self.process.stop_by(Signal::QUIT);
        }
        remove_shared_memory(self.folder.path());
    }
}

fn url(user: &str, password: &str, port: u16) -> String {
    format!("postgres://{user}:{}@127.0.0.1:{port}/{DATABASE}", in_url(password))
}

pub(crate) fn account() -> Option<Account> {
    Account::instead_of_root(&["postgres"])
}

fn fill(options: &Options, folder: &Path) -> Result<()> {
    let data = folder.join("data");
    if options.tls {
        certificates::make(folder, account())?;
    }
    let Some(primary) = &options.primary else {
        return fill_as_new(folder);
    };
    let from = folder::text(&primary.folder);
    binary("pg_basebackup")?
        .args(["-R", "-X", "stream", "-c", "fast", "-U", ADMIN, "-h", &from])
        .args(["-p".to_owned(), primary.port.to_string(), "-D".to_owned(), folder::text(&data)])
        .run_as(account())
        .run(folder, "")
        .map(drop)
}

fn fill_as_new(folder: &Path) -> Result<()> {
    // Without syncs: the cached files can be created again.
    let arguments = "--no-sync --no-instructions --wal-segsize=1 --encoding=UTF8 --locale=C \
                     --auth-local=trust --auth-host=scram-sha-256";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    // Each database has 300 files, whose copies take most of a server's start. So the script
    // renames `postgres`, and drops `template1`.
    let roles = format!(
        "ALTER ROLE {ADMIN} PASSWORD '{ADMIN_SECRET}'\n\
         CREATE ROLE {USER} LOGIN PASSWORD '{SECRET}'\n\
         ALTER DATABASE postgres RENAME TO {DATABASE}\n\
         ALTER DATABASE {DATABASE} OWNER TO {USER}\n\
         ALTER DATABASE template1 IS_TEMPLATE false\n\
         DROP DATABASE template1\n"
    );
    let recipe = format!("{}\n{arguments:?}\n{roles}", version()?);
    folder::fill(folder, "postgres", &recipe, account(), |template| {
        binary("initdb")?
            .args(["-U", ADMIN, "-D", "data"])
            .args(arguments)
            .run_as(account())
            .run(template, "")?;
        binary("postgres")?
            .args(["--single", "-D", "data", "-c", "fsync=off", "template0"])
            .run_as(account())
            .run(template, &roles)
            .map(drop)
    })
}

fn launch(port: u16, options: &Options, folder: &Path) -> Result<Process> {
    let mut settings = format!(
        "listen_addresses = '127.0.0.1'\n\
         port = {port}\n\
         unix_socket_directories = {}\n",
        quoted(&folder::text(folder))
    );
    // Shared memory in /dev/shm would remain after a crash.
    settings += "dynamic_shared_memory_type = mmap\n";
    settings += "shared_buffers = 16MB\nmax_wal_size = 32MB\nmin_wal_size = 2MB\n";
    // Only a crash of the machine loses data.
    settings += "fsync = off\nfull_page_writes = off\n";
    if options.tls {
        let path = |name| quoted(&folder::text(&folder.join(name)));
        settings += &format!("ssl = on\nssl_cert_file = {}\n", path(certificates::CERTIFICATE));
        settings += &format!("ssl_key_file = {}\n", path(certificates::KEY));
    }
    for (name, value) in &options.settings {
        settings += &format!("{name} = {}\n", quoted(value));
    }
    let data = folder.join("data");
    if options.tls_only {
        let rules = "local all all trust\nhostssl all all all scram-sha-256\n";
        folder::write(&data.join("pg_hba.conf"), rules, account())?;
    }
    folder::write(&data.join("postgresql.conf"), &settings, account())?;
    let mut process = binary("postgres")?
        .args(["-D", "data"])
        .run_as(account())
        .with_children(Signal::INT, "QUIT")
        .start(folder)?;
    let pid = process.pid().to_string();
    process.wait_until_ready(|| {
        let status = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let mut lines = status.lines();
        // A killed server leaves its `postmaster.pid`.
        (lines.next()? == pid && lines.nth(6)?.trim() == "ready").then_some(())
    })?;
    Ok(process)
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

/// Removes a killed server's System V shared memory, a limited resource, by its id in
/// `postmaster.pid`, which only a killed server leaves.
fn remove_shared_memory(folder: &Path) {
    let status = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
    if let Some(id) = status.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
        let _ = Program::new("ipcrm", "util-linux").args(["-m", id]).run(folder, "");
    }
}

pub(crate) fn psql() -> Result<Program> {
    Ok(binary("psql")?.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]))
}

fn binary(name: &str) -> Result<Program> {
    let folder = binaries().ok_or_else(|| {
        Error::new(format!(
            "PostgreSQL is not installed; on Debian or Ubuntu it is in the package {PACKAGE}, \
             and `cargo xtask test`, run as root, installs it without starting its service"
        ))
    })?;
    Ok(Program::new(folder::text(&folder.join(name)), PACKAGE).env("LC_ALL", "C"))
}

/// Searches `LOCKWRIGHT_SERVER_ROOT`, Debian's versions (newest first) and PATH, in this order.
fn binaries() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let root = packages::root().unwrap_or_default();
            let ours = versions(&root.join("usr/lib/postgresql"));
            let debian = versions(Path::new("/usr/lib/postgresql"));
            let path = std::env::var_os("PATH").unwrap_or_default();
            let others = std::env::split_paths(&path);
            ours.into_iter().chain(debian).chain(others).find(|folder| {
                // A removed version's folder may remain, without programs.
                let programs = ["postgres", "initdb", "psql", "pg_basebackup"];
                programs.iter().all(|name| folder.join(name).is_file())
            })
        })
        .as_deref()
}

fn versions(folder: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|it| Some((it.file_name().to_str()?.parse().ok()?, it.path().join("bin"))))
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, path)| path).collect()
}

fn version() -> Result<String> {
    binary("postgres")?.arg("--version").run(Path::new("/"), "")
}
