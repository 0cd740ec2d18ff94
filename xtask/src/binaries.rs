use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::libtest::{Reader, Suite};
use crate::newer_servers::Root;
use crate::process::{self, Finished, cargo, clear_progress, without_our_own};
use crate::report::{Counts, Outcome, Report};
use crate::retry::{self, Retry};
use crate::{config, parallel, table};

const LISTING: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binary {
    pub(crate) package: String,
    /// An integration test's name, or `lib` for the crate itself.
    pub(crate) name: String,
    pub(crate) title: String,
    path: PathBuf,
    folder: PathBuf,
    on: Option<(&'static str, Root)>,
    only: Option<&'static str>,
}

pub(crate) fn build(log: &str, args: &[&str]) -> Result<Vec<Binary>, String> {
    let mut command = cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(args);
    let finished = process::quietly(log, command)?;
    let mut binaries: Vec<Binary> =
        finished.lines.iter().filter_map(|line| artifact(line)).collect();
    binaries.sort();
    binaries.sort_by_key(|binary| config::start_order(&binary.package, &binary.name));
    Ok(binaries)
}

fn artifact(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    // The id is `path+file:///a/folder#name@0.1.0`, without `name@` if the folder has that name.
    let (place, version) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next()?,
    };
    let target = &message["target"];
    let name = if target["kind"][0] == "lib" { "lib" } else { target["name"].as_str()? };
    let source = Path::new(target["src_path"].as_str()?);
    let source = source.strip_prefix(folder).unwrap_or(source);
    Some(Binary {
        package: package.to_owned(),
        name: name.to_owned(),
        title: format!("{package} {}", source.display()),
        path: path.into(),
        folder: folder.to_owned(),
        on: None,
        only: None,
    })
}

/// Runs the binaries, at most `at_a_time` in parallel, then the exclusive ones and the retries of
/// timed-out tests one by one. A binary that exceeds `limit` is killed and fails.
pub(crate) fn run(
    step: &str,
    binaries: Vec<Binary>,
    args: &[String],
    at_a_time: usize,
    limit: Duration,
) -> Report {
    let (exclusive, parallel): (Vec<_>, Vec<_>) =
        binaries.into_iter().partition(|it| config::is_exclusive(&it.package, &it.name));
    let mut report = Report::of(true);
    let mut again: Vec<(Binary, Retry)> = Vec::new();
    for (binaries, count) in [(parallel, at_a_time), (exclusive, 1)] {
        let job = |binary: Binary| {
            let ran = binary.run(&binary.log(step), args, limit);
            (binary, ran)
        };
        parallel::run(count, binaries, job, |(binary, (suites, finished))| {
            if let Some((suite, timed_out)) = retries(&suites, &finished) {
                report.add(report_retries(step, suite));
                again.extend(timed_out.into_iter().map(|retry| (binary.clone(), retry)));
                finished.explain();
                return;
            }
            suites.iter().for_each(|suite| report.add(said(step, suite)));
            if !finished.ok() {
                report.outcome = Outcome::Failed;
                finished.explain();
            }
        });
    }
    for (binary, retry) in again {
        report.add(binary.run_again(step, args, limit, retry));
    }
    report
}

fn retries<'a>(suites: &'a [Suite], finished: &Finished) -> Option<(&'a Suite, Vec<Retry>)> {
    match suites {
        [suite] if finished.ended_as_tests_fail() => {
            retry::tests(suite).map(|tests| (suite, tests))
        }
        _ => None,
    }
}

impl Binary {
    pub(crate) fn on(
        mut self,
        title: &'static str,
        root: Root,
        only: Option<&'static str>,
    ) -> Self {
        self.title += &format!(" on {title}");
        self.on = Some((title, root));
        self.only = only;
        self
    }

    fn log(&self, step: &str) -> String {
        let on = self.on.iter().filter_map(|(_, root)| root.folder.file_name());
        let on: String = on.map(|name| format!("-{}", name.to_string_lossy())).collect();
        format!("{step}-{}-{}{on}", self.package, self.name)
    }

    fn run(&self, log: &str, args: &[String], limit: Duration) -> (Vec<Suite>, Finished) {
        let mut command = self.command(args);
        command.args(config::threads(&self.package, &self.name).into_iter().flatten());
        let mut reader = Reader::of(&self.title);
        let mut suites = Vec::new();
        let finished = process::run(log, command, limit, |line| suites.extend(reader.line(line)));
        suites.extend(reader.end().map(|mut suite| {
            if finished.hung() {
                let listed = self.listed(log, args);
                suite.note_unfinished(&listed);
            }
            suite
        }));
        if let Some((title, root)) = &self.on {
            suites.iter_mut().for_each(|suite| suite.note_server(title, &root.server));
        }
        (suites, finished)
    }

    fn run_again(&self, step: &str, args: &[String], limit: Duration, retry: Retry) -> Report {
        let Retry { test, why } = retry;
        let mut args = args.to_vec();
        args.extend(["--exact".to_owned(), test.clone()]);
        let log = format!("{}-again-{}", self.log(step), test.replace("::", "-"));
        let (mut suites, finished) = self.run(&log, &args, limit);
        for suite in &mut suites {
            suite.title += &format!(": {test}, retried alone");
        }
        let passed: u64 = suites.iter().map(|suite| suite.counts.passed).sum();
        let mut report = Report::of(finished.ok() && passed == 1);
        for suite in &suites {
            report.add(Report { left_out: Vec::new(), ..said(step, suite) });
        }
        if report.outcome == Outcome::Passed {
            report.retried.push(format!("{} {test}: {why}", self.title));
        } else {
            report.tests.failed = report.tests.failed.max(1);
            finished.explain();
        }
        report.tests.ignored = 0; // the binary's first run counted them
        report.tests.filtered = 0;
        report
    }

    /// Returns the binary's tests, or none if the listing exceeds [`LISTING`]: some binaries start
    /// servers first.
    fn listed(&self, log: &str, args: &[String]) -> Vec<String> {
        let mut command = self.command(args);
        command.arg("--list");
        let finished = process::run(&format!("{log}-list"), command, LISTING, |_| {});
        let tests = finished.lines.iter().filter_map(|line| line.strip_suffix(": test"));
        tests.map(str::to_owned).collect()
    }

    fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(args).current_dir(&self.folder);
        if !args.iter().any(|arg| arg == "--exact") {
            command.args(self.only);
        }
        without_our_own(&mut command);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        if let Some((_, root)) = &self.on {
            command.env("LOCKWRIGHT_SERVER_ROOT", &root.folder);
        }
        command
    }
}

pub(crate) fn said(step: &str, suite: &Suite) -> Report {
    let report = noted(step, suite, suite.ok(), suite.counts());
    if !suite.ok() {
        complain("FAILED", suite);
    } else if report.tests.passed + report.tests.ignored > 0 {
        let took = suite.took.as_secs_f64();
        println!("     {:4} passed  {took:6.2} s  {}", report.tests.passed, suite.title);
    }
    report
}

fn report_retries(step: &str, suite: &Suite) -> Report {
    let report = noted(step, suite, true, Counts { failed: 0, ..suite.counts });
    complain("RETRY", suite);
    report
}

fn noted(step: &str, suite: &Suite, ok: bool, tests: Counts) -> Report {
    clear_progress();
    table::note(suite);
    let left_out = suite.ignored().map(|test| format!("{step}: {test}")).collect();
    Report { tests, left_out, ..Report::of(ok) }
}

fn complain(what: &str, suite: &Suite) {
    println!("     {what}  {}", suite.title);
    suite.complaints().for_each(|line| println!("{line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, kind: &str, source: &str, test: bool, path: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///a/{id}",
            "manifest_path":"/a/core/Cargo.toml","target":{{"kind":["{kind}"],
            "crate_types":["bin"],"name":"loss","src_path":"/a/core/{source}","test":true}},
            "profile":{{"opt_level":"0","test":{test}}},"features":[],"executable":{path}}}"#
        )
    }

    #[test]
    fn test_binaries_are_found_in_cargos_messages() {
        let lib = message("core#lw-core@0.1.0", "lib", "src/lib.rs", true, r#""/t/a""#);
        let lib = artifact(&lib).unwrap();
        assert_eq!((lib.package.as_str(), lib.name.as_str()), ("lw-core", "lib"));
        assert_eq!(lib.title, "lw-core src/lib.rs");
        assert_eq!((lib.path, lib.folder), ("/t/a".into(), "/a/core".into()));
        let test = message("core#0.1.0", "test", "tests/loss.rs", true, r#""/t/b""#);
        let test = artifact(&test).unwrap();
        assert_eq!((test.package.as_str(), test.name.as_str()), ("core", "loss"));
        assert_eq!(test.title, "core tests/loss.rs");
        for no in [
            message("core#0.1.0", "bin", "src/main.rs", false, r#""/t/c""#),
            message("core#0.1.0", "lib", "src/lib.rs", false, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "   Compiling lw-core v0.1.0".to_owned(),
        ] {
            assert_eq!(artifact(&no), None, "{no}");
        }
    }

    const PASSES: &str = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; \
                          0 filtered out; finished in 0.10s'";

    fn script(folder: &Path, name: &str, text: &str) -> Binary {
        let [draft, path] = [folder.join(format!("{name}.sh")), folder.join(name)];
        std::fs::write(&draft, format!("#!/bin/sh\n{text}\n")).unwrap();
        // If this process wrote the file, another test's child could inherit it open, and `exec`
        // would fail.
        let mut install = Command::new("install");
        assert!(install.args(["-m", "755"]).args([&draft, &path]).status().unwrap().success());
        let title = format!("self-test {name}");
        let (package, folder) = ("self-test".to_owned(), folder.to_path_buf());
        Binary { package, name: name.to_owned(), title, path, folder, ..Binary::default() }
    }

    fn run_all(binaries: &[Binary]) -> Report {
        run("self-test", binaries.to_vec(), &[], 2, process::RUNNING)
    }

    #[test]
    fn suite_on_a_newer_server_has_its_own_column_and_log() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            format!("echo 'suite: x'; echo \"root: $LOCKWRIGHT_SERVER_ROOT, only: $*\"; {PASSES}");
        let root = Root { folder: "/servers/mysql".into(), server: "MySQL 9.7".to_owned() };
        let binary = script(folder.path(), "on", &text).on("MySQL 8.4+", root, Some("a"));
        let (suites, finished) = binary.run("self-test-on", &[], process::RUNNING);
        assert!(finished.ok());
        assert_eq!(binary.log("step"), "step-self-test-on-mysql");
        assert_eq!(suites[0].title, "self-test on on MySQL 8.4+");
        let lines =
            ["suite: x on MySQL 8.4+", "server: MySQL 9.7", "root: /servers/mysql, only: a"];
        assert_eq!(suites[0].lines[..3], lines);
    }

    #[test]
    fn all_binaries_run_and_each_failure_counts() {
        let folder = tempfile::tempdir().unwrap();
        let good = ["a", "b", "c"].map(|name| script(folder.path(), name, PASSES));
        let bad = [
            script(folder.path(), "says-well-and-ends-badly", &format!("{PASSES}; exit 3")),
            script(folder.path(), "aborts", "echo 'running 5 tests'; kill -9 $$"),
            script(folder.path(), "silent", "exit 0"),
        ];
        let all_well = run_all(&good);
        let not_well = run_all(&[good, bad].concat());
        assert_eq!((all_well.outcome, all_well.tests.passed), (Outcome::Passed, 3));
        assert_eq!(not_well.outcome, Outcome::Failed);
        assert_eq!((not_well.tests.passed, not_well.tests.failed), (4, 2));
    }

    #[test]
    fn only_timed_out_tests_are_run_again_and_alone() {
        const FAILS: &str = "echo 'test result: FAILED. 0 passed; 1 failed'; exit 101";
        const RUNS_NOTHING: &str = "echo 'test result: ok. 0 passed; 0 failed'";
        const TIMED_OUT: &str = "x did not answer within 1s";
        let folder = tempfile::tempdir().unwrap();
        // A script imitates a test binary: one of two tests fails, then the command `ends` runs. In
        // a retry, only the command `alone` runs.
        let outcome = |says: &str, ends: &str, alone: &str| {
            let text = format!(
                "case \"$*\" in *--exact*) {alone}; exit;; esac; echo '---- a::b ----'; \
                 echo 'thread panicked at a.rs:1:1:'; echo '{says}'; echo 'failures:'; \
                 echo 'test result: FAILED. 1 passed; 1 failed'; {ends}"
            );
            run_all(&[script(folder.path(), "test", &text)])
        };
        let timed_out = outcome(TIMED_OUT, "exit 101", PASSES);
        assert_eq!(timed_out.outcome, Outcome::Passed);
        assert_eq!(timed_out.tests, Counts { passed: 2, ..Counts::default() });
        assert_eq!(timed_out.retried, [format!("self-test test a::b: {TIMED_OUT}")]);
        for failed in [
            outcome(TIMED_OUT, "exit 101", FAILS),
            outcome(TIMED_OUT, "exit 101", RUNS_NOTHING),
            outcome(TIMED_OUT, "kill -9 $$", PASSES),
            outcome("two held it", "exit 101", PASSES),
        ] {
            assert_eq!(failed.outcome, Outcome::Failed);
            assert_eq!((failed.tests.passed, failed.tests.failed), (1, 1));
            assert!(failed.retried.is_empty());
        }
    }

    #[test]
    fn hanging_binary_fails_and_names_its_test() {
        const HANGS: &str = "case $1 in --list) echo 'a: test'; echo 'b: test'; exit;; esac; \
                             echo 'running 2 tests'; echo 'test a ... ok'; exec sleep 1000";
        let folder = tempfile::tempdir().unwrap();
        let hangs = script(folder.path(), "hangs", HANGS);
        let (suites, finished) = hangs.run("self-test-hangs", &[], Duration::from_millis(500));
        assert!(finished.hung());
        let complaints: Vec<_> = suites[0].complaints().collect();
        assert_eq!(complaints, ["running 2 tests", "without a result: b"]);
        let good = script(folder.path(), "good", PASSES);
        let report = run("self-test", vec![hangs, good], &[], 1, Duration::from_secs(2));
        assert_eq!((report.outcome, report.tests.failed), (Outcome::Failed, 1));
        assert_eq!(report.tests.passed, 1, "the next one ran");
    }
}
