use std::path::PathBuf;

use lockwright_bench::{WORKLOADS, servers};

pub(crate) const USAGE: &str = include_str!("../usage.txt");

pub(crate) enum Command {
    Help,
    Bench(Bench),
    Report(PathBuf),
    Compare { old: PathBuf, new: PathBuf, all: bool },
}

pub(crate) struct Bench {
    pub(crate) backends: Vec<String>,
    pub(crate) only: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) smoke: bool,
    pub(crate) out: PathBuf,
    pub(crate) peers: PathBuf,
    pub(crate) before: Option<String>,
}

pub(crate) fn parse(words: &[String]) -> Result<Command, String> {
    match words.first().map(String::as_str) {
        Some("compare") => compare(&words[1..]),
        Some("report") => match &words[1..] {
            [results] => Ok(Command::Report(results.into())),
            _ => Err("`report` needs one file of results".to_owned()),
        },
        _ => bench(words),
    }
}

fn compare(words: &[String]) -> Result<Command, String> {
    let (flags, files): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| flag.as_str() != "--all") {
        return Err(format!("`compare` has no option {unknown}"));
    }
    match files[..] {
        [old, new] => {
            Ok(Command::Compare { old: old.into(), new: new.into(), all: !flags.is_empty() })
        }
        _ => Err("`compare` needs two files of results, the old file first".to_owned()),
    }
}

pub(crate) fn out() -> PathBuf {
    target().join("bench")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}

fn bench(words: &[String]) -> Result<Command, String> {
    let mut bench = Bench {
        backends: Vec::new(),
        only: Vec::new(),
        rounds: 7,
        smoke: false,
        out: out(),
        peers: target().join("peers"),
        before: None,
    };
    let workloads: Vec<&str> = WORKLOADS.iter().map(|workload| workload.id).collect();
    let backends: Vec<&str> = servers::names().collect();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--backend" => bench.backends = listed(value()?, &backends, "backend")?,
            "--only" => bench.only = listed(value()?, &workloads, "workload")?,
            "--rounds" => {
                let rounds = value()?;
                let number = rounds.parse().ok().filter(|number| (1..=1_000).contains(number));
                bench.rounds = number.ok_or_else(|| {
                    format!("--rounds needs a number from 1 to 1000, not {rounds:?}")
                })?;
            }
            "--smoke" => bench.smoke = true,
            "--out" => bench.out = value()?.into(),
            "--before" => bench.before = Some(value()?.clone()),
            unknown => return Err(format!("unknown option {unknown:?}")),
        }
    }
    Ok(Command::Bench(bench))
}

fn listed(words: &str, known: &[&str], what: &str) -> Result<Vec<String>, String> {
    let check = |word: &str| match known.contains(&word) {
        true => Ok(word.to_owned()),
        false => Err(format!("no {what} is called {word:?}; there are {}", known.join(", "))),
    };
    words.split(',').map(check).collect()
}
