use std::ops::Range;
use std::time::Duration;

use crate::configuration::Configuration;
use crate::faults::Fault;

pub(crate) const USAGE: &str = include_str!("../usage.txt");

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) configurations: Vec<Configuration>,
    pub(crate) seeds: Range<u64>,
    pub(crate) time: Option<Duration>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) jobs: usize,
    pub(crate) record: bool,
    pub(crate) keep: bool,
    pub(crate) missing: bool,
    /// Runs only the fixed seeds of `cargo xtask test`.
    pub(crate) selection: bool,
    pub(crate) soak: bool,
}

impl Options {
    pub(crate) fn read(args: &[String]) -> Result<Self, String> {
        let (seeds, faults, jobs) = (1..11, Fault::ALL.to_vec(), 4);
        let mut this = Self { seeds, faults, jobs, ..Self::default() };
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let mut value =
                || args.next().cloned().ok_or_else(|| format!("{option} needs a value"));
            match option.as_str() {
                "--backend" => this.configurations.extend(configurations(&value()?)?),
                "--seed" => this.seeds = one(number(&value()?)?),
                "--seeds" => this.seeds = range(&value()?)?,
                "--minutes" => this.time = Some(Duration::from_secs(60 * number(&value()?)?)),
                "--faults" => this.faults = faults_named(&value()?)?,
                "--jobs" => this.jobs = number(&value()?)?.max(1) as usize,
                "--record" => this.record = true,
                "--keep" => this.keep = true,
                "--missing" => this.missing = true,
                "--soak" => this.soak = true,
                "--selection" => this.selection = true,
                other => return Err(format!("unknown option {other}")),
            }
        }
        if this.configurations.is_empty() {
            this.configurations = Configuration::ALL.to_vec();
        }
        Ok(this)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

fn one(seed: u64) -> Range<u64> {
    seed..seed + 1
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (first, end) =
        text.split_once("..").ok_or_else(|| format!("{text:?} is not like 1..11"))?;
    Ok(number(first)?..number(end)?)
}

fn configurations(text: &str) -> Result<Vec<Configuration>, String> {
    let mut all = Vec::new();
    for name in text.split(',') {
        let named = Configuration::named(name);
        if named.is_empty() {
            let names = Configuration::ALL.map(|one| one.to_string()).join(", ");
            return Err(format!("no backend {name:?}; there are {names}"));
        }
        all.extend(named);
    }
    Ok(all)
}

fn faults_named(text: &str) -> Result<Vec<Fault>, String> {
    let all = || Fault::ALL.map(|one| one.to_string()).join(", ");
    let named =
        |name| Fault::named(name).ok_or_else(|| format!("no fault {name:?}; there are {}", all()));
    text.split(',').map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Options::read(&words)
    }

    #[test]
    fn options_are_read() {
        let options =
            read("--backend redis,mysql --seed 7 --faults client-killed,throttled --jobs 2");
        let options = options.unwrap();
        let names: Vec<_> = options.configurations.iter().map(|one| one.to_string()).collect();
        assert_eq!(names, ["redis", "mysql-lease", "mysql-session", "mysql-row"]);
        assert_eq!(options.seeds, 7..8);
        assert_eq!(options.faults, [Fault::ClientKilled, Fault::Throttled]);
        assert_eq!(options.jobs, 2);
        assert_eq!(read("--seeds 3..9").unwrap().seeds, 3..9);
    }

    #[test]
    fn wrong_options_are_errors_that_name_the_right_ones() {
        assert!(read("--backend mongo").unwrap_err().contains("there are sqlite"));
        assert!(read("--faults flood").unwrap_err().contains("there are client-killed"));
        assert!(read("--seed x").unwrap_err().contains("not a number"));
        assert!(read("--seeds 5").unwrap_err().contains("not like"));
        assert!(read("--seed").unwrap_err().contains("needs a value"));
    }
}
