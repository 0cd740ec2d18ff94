//! Tests of `Config::load`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use lockwright::{Config, ErrorKind, Result};

const FILE: &str = "url = \"redis://:hush@a/\"\nttl = \"7s\"\nwait = \"1s\"\nlabel = \"file\"\n";

/// Loads with a file of this text, unless it is empty, and with these variables.
fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("locks.toml");
    std::fs::write(&file, text).unwrap();
    Config::load_with(|variable| match variable {
        "LOCKWRIGHT_CONFIG" => (!text.is_empty()).then(|| file.clone().into()),
        _ => variables.iter().find(|(name, _)| *name == variable).map(|(_, value)| value.into()),
    })
}

fn refused(config: Result<Config>) -> String {
    let error = config.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    error.to_string()
}

/// A password for one server must not be sent to another.
#[test]
fn password_is_for_the_url_of_its_file() {
    let password = "password_env = \"SECRET\"\n";
    let other = [("LOCKWRIGHT_URL", "redis://b/")];
    let has_password = |text: &str| load(text, &other).unwrap().password_env.is_some();
    assert!(!has_password(&format!("{password}{FILE}")));
    assert!(has_password(password));
}

#[test]
fn variables_override_the_file() {
    let config = load(FILE, &[]).unwrap();
    assert_eq!((&*config.url, config.label.as_deref()), ("redis://:hush@a/", Some("file")));
    let prefix = format!("{FILE}[prefix.\"jobs/\"]\nttl = 60\nwait = \"5s\"\n");
    let times = |variables| {
        let options = load(&prefix, variables).unwrap().options_of("jobs/a");
        [options.ttl, options.wait].map(|time| time.unwrap().as_secs())
    };
    assert_eq!(times(&[]), [60, 5]);
    assert_eq!(times(&[("LOCKWRIGHT_TTL", "9")]), [9, 5]);
    assert_eq!(times(&[("LOCKWRIGHT_WAIT", "2")]), [60, 2]);
    let config = load(
        FILE,
        &[
            ("LOCKWRIGHT_URL", "memory:"),
            ("LOCKWRIGHT_TTL", "9"),
            ("LOCKWRIGHT_NAMESPACE", "shop/"),
            ("LOCKWRIGHT_LABEL", "variable"),
        ],
    )
    .unwrap();
    assert_eq!((&*config.url, &*config.namespace), ("memory:", "shop/"));
    assert_eq!(config.label.as_deref(), Some("variable"));
    assert_eq!(config.ttl, Some(Duration::from_secs(9)));
    assert_eq!(config.wait, Some(Duration::from_secs(1)));
}

#[test]
fn url_may_come_from_either() {
    let url = ("LOCKWRIGHT_URL", "memory:");
    let config = load("", &[url, ("LOCKWRIGHT_WAIT", "0")]).unwrap();
    assert_eq!((&*config.url, config.wait), ("memory:", Some(Duration::ZERO)));
    let config = load("namespace = \"shop/\"\n", &[url]).unwrap();
    assert_eq!((&*config.url, &*config.namespace), ("memory:", "shop/"));
}

#[test]
fn error_names_the_file_or_the_variable() {
    let locks = "locks.toml, line ";
    for (text, variables, says) in [
        ("", &[][..], "set LOCKWRIGHT_URL"),
        ("ttl = \"3s\"\n", &[], "missing field `url`"),
        (&format!("{FILE}typo = 1\n"), &[], &format!("{locks}5: unknown field `typo`")),
        ("url = \"redis://:hush@a/\n", &[], &format!("{locks}1: ")),
        ("typo = 1\n", &[("LOCKWRIGHT_URL", "memory:")], &format!("{locks}1: unknown")),
        (FILE, &[("LOCKWRIGHT_TTL", "soon")], "LOCKWRIGHT_TTL: \"soon\" is not a time; write"),
        (FILE, &[("LOCKWRIGHT_WAIT", "")], "LOCKWRIGHT_WAIT: "),
    ] {
        let said = refused(load(text, variables));
        assert!(said.contains(says), "{said}");
    }
    assert!(refused(Config::from_file("/no/such/file")).contains("/no/such/file"));
    let not_text = |variable: &str| {
        (variable == "LOCKWRIGHT_URL").then(|| OsString::from_vec(b"redis://:hush\xff@a".to_vec()))
    };
    assert!(refused(Config::load_with(not_text)).contains("LOCKWRIGHT_URL is not UTF-8"));
}
