use std::ffi::OsString;
use std::path::Path;

use lockwright_core::{Error, Result, duration};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Config;

impl Config {
    /// Reads the TOML file that `LOCKWRIGHT_CONFIG` names, if set, and then the environment:
    /// `LOCKWRIGHT_URL`, `LOCKWRIGHT_TTL`, `LOCKWRIGHT_WAIT`, `LOCKWRIGHT_NAMESPACE` and
    /// `LOCKWRIGHT_LABEL` override the file's settings, also those in `prefix`. With
    /// `LOCKWRIGHT_URL`, the file needs no `url`. The file's password settings apply only to its
    /// own `url`.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) names the variable, or the file and line.
    pub fn load() -> Result<Self> {
        Self::load_with(|variable| std::env::var_os(variable))
    }

    /// Same as [`load`](Config::load), with another source of the `LOCKWRIGHT_` variables, such as a
    /// program's options. `password_env` always names a variable of the process.
    ///
    /// ```no_run
    /// # fn example(option: std::path::PathBuf) -> lockwright::Result<lockwright::Config> {
    /// lockwright::Config::load_with(|variable| match variable {
    ///     "LOCKWRIGHT_CONFIG" => Some(option.clone().into()),
    ///     _ => std::env::var_os(variable),
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`load`](Config::load).
    pub fn load_with(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let text = |name: &str| {
            let text = variable(name).map(OsString::into_string).transpose();
            text.map_err(|_| invalid(format!("{name} is not UTF-8; set it to text, or unset it")))
        };
        let time = |name: &str| {
            let time = text(name)?.map(|text| duration::parse(&text)).transpose();
            time.map_err(|error| invalid(format!("{name}: {}", error.message())))
        };
        let mut config = match (variable("LOCKWRIGHT_CONFIG"), text("LOCKWRIGHT_URL")?) {
            (Some(file), url) => read(Path::new(&file), url)?,
            (None, Some(url)) => Self::new(url),
            (None, None) => {
                return Err(invalid(
                    "there is no configuration; set LOCKWRIGHT_URL to the server of the locks, or \
                     LOCKWRIGHT_CONFIG to a file",
                ));
            }
        };
        if let Some(ttl) = time("LOCKWRIGHT_TTL")? {
            config.ttl = Some(ttl);
            config.prefix.values_mut().for_each(|options| options.ttl = None);
        }
        if let Some(wait) = time("LOCKWRIGHT_WAIT")? {
            config.wait = Some(wait);
            config.prefix.values_mut().for_each(|options| options.wait = None);
        }
        config.namespace = text("LOCKWRIGHT_NAMESPACE")?.unwrap_or(config.namespace);
        config.label = text("LOCKWRIGHT_LABEL")?.or(config.label);
        Ok(config)
    }

    /// Reads a TOML file, without the environment.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) names the file and line.
    pub fn from_file(file: impl AsRef<Path>) -> Result<Self> {
        read(file.as_ref(), None)
    }
}

fn read(file: &Path, url: Option<String>) -> Result<Config> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        invalid(format!("cannot read the configuration {}: {error}", file.display()))
    })?;
    parse(&text, url).map_err(|error| {
        // The error's `Display` shows the line, which may contain a password.
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        invalid(format!("{}, line {line}: {}", file.display(), error.message()))
    })
}

fn parse(text: &str, url: Option<String>) -> std::result::Result<Config, toml::de::Error> {
    let mut table = DeTable::parse(text)?;
    let replaces_url = url.is_some() && table.get_ref().contains_key("url");
    if let Some(url) = url {
        let [key, value] = ["url".to_owned(), url].map(Into::into);
        table.get_mut().insert(Spanned::new(0..0, key), Spanned::new(0..0, DeValue::String(value)));
    }
    let mut config = Config::deserialize(toml::Deserializer::from(table))?;
    if replaces_url {
        // The file's password is for the file's servers.
        (config.password_file, config.password_env) = (None, None);
    }
    Ok(config)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::invalid_config(message)
}
