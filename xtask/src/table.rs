use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::libtest::{MARK, SERVER, Suite};
use crate::{folders, newer_servers, text};

const PAGE: &str = "docs/src/conformance.md";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    NotPromised,
}

impl Verdict {
    const ALL: [Self; 3] = [Self::Passed, Self::Failed, Self::NotPromised];
}

const NEWER: &str = "Newer servers, as of the last change of this page: ";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    columns: BTreeMap<String, BTreeMap<String, Verdict>>,
    newer: BTreeSet<String>,
}

impl Table {
    fn add(&mut self, suite: &Suite) -> bool {
        let values = |mark| suite.lines.iter().filter_map(move |line| line.strip_prefix(mark));
        let Some(label) = values(MARK).next() else { return false };
        let cases = self.columns.entry(label.trim().to_owned()).or_default();
        cases.extend(suite.lines.iter().filter_map(|line| verdict(line)));
        self.newer.extend(values(SERVER).map(str::to_owned));
        true
    }

    fn keep_newer(&mut self, page: &str) {
        let kept = Self::of_page(page);
        if self.newer.is_empty() {
            self.newer = kept.newer;
        }
        let passed = self.cases().into_iter().map(|case| (case.to_owned(), Verdict::Passed));
        let passed: BTreeMap<String, Verdict> = passed.collect();
        for (label, not_promised) in kept.columns {
            if is_on_newer(&label) {
                let cases = passed.clone().into_iter().chain(not_promised).collect();
                self.columns.entry(label).or_insert(cases);
            }
        }
    }

    /// Reads a page, which has no rows of cases that passed on every backend.
    fn of_page(page: &str) -> Self {
        let mut labels = Vec::new();
        let mut table = Self::default();
        for line in page.lines() {
            if let Some(servers) = line.strip_prefix(NEWER) {
                let servers = servers.trim_end_matches('.').split(", ");
                table.newer = servers.map(str::to_owned).collect();
            }
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let Some((first, cells)) = cells.split_first() else { continue };
            let case = first.strip_prefix('`').and_then(|case| case.strip_suffix('`'));
            if let Some(case) = case.filter(|case| case.contains("::")) {
                let not_promised = numbers(cells.first().unwrap_or(&""));
                for (number, label) in (1..).zip(&labels) {
                    let column = table.columns.entry(String::clone(label)).or_default();
                    if not_promised.contains(&number) {
                        column.insert(case.to_owned(), Verdict::NotPromised);
                    }
                }
            } else if first.parse::<usize>().is_ok() {
                labels.extend(cells.first().map(|label| (*label).to_owned()));
            }
        }
        table
    }

    fn failed(&self) -> usize {
        self.counts().map(|(.., [_, failed, _])| failed).sum()
    }

    fn cases(&self) -> BTreeSet<&str> {
        self.columns.values().flat_map(BTreeMap::keys).map(String::as_str).collect()
    }

    fn counts(&self) -> impl Iterator<Item = (usize, &str, [usize; 3])> {
        (1..).zip(&self.columns).map(|(number, (backend, cases))| {
            let count = |wanted| cases.values().filter(|verdict| **verdict == wanted).count();
            (number, backend.as_str(), Verdict::ALL.map(count))
        })
    }

    /// Rows have the backends' numbers instead of their long names.
    fn markdown(&self) -> String {
        let mut text = String::from("| | backend | passed | not promised |\n|--:|---|--:|--:|\n");
        for (number, backend, [passed, _, not_promised]) in self.counts() {
            let _ = writeln!(text, "| {number} | {backend} | {passed} | {not_promised} |");
        }
        let all = self.cases();
        let rows: Vec<String> = all.iter().filter_map(|case| self.row(case)).collect();
        let _ = write!(
            text,
            "\n## Cases that a backend doesn't promise\n\nThe other {} cases passed on every \
             backend.\n\n| case | not promised by |\n|---|---|\n{}",
            all.len() - rows.len(),
            rows.concat()
        );
        text
    }

    fn row(&self, case: &str) -> Option<String> {
        let without = |(_, cases): &(usize, &BTreeMap<String, Verdict>)| {
            cases.get(case) != Some(&Verdict::Passed)
        };
        let numbers = (1..).zip(self.columns.values()).filter(without);
        let ranges = ranges(numbers.map(|(number, _)| number));
        (!ranges.is_empty()).then(|| format!("| `{case}` | {ranges} |\n"))
    }

    fn page(&self) -> String {
        format!(
            "# What each backend passes\n\n\
             `cargo xtask test` runs every case of the conformance suite on every backend, with real \
             servers, and writes this\npage. A case isn't promised if the backend's profile excludes \
             it, or if its test environment lacks a requirement:\nservers that are frozen or \
             restarted, other processes, a simulated clock, a protected resource.\n`lockwright \
             conformance --list` describes the cases, and [Guarantees](guarantees.md) the \
             promises.\n\n\
             A backend *on* a server ran on a newer version than the installed one, which the test \
             command downloads: `MySQL 8.4+`\nis version 8.4 or later.\n\n{NEWER}{}.\n\n{}",
            self.newer.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
            self.markdown()
        )
    }
}

/// Formats ascending numbers: `1, 3–5`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}–{last}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn numbers(ranges: &str) -> BTreeSet<usize> {
    let parsed = ranges.split(", ").filter_map(|range| {
        let (first, last) = range.split_once('–').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    parsed.flatten().collect()
}

fn is_on_newer(label: &str) -> bool {
    let (_, server) = label.split_once(" on ").unwrap_or_default();
    newer_servers::SERVERS.iter().any(|known| known.title == server)
}

fn verdict(line: &str) -> Option<(String, Verdict)> {
    let (test, how) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (not_promised, case) = match test.trim().strip_prefix("[not promised]") {
        Some(case) => (true, case.trim()),
        None => (false, test.trim()),
    };
    let verdict = match how.split_whitespace().next()? {
        _ if not_promised => Verdict::NotPromised,
        "ok" => Verdict::Passed,
        "FAILED" => Verdict::Failed,
        _ => return None,
    };
    Some((case.to_owned(), verdict))
}

fn folder() -> PathBuf {
    folders::root().join("target/conformance")
}

pub(crate) fn begin() -> io::Result<()> {
    match fs::remove_dir_all(folder()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(folder()),
    }
}

pub(crate) fn note(suite: &Suite) {
    if !suite.title.contains(" tests/") {
        return;
    }
    let mut table = Table::default();
    if table.add(suite) {
        for label in table.columns.keys() {
            let _ = fs::create_dir_all(folder());
            let file = fs::OpenOptions::new().create(true).append(true).open(folder().join(label));
            let _ = file.and_then(|mut file| writeln!(file, "{}", suite.lines.join("\n")));
        }
    }
}

fn read() -> io::Result<Table> {
    let mut table = Table::default();
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder())?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.sort();
    for file in files {
        let lines = fs::read_to_string(file)?.lines().map(str::to_owned).collect();
        table.add(&Suite { lines, ..Suite::default() });
    }
    Ok(table)
}

pub(crate) fn check() -> Result<(), String> {
    let mut table = read().map_err(text)?;
    if table.columns.is_empty() {
        return Err("no conformance suite has run".to_owned());
    }
    let page = folders::root().join(PAGE);
    table.keep_newer(&fs::read_to_string(&page).unwrap_or_default());
    for (number, backend, [passed, failed, not_promised]) in table.counts() {
        println!(
            "     {number:>2} {backend}: {passed} passed, {failed} failed, {not_promised} not promised",
        );
    }
    if table.failed() > 0 {
        return Err(format!("{} cases failed; the page stays as it is", table.failed()));
    }
    compare(&page, &table.page())
}

fn compare(page: &Path, wanted: &str) -> Result<(), String> {
    // The distribution updates the newer servers' versions.
    let without_newer = |text: &str| {
        text.lines().filter(|line| !line.starts_with(NEWER)).collect::<Vec<_>>().join("\n")
    };
    if fs::read_to_string(page).is_ok_and(|text| without_newer(&text) == without_newer(wanted)) {
        return Ok(());
    }
    fs::write(page, wanted).map_err(text)?;
    Err(format!("{PAGE} was not up to date; it is now: commit it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(label: &str, lines: &[&str]) -> Suite {
        let mut all = vec![format!("{MARK}{label}"), "running 3 tests".to_owned()];
        all.extend(lines.iter().map(|line| (*line).to_owned()));
        Suite { lines: all, ..Suite::default() }
    }

    #[test]
    fn of_a_case_that_is_run_again_the_last_counts() {
        let mut table = Table::default();
        table.add(&suite(
            "a",
            &["test x::one ... FAILED", "test x::two ... ok", "suite: a", "test x::one ... ok"],
        ));
        assert!(table.counts().eq([(1, "a", [2, 0, 0])]));
    }

    #[test]
    fn numbers_are_shown_as_ranges() {
        for (shown, all) in [("", vec![]), ("2", vec![2]), ("1–2, 5, 7–9", vec![1, 2, 5, 7, 8, 9])]
        {
            assert_eq!(ranges(all.iter().copied()), shown);
            assert_eq!(numbers(shown), all.into_iter().collect());
        }
    }

    #[test]
    fn columns_of_newer_servers_are_kept_where_they_did_not_run() {
        let lines =
            ["server: MySQL 9.7", "test x::one ... ok", "test [not promised] x::two ... ignored"];
        let mut table = Table::default();
        table.add(&suite("mysql-row on MySQL 8.4+", &lines));
        table.add(&suite("gone on Other 1+", &lines[1..]));
        table.add(&suite("memory", &lines[1..]));
        let page = table.page();
        assert!(page.contains("The other 1 cases passed on every backend."), "{page}");
        assert!(page.contains("of this page: MySQL 9.7.\n"), "{page}");
        let mut without = Table::default();
        without.add(&suite("memory", &lines[1..]));
        without.keep_newer(&page);
        table.columns.remove("gone on Other 1+");
        assert_eq!(without, table);
        let mut failed = Table::default();
        failed.add(&suite("mysql-row on MySQL 8.4+", &["test x::one ... FAILED"]));
        failed.keep_newer(&page);
        assert_eq!(failed.failed(), 1);
    }

    #[test]
    fn new_version_of_a_newer_server_keeps_the_page() {
        let page = tempfile::NamedTempFile::new().unwrap();
        fs::write(&page, format!("a\n{NEWER}MySQL 9.7.\nb\n")).unwrap();
        assert!(compare(page.path(), &format!("a\n{NEWER}MySQL 9.8.\nb\n")).is_ok());
        assert!(compare(page.path(), &format!("a\n{NEWER}MySQL 9.8.\nc\n")).is_err());
        let written = fs::read_to_string(&page).unwrap();
        assert!(written.contains("9.8"), "{written}");
    }

    #[test]
    fn a_table_has_a_column_for_each_backend_and_a_row_for_each_case() {
        let mut table = Table::default();
        assert!(table.add(&suite("b", &["test               x::one ... ok"])));
        assert!(table.add(&suite(
            "a",
            &["test               x::one ... FAILED", "test [not promised] x::two ... ignored"]
        )));
        assert!(!table.add(&Suite { lines: vec!["test y ... ok".into()], ..Suite::default() }));
        let expected = "| | backend | passed | not promised |\n|--:|---|--:|--:|\n\
                        | 1 | a | 0 | 1 |\n| 2 | b | 1 | 0 |\n\n\
                        ## Cases that a backend doesn't promise\n\n\
                        The other 0 cases passed on every backend.\n\n\
                        | case | not promised by |\n|---|---|\n\
                        | `x::one` | 1 |\n| `x::two` | 1–2 |\n";
        assert_eq!(table.markdown(), expected);
        assert_eq!(table.failed(), 1);
    }
}
