use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use lockwright::profile::Fault as Claim;

use crate::configuration::Configuration;
use crate::evidence;
use crate::faults::{Fault, Promise};
use crate::promises::{Promised, Promises, claim_name};
use crate::servers::Result;
use crate::verdict::Outcome;

const BEGIN: &str = "<!-- made by `cargo xtask chaos --page`: begin -->\n";
const END: &str = "<!-- made by `cargo xtask chaos --page`: end -->\n";

/// At least this many schedules must confirm each promise of a profile.
const FEWEST: usize = 3;

const GROUPS: [&[Configuration]; 3] = {
    use Configuration::*;
    [
        &[Sqlite, Redis, RedisSentinel, RedisCluster, Redlock],
        &[PostgresLease, PostgresSession, PostgresRow, MysqlLease, MysqlSession, MysqlRow],
        &[Etcd, ZooKeeper],
    ]
};

/// Profiles' promises that no schedule can confirm, each with the reason why it is kept.
const OTHERWISE: &[(Configuration, Claim, &str)] = &[
    (Configuration::Sqlite, Claim::Partition, "there is no network"),
    (Configuration::Sqlite, Claim::ServerRestart, "there is no server"),
    (
        Configuration::Etcd,
        Claim::ServerClockStep,
        "it is linked statically, so nothing can be put before its clock; its leases are counted \
         on the monotonic clock",
    ),
    (
        Configuration::Sqlite,
        Claim::ServerClockStep,
        "there is no server, and holds end by the boot clock",
    ),
];

struct Record {
    schedules: Vec<Schedule>,
    promises: Promises,
}

pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) version: u32,
    pub(crate) outcome: Outcome,
    /// Operations, grants, hand-overs, longest wait for a free lock, largest delay of a loss
    /// report, refused writes, refused late writes.
    figures: [u64; 7],
    faults: Vec<Fault>,
}

type Records = BTreeMap<Configuration, Record>;

/// Writes `docs/src/guarantees.md`. Fails if the recorded schedules don't confirm a profile's
/// promise.
pub(crate) fn write() -> Result<()> {
    let path = path();
    let page = fs::read_to_string(&path)?;
    let folder = evidence::folder();
    let records = records(&folder)?;
    let others = records_of_other_servers(&folder)?;
    fs::write(&path, made(&page, &records, &others)?)?;
    match unshown(&records, &others).join("\n") {
        problems if problems.is_empty() => Ok(()),
        problems => Err(problems.into()),
    }
}

fn path() -> PathBuf {
    evidence::folder().join("../../docs/src/guarantees.md")
}

fn made(page: &str, records: &Records, others: &[(String, Record)]) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).ok_or("the page has no generated part")?;
    let (_, after) = rest.split_once(END).ok_or("the generated part of the page has no end")?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", part(records, others)))
}

fn records(folder: &Path) -> Result<Records> {
    let of = |one: Configuration| Ok((one, record(folder, one)?));
    Configuration::ALL.into_iter().map(of).collect()
}

fn records_of_other_servers(folder: &Path) -> Result<Vec<(String, Record)>> {
    let mut others = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let server = path.file_name().unwrap_or_default().to_string_lossy();
        for configuration in Configuration::ALL {
            if path.join(format!("{configuration}.tsv")).exists() {
                others
                    .push((format!("{configuration} on {server}"), record(&path, configuration)?));
            }
        }
    }
    others.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(others)
}

fn record(folder: &Path, configuration: Configuration) -> Result<Record> {
    let path = folder.join(format!("{configuration}.tsv"));
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; run with --record", path.display()))?;
    let lines = text.lines().skip(1).map(|line| {
        schedule(line).ok_or_else(|| format!("{}: {line:?} can't be read", path.display()))
    });
    let schedules = lines.collect::<Result<Vec<_>, _>>()?;
    Ok(Record { schedules, promises: Promises::read(folder, configuration)? })
}

pub(crate) fn schedule(line: &str) -> Option<Schedule> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [seed, version, outcome, figures @ .., faults] = &columns[..] else { return None };
    let figures = figures.iter().map(|figure| figure.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let observed = faults.split("; ").filter_map(|one| one.split_once(": "));
    let observed =
        observed.filter(|(_, effect)| *effect != "no effect" && !effect.ends_with(" with 0 holds"));
    Some(Schedule {
        seed: seed.parse().ok()?,
        version: version.parse().ok()?,
        outcome: Outcome::ALL.into_iter().find(|one| one.to_string() == *outcome)?,
        figures: figures.try_into().ok()?,
        faults: observed.filter_map(|(name, _)| Fault::named(name)).collect(),
    })
}

impl Record {
    /// Counts the schedules that confirm `promise` and in which `fault` had an effect. For `KEPT`,
    /// this must be the promise under all their faults.
    fn shown(&self, fault: Fault, promise: Promise) -> usize {
        let outcome = if promise == Promise::KEPT { Outcome::Kept } else { Outcome::NotPromised };
        // No fence is promised if any fault of the schedule voids that promise.
        let fences = |one: &Schedule| {
            let of = |promised: &&Promised| one.faults.contains(&promised.fault);
            self.promises.faults.iter().filter(of).all(|promised| promised.promise.fences)
        };
        let shows = |one: &&Schedule| {
            one.faults.contains(&fault)
                && one.outcome == outcome
                && (!promise.fences || fences(one))
        };
        self.schedules.iter().filter(shows).count()
    }

    fn showed(&self) -> impl Iterator<Item = &Schedule> {
        self.schedules.iter().filter(|one| one.outcome != Outcome::ShowedNothing)
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.schedules.iter().filter(|one| one.outcome == outcome).count()
    }
}

fn part(records: &Records, others: &[(String, Record)]) -> String {
    let mut text = String::new();
    for group in GROUPS {
        let names: Vec<String> = group.iter().map(Configuration::to_string).collect();
        let _ = writeln!(
            text,
            "| fault | {} |\n|---|{}",
            names.join(" | "),
            "---|".repeat(names.len())
        );
        for fault in Fault::ALL {
            if group.iter().any(|one| fault.applies_to(*one)) {
                let cells: Vec<String> =
                    group.iter().map(|one| cell(records.get(one), fault)).collect();
                let _ = writeln!(text, "| **{fault}** | {} |", cells.join(" | "));
            }
        }
        let totals: Vec<String> = group.iter().map(|one| total(records.get(one))).collect();
        let _ = writeln!(text, "| all schedules | {} |\n", totals.join(" | "));
    }
    text += "No schedule shows these claims of the profiles:\n\n";
    for (configuration, claim, why) in OTHERWISE {
        let _ = writeln!(text, "- {configuration} survives {}: {why}.", claim_name(*claim));
    }
    text + "\n### How much was run\n\n" + &totals(records, others)
}

fn cell(record: Option<&Record>, fault: Fault) -> String {
    let found = record.and_then(|record| {
        let promised = record.promises.faults.iter().find(|one| one.fault == fault)?;
        Some((record, promised))
    });
    let Some((record, Promised { promise, leader, .. })) = found else { return "–".to_owned() };
    let shown =
        |promise: &Promise| format!("{}, {}", word(*promise), record.shown(fault, *promise));
    if promise == leader {
        shown(promise)
    } else {
        format!("{}; of the leader: {}", shown(promise), shown(leader))
    }
}

fn total(record: Option<&Record>) -> String {
    record.map_or_else(|| "–".to_owned(), |record| record.showed().count().to_string())
}

fn word(promise: Promise) -> &'static str {
    match (promise.exclusion, promise.fences) {
        (true, true) => "kept",
        (true, false) => "exclusion only",
        (false, true) => "**fences only**",
        (false, false) => "**nothing**",
    }
}

fn totals(records: &Records, others: &[(String, Record)]) -> String {
    let mut text =
        "| | schedules | violations | operations | grants | longest wait | late writes refused |\n\
                    |---|---|---|---|---|---|---|\n"
            .to_owned();
    let others = others.iter().map(|(name, record)| (name.clone(), record));
    let records = records.iter().map(|(configuration, record)| (configuration.to_string(), record));
    for (name, record) in records.chain(others) {
        let sum = |at: usize| record.showed().map(|one| one.figures[at]).sum::<u64>();
        let most = |at: usize| record.showed().map(|one| one.figures[at]).max().unwrap_or(0);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} ms | {} |",
            record.showed().count(),
            record.count(Outcome::Violation),
            sum(0),
            sum(1),
            most(3),
            sum(6),
        );
    }
    text
}

fn unshown(records: &Records, others: &[(String, Record)]) -> Vec<String> {
    let violated = others.iter().filter(|(_, record)| record.count(Outcome::Violation) > 0);
    let mut problems: Vec<_> =
        violated.map(|(name, _)| format!("{name} has violations on record")).collect();
    for (configuration, record) in records {
        for claim in &record.promises.claims {
            let otherwise =
                OTHERWISE.iter().any(|(one, other, _)| one == configuration && other == claim);
            let fault = shows(*claim);
            let promised = |one: &&Promised| one.fault == fault && one.promise.exclusion;
            let promised = record.promises.faults.iter().find(promised);
            let shown = promised.map_or(0, |one| record.shown(fault, one.promise));
            if !otherwise && shown < FEWEST {
                problems.push(format!(
                    "{configuration} claims to survive {}, and {shown} schedules with {fault} are \
                     on record",
                    claim_name(*claim)
                ));
            }
        }
        for Promised { fault, promise, .. } in &record.promises.faults {
            let shown = record.shown(*fault, *promise);
            if promise.exclusion && shown < FEWEST {
                problems.push(format!(
                    "{configuration} promises exclusion under {fault}, and {shown} schedules with \
                     it are on record"
                ));
            }
        }
        if record.count(Outcome::Violation) > 0 {
            problems.push(format!("{configuration} has violations on record"));
        }
    }
    problems
}

fn shows(claim: Claim) -> Fault {
    match claim {
        Claim::Partition => Fault::ConnectionsCut,
        Claim::ServerRestart => Fault::ServerRestarted,
        Claim::ServerDataLoss => Fault::ServerDataLost,
        Claim::Failover => Fault::Failover,
        Claim::MinorityLoss => Fault::ServerKilled,
        Claim::ServerClockStep => Fault::ClockForward,
        _ => Fault::ClientKilled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_as_the_record_makes_it() {
        let page = fs::read_to_string(path()).unwrap();
        let (records, others) = recorded();
        let made = made(&page, &records, &others).unwrap();
        assert!(page == made, "run `cargo xtask chaos --page`, and look at docs/src/guarantees.md");
    }

    #[test]
    fn every_promise_is_shown_by_the_record() {
        let (records, others) = recorded();
        let problems = unshown(&records, &others);
        assert!(problems.is_empty(), "run `cargo xtask chaos --record`:\n{}", problems.join("\n"));
    }

    fn recorded() -> (Records, Vec<(String, Record)>) {
        let folder = evidence::folder();
        (records(&folder).unwrap(), records_of_other_servers(&folder).unwrap())
    }

    fn promising(claims: &[Claim], lines: &[&str]) -> Records {
        let mut profile = lockwright::Profile::new("tested");
        profile.survives = lockwright::profile::Faults::of(claims);
        let promises = Promises::of(Configuration::Redis, &profile);
        let shown: Vec<Fault> = claims.iter().copied().map(shows).collect();
        let promises = Promises {
            faults: promises.faults.into_iter().filter(|one| shown.contains(&one.fault)).collect(),
            ..promises
        };
        let schedules = lines.iter().map(|line| schedule(line).unwrap()).collect();
        [(Configuration::Redis, Record { schedules, promises })].into()
    }

    const CUT: &str = "1\t1\tkept\t90\t80\t30\t5\t6\t7\t8\tconnections-cut: 4 connections dropped";

    #[test]
    fn claims_without_evidence_are_found() {
        let claims = [Claim::Partition];
        assert!(unshown(&promising(&claims, &[CUT; FEWEST]), &[]).is_empty());
        assert_eq!(unshown(&promising(&claims, &[CUT; FEWEST - 1]), &[]).len(), 2);
        let without = CUT.replace("4 connections dropped", "no effect");
        assert_eq!(unshown(&promising(&claims, &[&*without; FEWEST]), &[]).len(), 2);
        let without = CUT.replace("4 connections dropped", "stopped with 0 holds");
        assert_eq!(unshown(&promising(&claims, &[&*without; FEWEST]), &[]).len(), 2);
        let violation = CUT.replace("kept", "VIOLATION");
        assert_eq!(unshown(&promising(&claims, &[CUT, CUT, CUT, &violation]), &[]).len(), 1);
        let undone = promising(&[Claim::ServerClockStep], &[CUT; FEWEST]);
        assert!(unshown(&undone, &[])[0].contains("claims to survive server-clock-step"));
    }

    #[test]
    fn only_the_generated_part_changes() {
        let page = format!("# A\n{BEGIN}replaced\n{END}# B\n");
        let records = promising(&[Claim::Partition], &[CUT]);
        let made = made(&page, &records, &[]).unwrap();
        assert!(made.starts_with("# A\n") && made.ends_with("# B\n") && !made.contains("replaced"));
        assert!(made.contains("| redis | 1 | 0 | 90 | 80 | 5 ms | 8 |"), "{made}");
        assert!(made.contains("kept, 1"), "{made}");
        assert!(made.contains("| all schedules | – | 1 | – |"), "{made}");
    }
}
