use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use lockwright::{Config, Locks};

use crate::Failure;
use crate::args::ConnectionOptions;

pub(crate) async fn connect(connection: &ConnectionOptions) -> Result<Locks, Failure> {
    Ok(config(connection)?.connect().await?)
}

/// Returns the configuration. Don't print its URL, which may contain a password.
pub(crate) fn config(connection: &ConnectionOptions) -> Result<Config, Failure> {
    let default_url = match (&connection.config, &connection.url) {
        (None, None) => Some(default_url()?),
        _ => None,
    };
    let config = Config::load_with(|variable| match variable {
        "LOCKWRIGHT_URL" => connection.url.as_ref().or(default_url.as_ref()).map(Into::into),
        _ => option_or_variable(connection, variable),
    })?;
    check(&config.url)?;
    Ok(config)
}

pub(crate) fn option_or_variable(
    connection: &ConnectionOptions,
    variable: &str,
) -> Option<OsString> {
    let option = match variable {
        "LOCKWRIGHT_CONFIG" => connection.config.as_ref().map(Into::into),
        "LOCKWRIGHT_URL" => connection.url.as_ref().map(Into::into),
        "LOCKWRIGHT_NAMESPACE" => connection.namespace.as_ref().map(Into::into),
        "LOCKWRIGHT_LABEL" => connection.label.as_ref().map(Into::into),
        _ => None,
    };
    option.or_else(|| std::env::var_os(variable))
}

fn check(url: &str) -> Result<(), Failure> {
    let invalid = |message| Err(Failure::config(message));
    match url {
        // An empty URL usually comes from a mistyped variable. With the default file, machines
        // wouldn't share locks.
        "" => invalid(
            "the URL is empty (--url, LOCKWRIGHT_URL or the configuration's url); set it to the \
             server of the locks, or remove it to use a file that this machine's processes share",
        ),
        url if is_memory(url) => invalid(
            "memory: locks nothing between commands, because each has its own memory; use \
             sqlite:PATH for one machine, redis://HOST/ for several",
        ),
        _ => Ok(()),
    }
}

fn is_memory(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("memory"))
}

fn default_url() -> Result<String, Failure> {
    let folder = |variable| {
        std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    let state = folder("XDG_STATE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".local/state")))
        .ok_or_else(|| {
            Failure::config("neither XDG_STATE_HOME nor HOME is set, so there is no default file for the locks; set \
                 --url or LOCKWRIGHT_URL, to sqlite:/var/lib/locks.db for example",
            )
        })?;
    let folder = state.join("lockwright");
    // Users who can write to this folder can acquire and break every lock.
    let created = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    let what =
        format!("cannot create {} for the locks; set --url to another location", folder.display());
    created.map_err(|error| Failure::os(&what, error))?;
    let file = folder.join("locks.db");
    file.to_str().map(|file| format!("sqlite:{file}")).ok_or_else(|| {
        Failure::config(format!("{} is not UTF-8; set --url to another location", file.display()))
    })
}
