//! The table of case by backend, from what the conformance suites print.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::libtest::{MARK, Suite};
use crate::process::plain;

/// The page that has it.
const PAGE: &str = "docs/src/conformance.md";

/// What became of one case on one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    NotPromised,
}

impl Verdict {
    const ALL: [Self; 3] = [Self::Passed, Self::Failed, Self::NotPromised];

    fn shown(self) -> &'static str {
        match self {
            Self::Passed => "✓",
            Self::Failed => "FAILED",
            Self::NotPromised => "–",
        }
    }
}

/// Cases by backend.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Table(BTreeMap<String, BTreeMap<String, Verdict>>);

impl Table {
    /// Takes in a test binary's output, if it is a conformance suite's.
    fn add(&mut self, suite: &Suite) -> bool {
        let lines: Vec<String> = suite.lines.iter().map(|line| plain(line)).collect();
        let Some(label) = lines.iter().find_map(|line| line.strip_prefix(MARK)) else {
            return false;
        };
        let cases = self.0.entry(label.trim().to_owned()).or_default();
        cases.extend(lines.iter().filter_map(|line| verdict(line)));
        true
    }

    fn backends(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn failed(&self) -> usize {
        let verdicts = self.0.values().flat_map(BTreeMap::values);
        verdicts.filter(|verdict| **verdict == Verdict::Failed).count()
    }

    fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> =
            self.0.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
        cases.sort_unstable();
        cases.dedup();
        cases
    }

    /// How many cases each backend passed, failed, and doesn't promise; its number is that of its column.
    fn counts(&self) -> impl Iterator<Item = (usize, &str, [usize; 3])> {
        (1..).zip(&self.0).map(|(number, (backend, cases))| {
            let count = |wanted| cases.values().filter(|verdict| **verdict == wanted).count();
            (number, backend.as_str(), Verdict::ALL.map(count))
        })
    }

    /// In Markdown. The columns are numbered: there are too many of them for names.
    fn markdown(&self) -> String {
        let mut text = String::from("| | backend | passed | not promised |\n|--:|---|--:|--:|\n");
        for (number, backend, [passed, _, not_promised]) in self.counts() {
            let _ = writeln!(text, "| {number} | {backend} | {passed} | {not_promised} |");
        }
        text += "\n| case |";
        for (number, ..) in self.counts() {
            let _ = write!(text, " {number} |");
        }
        text += "\n|---|";
        text += &":-:|".repeat(self.0.len());
        for case in self.cases() {
            let _ = write!(text, "\n| `{case}` |");
            for cases in self.0.values() {
                let _ =
                    write!(text, " {} |", cases.get(case).map_or("", |verdict| verdict.shown()));
            }
        }
        text += "\n";
        text
    }

    /// For a terminal.
    fn plain(&self) -> String {
        let mut text = String::new();
        for (number, backend, [passed, failed, not_promised]) in self.counts() {
            let _ = writeln!(
                text,
                "     {number:>2} {backend}: {passed} passed, {failed} failed, {not_promised} not promised",
            );
        }
        let cases = self.cases();
        let width = cases.iter().map(|case| case.len()).max().unwrap_or(0);
        let _ = write!(text, "\n     {:width$}", "");
        for number in 1..=self.0.len() {
            let _ = write!(text, " {number:>2}");
        }
        for case in cases {
            let _ = write!(text, "\n     {case:width$}");
            for cases in self.0.values() {
                let shown = match cases.get(case) {
                    Some(Verdict::Passed) => "✓",
                    Some(Verdict::Failed) => "✗",
                    Some(Verdict::NotPromised) => "–",
                    None => " ",
                };
                let _ = write!(text, "  {shown}");
            }
        }
        text + "\n     ✓ passed   ✗ failed   – not promised\n"
    }

    fn page(&self) -> String {
        format!(
            "# What each backend passes\n\n\
             Every case of the conformance suite on every backend, against real servers, as \
             `cargo xtask test` saw it\nlast; it writes this page. ✓ passed; – is not promised, so there \
             is nothing to pass: by the backend's\nprofile, or as the case needs what isn't done there \
             (its server frozen, restarted, emptied or cut off,\nother processes, a clock that is \
             moved, something that its locks protect).\n`lockwright conformance` does no such thing to \
             the server of its URL, so it says \"not promised\"\nof more cases, and of each why. What a \
             case checks, `lockwright conformance --list` says.\n[Guarantees](guarantees.md) says what \
             the promises mean.\n\n{}",
            self.markdown()
        )
    }
}

/// A line such as `test [not promised] loss::a_case ... ignored`, taken apart.
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
    crate::root().join("target/conformance")
}

/// Forgets what earlier runs saw.
pub(crate) fn begin() -> io::Result<()> {
    match fs::remove_dir_all(folder()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(folder()),
    }
}

/// Keeps what a suite printed, if it was a backend's conformance suite. That of an example isn't. What is
/// noted later counts, of a case that was run again.
pub(crate) fn note(suite: &Suite) {
    if !suite.title.contains(" tests/") {
        return;
    }
    let mut table = Table::default();
    if table.add(suite) {
        for label in table.backends() {
            // The table would lack it, and is compared with the page.
            let file = fs::OpenOptions::new().create(true).append(true).open(folder().join(label));
            let _ = file.and_then(|mut file| writeln!(file, "{}", suite.lines.join("\n")));
        }
    }
}

/// The table of the last test run.
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

/// Prints the table of the last test run, and compares it with the page, which is written anew
/// where it is different.
pub(crate) fn check() -> Result<(), String> {
    let table = read().map_err(|error| format!("the suites\' results can\'t be read: {error}"))?;
    if table.0.is_empty() {
        return Err("no conformance suite has run".to_owned());
    }
    print!("{}", table.plain());
    if table.failed() > 0 {
        return Err(format!("{} cases failed; the page stays as it is", table.failed()));
    }
    let page = crate::root().join(PAGE);
    compare(&page, &table.page())
}

fn compare(page: &Path, wanted: &str) -> Result<(), String> {
    if fs::read_to_string(page).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    match fs::write(page, wanted) {
        Ok(()) => Err(format!("{PAGE} was not up to date; it is now: commit it")),
        Err(error) => Err(format!("{PAGE} is not up to date, and can\'t be written: {error}")),
    }
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
        assert_eq!(table.counts().map(|(_, _, counts)| counts).collect::<Vec<_>>(), [[2, 0, 0]]);
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
                        | case | 1 | 2 |\n|---|:-:|:-:|\n| `x::one` | FAILED | ✓ |\n\
                        | `x::two` | – |  |\n";
        assert_eq!(table.markdown(), expected);
        assert_eq!(table.failed(), 1);
        assert!(table.plain().contains(" 1 a: 0 passed, 1 failed, 1 not promised"));
        assert!(table.plain().contains("x::one  ✗  ✓"), "{}", table.plain());
    }
}
