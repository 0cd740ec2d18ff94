use std::path::PathBuf;

use lockwright::Config;
use lockwright::backend::redact;
use serde::Serialize;
use serde_json::{Value, json};
use toml::Table;

use super::print_result;
use super::table::table;
use crate::args::ConnectionOptions;
use crate::connect::option_or_variable;
use crate::{Failure, config, escape, exit};

const OF_VARIABLES: [&str; 5] = ["url", "ttl", "wait", "namespace", "label"];

#[derive(Serialize)]
struct Setting {
    key: &'static str,
    value: Value,
    source: &'static str,
}

#[derive(Serialize)]
struct Problem {
    key: Option<String>,
    message: String,
}

impl Problem {
    fn new(key: &str, message: impl Into<String>) -> Self {
        Self { key: Some(key.to_owned()), message: message.into() }
    }
}

pub(super) fn check(
    connection: &ConnectionOptions,
    file: Option<&PathBuf>,
    json: bool,
) -> Result<u8, Failure> {
    let file = file.or(connection.config.as_ref()).cloned();
    let connection = ConnectionOptions { config: file, ..connection.clone() };
    let loaded = config(&connection);
    // If the file can't be read or parsed, the error is in `loaded`.
    let text = connection.config.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let in_file: Table = text.and_then(|text| toml::from_str(&text).ok()).unwrap_or_default();
    let settings = settings(&connection, &in_file, loaded.as_ref().ok());
    let problems = problems(&connection, &in_file, loaded);
    let value = json!({ "file": connection.config, "settings": settings, "problems": problems });
    print_result(json, &value, &report(&settings, &problems))?;
    Ok(if problems.is_empty() { 0 } else { exit::CONFIG })
}

fn settings(
    connection: &ConnectionOptions,
    in_file: &Table,
    loaded: Option<&Config>,
) -> Vec<Setting> {
    let defaults = [
        ("url", json!(loaded.map(|config| &config.url))),
        ("password_file", Value::Null),
        ("password_env", Value::Null),
        ("ttl", json!("30s")),
        ("wait", Value::Null),
        ("namespace", json!("")),
        ("label", Value::Null),
        ("sweep", Value::Null),
        ("local_turns", json!(64)),
        ("keep_warm", Value::Null),
        ("prefix", json!({})),
        ("require", json!([])),
    ];
    let setting = |(key, default): (&'static str, Value)| {
        let (value, source) = match (value_of(connection, key), in_file.get(key)) {
            (Some((value, source)), _) => (value.into(), source),
            (None, Some(value)) => (json!(value), "file"),
            (None, None) => (default, "default"),
        };
        let value = match value {
            Value::String(url) if key == "url" => redact::url(&url).into(),
            Value::Null => Value::Null,
            _ if key == "url" => "***".into(),
            value => value,
        };
        Setting { key, value, source }
    };
    defaults.into_iter().map(setting).collect()
}

fn value_of(connection: &ConnectionOptions, key: &str) -> Option<(String, &'static str)> {
    let variable = OF_VARIABLES.contains(&key).then(|| variable_of(key))?;
    let value = option_or_variable(connection, &variable)?;
    let is_variable = std::env::var_os(&variable).as_ref() == Some(&value);
    let source = if is_variable { "environment" } else { "option" };
    Some((value.to_string_lossy().into_owned(), source))
}

fn variable_of(key: &str) -> String {
    format!("LOCKWRIGHT_{}", key.to_uppercase())
}

/// Checks each key alone: loading stops at the first error.
fn problems(
    connection: &ConnectionOptions,
    in_file: &Table,
    loaded: Result<Config, Failure>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in in_file {
        let mut alone = Table::new();
        alone.insert("url".to_owned(), "memory:".into());
        alone.insert(key.clone(), value.clone());
        if let Err(error) = alone.try_into::<Config>() {
            problems.push(Problem::new(key, error.message()));
        }
    }
    for key in OF_VARIABLES {
        let alone = Config::load_with(|variable| match variable {
            _ if variable == variable_of(key) => option_or_variable(connection, variable),
            "LOCKWRIGHT_URL" => Some("memory:".into()),
            _ => None,
        });
        match alone {
            Err(error) if value_of(connection, key).is_some() => {
                problems.push(Problem::new(key, error.message()));
            }
            _ => {}
        }
    }
    match loaded {
        Ok(config) => problems.extend(
            config
                .problems()
                .into_iter()
                .map(|(key, error)| Problem::new(key, Failure::from(error).message)),
        ),
        Err(failure) if problems.is_empty() => {
            problems.push(Problem { key: None, message: failure.message });
        }
        Err(_) => {}
    }
    problems
}

fn report(settings: &[Setting], problems: &[Problem]) -> String {
    let row = |setting: &Setting| {
        let value = match &setting.value {
            Value::Null => "-".to_owned(),
            Value::String(text) => escape(text),
            other => escape(&other.to_string()),
        };
        [setting.key.to_owned(), value, setting.source.to_owned()]
    };
    let rows: Vec<_> = settings.iter().map(row).collect();
    let mut text = table(["SETTING", "VALUE", "SOURCE"], &rows);
    for Problem { key, message } in problems {
        let key = key.as_ref().map(|key| format!("{}: ", escape(key))).unwrap_or_default();
        text.push_str(&format!("error: {key}{}\n", escape(message)));
    }
    if problems.is_empty() {
        text.push_str("no problem found\n");
    }
    text
}
