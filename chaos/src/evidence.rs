//! The record of results: one line per schedule in `chaos/evidence/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::configuration::Configuration;
use crate::lane::{Ran, effects};
use crate::schedule::version;
use crate::servers::Result;
use crate::verdict::Outcome;

const HEADER: &str = "seed\tplan\toutcome\toperations\tgrants\thand-overs\twait-ms\tlag-ms\t\
                      refused\tlate-refused\tfaults";

/// Replaces the line of the result's seed. A violation's line stays until a developer has found the
/// cause and deletes it.
pub(crate) fn record(folder: &Path, configuration: Configuration, ran: &Ran) -> Result<()> {
    let path = folder.join(format!("{configuration}.tsv"));
    let lock = File::open(folder)?;
    lock.lock()?;
    let text = fs::read_to_string(&path).unwrap_or_default();
    let new = path.with_extension("new");
    fs::write(&new, with(&text, ran.schedule.seed, &line(ran)))?;
    Ok(fs::rename(new, path)?)
}

fn with(text: &str, seed: u64, line: &str) -> String {
    let mut lines: Vec<(u64, &str)> = text.lines().skip(1).filter_map(numbered).collect();
    let violation = Outcome::Violation.to_string();
    let is_violation = |line: &str| line.split('\t').nth(2) == Some(&*violation);
    lines.retain(|(other, line)| *other != seed || is_violation(line));
    if lines.iter().all(|(other, _)| *other != seed) {
        lines.push((seed, line));
    }
    lines.sort_unstable_by_key(|(seed, _)| *seed);
    let all = [HEADER].into_iter().chain(lines.into_iter().map(|(_, line)| line));
    all.map(|line| format!("{line}\n")).collect()
}

fn numbered(line: &str) -> Option<(u64, &str)> {
    Some((line.split('\t').next()?.parse().ok()?, line))
}

pub(crate) fn line(ran: &Ran) -> String {
    let figures = &ran.verdict.checked.figures;
    let columns = [
        ran.schedule.seed.to_string(),
        version(ran.schedule.configuration).to_string(),
        ran.verdict.outcome.to_string(),
        figures.operations.to_string(),
        figures.grants.to_string(),
        figures.hand_overs.to_string(),
        figures.longest_without_a_holder.as_millis().to_string(),
        figures.largest_lag_of_a_loss.as_millis().to_string(),
        figures.writes_refused.to_string(),
        figures.late_writes_refused.to_string(),
        effects(&ran.verdict.injected),
    ];
    columns.join("\t")
}

pub(crate) fn folder() -> PathBuf {
    // If clones share a build folder, `CARGO_MANIFEST_DIR` may name another.
    std::env::var_os("LOCKWRIGHT_ROOT")
        .map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf(),
            |root| Path::new(&root).join("chaos"),
        )
        .join("evidence")
}

pub(crate) fn folder_of_servers() -> PathBuf {
    let root = std::env::var_os("LOCKWRIGHT_SERVER_ROOT");
    let name = root.as_ref().and_then(|root| Path::new(root).file_name());
    name.map_or_else(folder, |name| folder().join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_the_same_seed_is_replaced_and_seeds_are_in_order() {
        let mut text = String::new();
        for (seed, line) in [(10, "10\told"), (9, "9\tx"), (10, "10\tnew")] {
            text = with(&text, seed, line);
        }
        assert_eq!(text, format!("{HEADER}\n9\tx\n10\tnew\n"));
    }

    #[test]
    fn recorded_violation_is_not_replaced() {
        let text = with("", 9, "9\t1\tVIOLATION\told");
        assert_eq!(with(&text, 9, "9\t1\tkept\tnew"), text);
    }
}
