//! Each backend's recorded promises under each fault, from a real server's profile.

use std::fs;
use std::path::Path;

use lockwright::Profile;
use lockwright::profile::Fault as Claim;

use crate::configuration::Configuration;
use crate::faults::{Fault, Promise};
use crate::servers::Result;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promises {
    pub(crate) claims: Vec<Claim>,
    pub(crate) faults: Vec<Promised>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promised {
    pub(crate) fault: Fault,
    /// If the fault affects a follower, a client or the only server.
    pub(crate) promise: Promise,
    pub(crate) leader: Promise,
}

impl Promises {
    pub(crate) fn of(configuration: Configuration, profile: &Profile) -> Self {
        let promise = |fault: Fault, leader| fault.promise(configuration, profile, leader);
        let faults = Fault::ALL.into_iter().filter(|fault| fault.applies_to(configuration));
        Self {
            claims: profile.survives.into(),
            faults: faults
                .map(|fault| Promised {
                    fault,
                    promise: promise(fault, false),
                    leader: promise(fault, true),
                })
                .collect(),
        }
    }

    pub(crate) fn read(folder: &Path, configuration: Configuration) -> Result<Self> {
        let path = path(folder, configuration);
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}; run with --record", path.display()))?;
        let mut this = Self { claims: Vec::new(), faults: Vec::new() };
        for line in text.lines() {
            let bad = || format!("{}: {line:?} can't be read", path.display());
            let words: Vec<&str> = line.split('\t').collect();
            match words[..] {
                ["survives", names] => {
                    let names = names.split(' ').filter(|name| !name.is_empty());
                    let named = |name| Claim::ALL.into_iter().find(|one| claim_name(*one) == name);
                    let claims = names.map(named).collect::<Option<_>>();
                    this.claims = claims.ok_or_else(bad)?;
                }
                [fault, promise, leader] => this.faults.push(Promised {
                    fault: Fault::named(fault).ok_or_else(bad)?,
                    promise: promise_named(promise).ok_or_else(bad)?,
                    leader: promise_named(leader).ok_or_else(bad)?,
                }),
                _ => return Err(bad().into()),
            }
        }
        Ok(this)
    }

    pub(crate) fn record(&self, folder: &Path, configuration: Configuration) -> Result<()> {
        let path = path(folder, configuration);
        // Several lanes may record at the same time.
        let new = path.with_extension(format!("new-{}", std::process::id()));
        fs::write(&new, self.to_text())?;
        Ok(fs::rename(new, path)?)
    }

    fn to_text(&self) -> String {
        let claims: Vec<_> = self.claims.iter().copied().map(claim_name).collect();
        let mut text = format!("survives\t{}\n", claims.join(" "));
        for Promised { fault, promise, leader } in &self.faults {
            text += &format!("{fault}\t{}\t{}\n", promise_name(*promise), promise_name(*leader));
        }
        text
    }
}

fn path(folder: &Path, configuration: Configuration) -> std::path::PathBuf {
    folder.join(format!("{configuration}.promises.tsv"))
}

pub(crate) fn claim_name(claim: Claim) -> String {
    let name = serde_json::to_string(&claim).expect("a claim is a word");
    name.trim_matches('"').replace('_', "-")
}

fn promise_name(promise: Promise) -> &'static str {
    match (promise.exclusion, promise.fences) {
        (true, true) => "exclusion+fences",
        (true, false) => "exclusion",
        (false, true) => "fences",
        (false, false) => "nothing",
    }
}

fn promise_named(name: &str) -> Option<Promise> {
    let promise =
        Promise { exclusion: name.contains("exclusion"), fences: name.contains("fences") };
    (promise_name(promise) == name).then_some(promise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_read_as_they_were_recorded() {
        let folder = tempfile::tempdir().unwrap();
        for configuration in Configuration::ALL {
            let mut profile = Profile::new("tested");
            profile.survives =
                lockwright::profile::Faults::of(&[Claim::ClientCrash, Claim::Partition]);
            let promises = Promises::of(configuration, &profile);
            promises.record(folder.path(), configuration).unwrap();
            assert_eq!(Promises::read(folder.path(), configuration).unwrap(), promises);
        }
    }
}
