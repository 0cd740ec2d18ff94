//! Builds and runs test binaries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::libtest::{Reader, Suite};
use crate::newer_servers::Root;
use crate::process::{self, Finished, cargo, clear_progress, without_our_own};
use crate::report::{Counts, Outcome, Report};
use crate::retry::{self, Retry};
use crate::{config, parallel, table};

const LISTING: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binary {
    pub(crate) package: String,
    /// That of an integration test, or `lib` for the crate itself.
    pub(crate) name: String,
    pub(crate) title: String,
    path: PathBuf,
    folder: PathBuf,
    on: Option<(&'static str, Root)>,
    only: Option<&'static str>,
}

pub(crate) fn build(log: &str, args: &[&str]) -> Result<Vec<Binary>, Report> {
    let mut command = cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(args);
    let finished = process::run(log, command, process::WITH_BUILDING, |_| {});
    if !finished.ok() {
        finished.show();
        finished.explain();
        return Err(Report::of(false));
    }
    let mut binaries: Vec<Binary> =
        finished.lines.iter().filter_map(|line| artifact(line)).collect();
    binaries.sort();
    binaries.sort_by_key(|binary| config::start_order(&binary.package, &binary.name));
    Ok(binaries)
}

fn artifact(line: &str) -> Option<Binary> {
    let line = line.strip_prefix("{\"reason\":\"compiler-artifact\"")?;
    let (_, profile) = line.split_once("\"profile\":{")?;
    if !profile.split('}').next()?.contains("\"test\":true") {
        return None;
    }
    let path = PathBuf::from(text(line, "executable")?);
    let folder = Path::new(&text(line, "manifest_path")?).parent()?.to_path_buf();
    // `path+file:///a/folder#name@0.1.0`, without the name if it is the folder's.
    let id = text(line, "package_id")?;
    let (place, version) = id.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => place.rsplit('/').next()?.to_owned(),
    };
    let name = match line.split_once("\"kind\":[")?.1.split(']').next()? {
        "\"lib\"" => "lib".to_owned(),
        _ => text(line, "name")?,
    };
    let source = PathBuf::from(text(line, "src_path")?);
    let source = source.strip_prefix(&folder).unwrap_or(&source).display().to_string();
    Some(Binary {
        title: format!("{package} {source}"),
        package,
        name,
        path,
        folder,
        on: None,
        only: None,
    })
}

/// The first match is right for all keys used here.
fn text(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{key}\":\""))?;
    let mut text = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => text.push(chars.next()?), // paths have no other escapes than \\ and \"
            c => text.push(c),
        }
    }
}

/// Runs the binaries, at most `at_a_time` in parallel, exclusive ones last. Then retries tests that
/// timed out, one by one. A binary that exceeds `limit` is killed and has failed.
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

    /// If it lists them in time: some binaries start servers first.
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

    fn message(id: &str, kind: &str, name: &str, source: &str, test: bool, path: &str) -> String {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///a/{id}\",\
             \"manifest_path\":\"/a/core/Cargo.toml\",\"target\":{{\"kind\":[\"{kind}\"],\
             \"crate_types\":[\"bin\"],\"name\":\"{name}\",\"src_path\":\"/a/core/{source}\",\
             \"edition\":\"2024\",\"doc\":false,\"doctest\":false,\"test\":true}},\
             \"profile\":{{\"opt_level\":\"0\",\"debuginfo\":1,\"test\":{test}}},\"features\":[],\
             \"filenames\":[\"/t/x\"],\"executable\":{path},\"fresh\":false}}"
        )
    }

    #[test]
    fn test_binaries_are_found_in_cargos_messages() {
        let lib = artifact(&message(
            "core#lw-core@0.1.0",
            "lib",
            "lw_core",
            "src/lib.rs",
            true,
            "\"/t/a\"",
        ));
        let lib = lib.unwrap();
        assert_eq!((lib.package.as_str(), lib.name.as_str()), ("lw-core", "lib"));
        assert_eq!(lib.title, "lw-core src/lib.rs");
        assert_eq!((lib.path, lib.folder), ("/t/a".into(), "/a/core".into()));
        let test =
            artifact(&message("core#0.1.0", "test", "loss", "tests/loss.rs", true, "\"/t/b\""));
        let test = test.unwrap();
        assert_eq!((test.package.as_str(), test.name.as_str()), ("core", "loss"));
        assert_eq!(test.title, "core tests/loss.rs");
        // A library without tests has no binary.
        for no in [
            message("core#0.1.0", "bin", "lw", "src/main.rs", false, "\"/t/c\""),
            message("core#0.1.0", "lib", "lw", "src/lib.rs", false, "null"),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
            "   Compiling lw-core v0.1.0".to_owned(),
        ] {
            assert_eq!(artifact(&no), None, "{no}");
        }
    }

    fn script(folder: &Path, name: &str, text: &str) -> Binary {
        let [draft, path] = [folder.join(format!("{name}.sh")), folder.join(name)];
        std::fs::write(&draft, format!("#!/bin/sh\n{text}\n")).unwrap();
        // By another process: another test's child may still have the script open for writing.
        let mut install = Command::new("install");
        assert!(install.args(["-m", "755"]).args([&draft, &path]).status().unwrap().success());
        let (package, name) = ("self-test".to_owned(), name.to_owned());
        Binary {
            title: format!("self-test {name}"),
            package,
            name,
            path,
            folder: folder.to_path_buf(),
            on: None,
            only: None,
        }
    }

    #[test]
    fn suite_on_a_newer_server_has_its_own_column_and_log() {
        const SUITE: &str = "echo 'suite: x'; echo 'running 1 test'; echo 'test a ... ok'; \
                             echo \"root: $LOCKWRIGHT_SERVER_ROOT, only: $*\"; \
                             echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; \
                             0 filtered out; finished in 0.10s'";
        let folder = crate::folders::logs().join(format!("self-test-on-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let root = Root { folder: "/servers/mysql".into(), server: "MySQL 9.7".to_owned() };
        let binary = script(&folder, "on", SUITE).on("MySQL 8.4+", root, Some("a"));
        let (suites, finished) = binary.run("self-test-on", &[], process::RUNNING);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(finished.ok());
        assert_eq!(binary.log("step"), "step-self-test-on-mysql");
        let suite = &suites[0];
        assert_eq!(suite.title, "self-test on on MySQL 8.4+");
        assert_eq!(suite.lines[..2], ["suite: x on MySQL 8.4+", "server: MySQL 9.7"]);
        assert!(
            suite.lines.contains(&"root: /servers/mysql, only: a".to_owned()),
            "{:?}",
            suite.lines
        );
    }

    #[test]
    fn all_binaries_run_and_each_failure_counts() {
        const GOOD: &str = "echo 'running 2 tests'; echo 'test result: ok. 2 passed; 0 failed; 0 ignored; \
                            0 measured; 0 filtered out; finished in 0.10s'";
        let folder =
            crate::folders::logs().join(format!("self-test-parallel-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let good = ["a", "b", "c"].map(|name| script(&folder, name, GOOD)).to_vec();
        let mut some_bad = good.clone();
        some_bad.push(script(&folder, "says-well-and-ends-badly", &format!("{GOOD}; exit 3")));
        some_bad.push(script(&folder, "aborts", "echo 'running 5 tests'; kill -9 $$"));
        some_bad.push(script(&folder, "silent", "exit 0"));
        let all_well = run("self-test", good, &[], 2, process::RUNNING);
        let not_well = run("self-test", some_bad, &[], 2, process::RUNNING);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((all_well.outcome, all_well.tests.passed), (Outcome::Passed, 6));
        assert_eq!(not_well.outcome, Outcome::Failed);
        assert_eq!((not_well.tests.passed, not_well.tests.failed), (8, 2));
    }

    #[test]
    fn only_timed_out_tests_are_run_again_and_alone() {
        // One of two tests fails with `SAYS`. Alone, it does `BY_ITSELF`.
        const SCRIPT: &str = "case \"$*\" in *--exact*) \
             echo 'running 1 test'; echo 'test a::b ... ok'; BY_ITSELF; exit;; esac; \
             echo 'running 2 tests'; echo 'test a::b ... FAILED'; echo '---- a::b ----'; \
             echo 'SAYS'; echo 'failures:'; echo 'test result: FAILED. 1 passed; 1 failed; \
             0 ignored; 0 measured; 0 filtered out; finished in 0.10s'; ENDS";
        const PASSES: &str = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; \
                              1 filtered out; finished in 0.10s'";
        const FAILS: &str = "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101";
        const RUNS_NOTHING: &str = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'";
        let folder = crate::folders::logs().join(format!("self-test-retry-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let outcome = |name: &str, says: &str, by_itself: &str| {
            let ends = if name == "crashes" { "kill -9 $$" } else { "exit 101" };
            let text = SCRIPT.replace("SAYS", says).replace("BY_ITSELF", by_itself);
            let text = text.replace("ENDS", ends);
            let binary = script(&folder, name, &text);
            run("self-test", vec![binary], &[], 1, process::RUNNING)
        };
        const TIMED_OUT: &str = "thread panicked at a.rs:1:1:'; echo 'x did not answer within 1s";
        let timed_out = outcome("timed-out", TIMED_OUT, PASSES);
        let twice = outcome("timed-out-twice", TIMED_OUT, FAILS);
        let renamed = outcome("renamed", TIMED_OUT, RUNS_NOTHING);
        let crashes = outcome("crashes", TIMED_OUT, PASSES);
        let wrong = outcome("wrong", "thread panicked at a.rs:1:1:'; echo 'two held it", PASSES);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(timed_out.outcome, Outcome::Passed);
        assert_eq!(timed_out.tests, Counts { passed: 2, ..Counts::default() });
        assert_eq!(timed_out.retried, ["self-test timed-out a::b: x did not answer within 1s"]);
        for failed in [twice, renamed, crashes, wrong] {
            assert_eq!(failed.outcome, Outcome::Failed);
            assert_eq!((failed.tests.passed, failed.tests.failed), (1, 1));
            assert!(failed.retried.is_empty());
        }
    }

    #[test]
    fn hanging_binary_fails_and_names_its_test() {
        const HANGS: &str = "case $1 in --list) echo 'a: test'; echo 'b: test'; exit;; esac; \
                             echo 'running 2 tests'; echo 'test a ... ok'; exec sleep 1000";
        let folder = crate::folders::logs().join(format!("self-test-hangs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let hangs = script(&folder, "hangs", HANGS);
        let (suites, finished) = hangs.run("self-test-hangs", &[], Duration::from_millis(500));
        assert!(finished.hung());
        assert_eq!(suites.len(), 1);
        let complaints: Vec<_> = suites[0].complaints().collect();
        assert_eq!(complaints, ["running 2 tests", "without a result: b"]);
        let good = script(&folder, "good", "echo 'test result: ok. 2 passed; 0 failed'");
        let report = run("self-test", vec![hangs, good], &[], 1, Duration::from_secs(2));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((report.outcome, report.tests.failed), (Outcome::Failed, 1));
        assert_eq!(report.tests.passed, 2, "the next one ran");
    }
}
