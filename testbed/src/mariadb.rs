use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::{
    Account, Error, Process, Program, Result, certificates, folder, in_url, methods, packages, wait,
};

/// The server's Debian package, without the service and database of `mariadb-server`.
const SERVER: &str = "mariadb-server-core";
const CLIENT: &str = "mariadb-client-core";

const ADMIN: &str = "root";
const ADMIN_PASSWORD: &str = "testbed-of-lockwright";

const USER: &str = "lockwright";
const PASSWORD: &str = "not-for-logs-7391";

/// Options, by default without syncs to disk.
#[derive(Debug, Clone, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    password: Option<String>,
    tls: bool,
}

impl Options {
    pub fn durable(self) -> Self {
        self.set("innodb_flush_log_at_trx_commit", "1").set("innodb_doublewrite", "1")
    }

    pub fn semi_synchronous(self) -> Self {
        const TIMEOUT: &str = "3600000";
        let this = self.set("log_bin", "ON");
        match Kind::chosen() {
            Kind::MariaDb => this.set("rpl_semi_sync_master_timeout", TIMEOUT),
            Kind::MySql => this
                .set("plugin_load_add", "semisync_source.so")
                .set("rpl_semi_sync_source_timeout", TIMEOUT),
        }
    }

    pub fn tls_only(self) -> Self {
        self.tls().set("require_secure_transport", "ON")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    MariaDb,
    MySql,
}

impl Kind {
    fn chosen() -> Self {
        match packages::find(&[MARIADBD, MYSQLD]) {
            Some(binary) if binary.ends_with(MYSQLD) => Self::MySql,
            _ => Self::MariaDb,
        }
    }
}

/// MariaDB's packages may also contain [`MYSQLD`], so searches try this first.
const MARIADBD: &str = "usr/sbin/mariadbd";
const MYSQLD: &str = "usr/sbin/mysqld";

#[derive(Debug)]
pub struct MariaDb {
    process: Process,
    port: u16,
    options: Options,
    folder: TempDir,
}

methods::process_methods!(MariaDb);
methods::port_methods!(MariaDb);
methods::options!(MariaDb, Options, "a setting of the section `[mysqld]`");
methods::sql_methods!(MariaDb, Options);

impl MariaDb {
    fn prepare(&self, is_new: bool) -> Result<()> {
        if let Some(password) = self.options.password.as_ref().filter(|_| is_new) {
            let escaped = password.replace('\\', "\\\\").replace('\'', "''");
            self.sql(&format!("ALTER USER {USER}@'%' IDENTIFIED BY '{escaped}'"))?;
        }
        // A user's first TCP login would need TLS, but a login on the socket doesn't.
        if Kind::chosen() == Kind::MySql {
            self.sql("DO 0")?;
            self.sql_as_user("DO 0")?;
        }
        Ok(())
    }

    /// A commit that waits hangs, because no replica exists. Requires
    /// [`Options::semi_synchronous`].
    pub fn wait_for_replica(&self, wait: bool) -> Result<()> {
        let role = match Kind::chosen() {
            Kind::MariaDb => "master",
            Kind::MySql => "source",
        };
        self.sql(&format!("SET GLOBAL rpl_semi_sync_{role}_enabled = {}", u8::from(wait))).map(drop)
    }

    /// Adds a user that may read the database, and logs in once: otherwise, MySQL would require TLS
    /// at the first TCP login.
    pub fn add_user(&self, user: &str, password: &str) -> Result<()> {
        self.sql(&format!(
            "CREATE USER {user}@'%' IDENTIFIED BY '{password}'; GRANT SELECT ON {USER}.* TO {user}@'%'"
        ))?;
        self.sql_as(user, password, "SELECT 1").map(drop)
    }

    fn sql_as(&self, user: &str, password: &str, statements: &str) -> Result<String> {
        let limit = match Kind::chosen() {
            Kind::MariaDb => "max_statement_time = 20",
            Kind::MySql => "max_execution_time = 20000",
        };
        let client = Program::new("mariadb", CLIENT)
            .args(["--no-defaults", "--batch", "--raw", "--skip-column-names"])
            .args(["--default-character-set=utf8mb4", "--connect-timeout=10"])
            .arg(format!("--init-command=SET {limit}"))
            .arg(format!("--socket={}", folder::text(&socket(self.folder()))))
            .args(["--user", user, "--execute", statements, USER])
            .env("MYSQL_PWD", password);
        Ok(client.run(self.folder(), "")?.trim_end_matches('\n').to_owned())
    }

    pub fn terminate_sessions(&self) -> Result<usize> {
        let theirs = format!("SELECT id FROM information_schema.processlist WHERE user = '{USER}'");
        let ended = match Kind::chosen() {
            Kind::MariaDb => self.sql(&format!("{theirs}; KILL CONNECTION USER {USER}@'%'"))?,
            Kind::MySql => {
                let ended = self.sql(&theirs)?;
                for id in ended.lines() {
                    let _ = self.sql(&format!("KILL CONNECTION {id}"));
                }
                ended
            }
        };
        let ended: Vec<&str> = ended.lines().collect();
        let gone = wait::until(wait::LIMIT, || {
            let left = self.sql(&theirs).ok()?;
            (!left.lines().any(|id| ended.contains(&id))).then_some(())
        });
        match gone {
            Some(()) => Ok(ended.len()),
            None => Err(Error::new("the sessions don't end")),
        }
    }
}

fn url(user: &str, password: &str, port: u16) -> String {
    format!("mysql://{user}:{}@127.0.0.1:{port}/{USER}", in_url(password))
}

fn account() -> Option<Account> {
    Account::instead_of_root(&["mysql"])
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

fn fill(options: &Options, folder: &Path) -> Result<()> {
    if options.tls {
        certificates::make(folder, account())?;
    }
    match Kind::chosen() {
        Kind::MariaDb => fill_mariadb(folder),
        Kind::MySql => fill_mysql(folder),
    }
}

fn fill_mariadb(folder: &Path) -> Result<()> {
    let install = "--auth-root-authentication-method=normal --skip-test-db --skip-name-resolve \
                   --innodb-log-file-size=4M --innodb-use-native-aio=0 \
                   --innodb-flush-log-at-trx-commit=0";
    let mut install: Vec<String> = install.split(' ').map(str::to_owned).collect();
    let installer = packages::find(&["usr/bin/mariadb-install-db"]);
    if installer.is_some() {
        install.extend(packages::find(&["usr"]).map(|usr| format!("--basedir={usr}")));
    }
    let installer = installer.unwrap_or_else(|| "mariadb-install-db".to_owned());
    // The installer's users have specific hosts, which would take precedence over `%`.
    let users = format!(
        "FLUSH PRIVILEGES;\n\
         DELETE FROM mysql.global_priv WHERE Host <> '%' AND User IN ('', '{ADMIN}');\n\
         FLUSH PRIVILEGES;\n\
         CREATE USER {ADMIN}@'%' IDENTIFIED BY '{ADMIN_PASSWORD}';\n\
         {}",
        rights()
    );
    let recipe = format!("{}\n{install:?}\n{users}", version()?);
    folder::fill(folder, "mariadb", &recipe, account(), |template| {
        // A starting MariaDB deletes all temporary tables in TMPDIR, so each server has its own.
        let data = format!("--datadir={}", folder::text(&template.join("data")));
        Program::new(installer, SERVER)
            .args(["--no-defaults", &data])
            .args(install)
            .env("TMPDIR", folder::text(template))
            .run_as(account())
            .run(template, "")?;
        server()
            .args(["--no-defaults", "--bootstrap", &data])
            .args(["--innodb-log-file-size=4M", "--innodb-use-native-aio=0"])
            .args(messages())
            .env("TMPDIR", folder::text(template))
            .run_as(account())
            .run(template, &users)
            .map(drop)
    })
}

fn fill_mysql(folder: &Path) -> Result<()> {
    let users = format!(
        // On MySQL, an account's login on the socket enables its TCP logins, so the superuser has
        // one account for both.
        "RENAME USER {ADMIN}@localhost TO {ADMIN}@'%';\n\
         ALTER USER {ADMIN}@'%' IDENTIFIED BY '{ADMIN_PASSWORD}';\n\
         {}",
        rights()
    );
    let recipe = format!("{}\n{users}", version()?);
    folder::fill(folder, "mysql", &recipe, account(), |template| {
        let file = template.join("users.sql");
        folder::write(&file, &users, account())?;
        server()
            .args(["--no-defaults", "--initialize-insecure", "--secure-file-priv=NULL"])
            .args(["--innodb-use-native-aio=0", "--innodb-flush-log-at-trx-commit=0"])
            // Small files make copies of the template fast.
            .args(["--innodb-redo-log-capacity=8M", "--innodb-doublewrite=0"])
            .arg(format!("--datadir={}", folder::text(&template.join("data"))))
            .arg(format!("--init-file={}", folder::text(&file)))
            .args(messages())
            .run_as(account())
            .run(template, "")
            .map(drop)
    })
}

fn rights() -> String {
    format!(
        "GRANT ALL ON *.* TO {ADMIN}@'%' WITH GRANT OPTION;\n\
         CREATE DATABASE {USER} CHARACTER SET utf8mb4;\n\
         CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT ALL ON {USER}.* TO {USER}@'%';\n"
    )
}

fn version() -> Result<String> {
    server().args(["--no-defaults", "--version"]).run(Path::new("/"), "")
}

/// Returns a server's folders in `LOCKWRIGHT_SERVER_ROOT` as options; none for an installed server.
fn messages() -> Vec<String> {
    let folders = ["usr/share/mariadb", "usr/share/mysql"];
    let (Some(usr), Some(messages), Some(_)) =
        (packages::find(&["usr"]), packages::find(&folders), packages::find(&[MARIADBD, MYSQLD]))
    else {
        return Vec::new();
    };
    vec![
        format!("--basedir={usr}"),
        format!("--lc-messages-dir={messages}"),
        format!("--plugin-dir={usr}/lib/mysql/plugin"),
    ]
}

fn launch(port: u16, options: &Options, folder: &Path) -> Result<Process> {
    let mut settings = format!(
        "[mysqld]\n\
         bind_address = 127.0.0.1\n\
         port = {port}\n\
         socket = {}\n\
         datadir = {1}/data\n\
         tmpdir = {1}\n\
         pid_file = {1}/pid\n",
        folder::text(&socket(folder)),
        folder::text(folder),
    );
    settings += "skip_name_resolve = 1\ncharacter_set_server = utf8mb4\n";
    settings += "innodb_buffer_pool_size = 16M\nkey_buffer_size = 1M\n";
    settings += match Kind::chosen() {
        Kind::MariaDb => "innodb_log_file_size = 4M\naria_pagecache_buffer_size = 8M\n",
        Kind::MySql => {
            "innodb_redo_log_capacity = 8M\nsecure_file_priv = NULL\nmysqlx = OFF\n\
             disable_log_bin\nperformance_schema = OFF\n\
             caching_sha2_password_auto_generate_rsa_keys = OFF\n"
        }
    };
    // Many servers with native AIO would exhaust the kernel's contexts.
    settings += "innodb_use_native_aio = 0\n";
    // Only a crash of the machine loses data.
    settings += "innodb_flush_log_at_trx_commit = 2\ninnodb_doublewrite = 0\n";
    if options.tls {
        let (certificate, key) = (certificates::CERTIFICATE, certificates::KEY);
        settings += &format!("ssl_cert = {}\n", folder.join(certificate).display());
        settings += &format!("ssl_key = {}\n", folder.join(key).display());
    } else {
        // By default, MySQL and MariaDB 11 generate keys, which takes seconds.
        settings += match Kind::chosen() {
            Kind::MariaDb => "skip_ssl\n",
            Kind::MySql => "tls_version =\nauto_generate_certs = OFF\n",
        };
    }
    for (name, value) in &options.settings {
        settings += &format!("{name} = \"{}\"\n", value.replace('\\', "\\\\"));
    }
    let file = folder.join("my.cnf");
    folder::write(&file, &settings, account())?;
    let defaults = format!("--defaults-file={}", folder::text(&file));
    let mut process = server().arg(defaults).args(messages()).run_as(account()).start(folder)?;
    process.wait_until_ready(|| greets(&socket(folder)))?;
    Ok(process)
}

fn server() -> Program {
    let binary = packages::find(&[MARIADBD, MYSQLD]);
    Program::new(binary.as_deref().unwrap_or("mariadbd"), SERVER).env("LC_ALL", "C")
}

/// The socket opens after the port, and can't belong to another process.
fn greets(socket: &Path) -> Option<()> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).ok()?;
    (greeting[4] == 10).then_some(())
}
