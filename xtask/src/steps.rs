//! Each step of the test command.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::libtest::{Reader, Suite};
use crate::process::{self, cargo, clear_progress, plain, quietly};
use crate::report::{Outcome, Report};
use crate::{examples, interop, pages, servers, table};

/// What the command line asked for.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Only what needs no server.
    pub(crate) quick: bool,
}

/// One step.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Whether nothing after it makes sense when it fails. The others go on, so that one run shows
    /// everything that is wrong.
    pub(crate) stops: bool,
    pub(crate) run: fn(&Options) -> Report,
}

/// All steps, in their order: what fails soonest comes first.
pub(crate) const ALL: &[Step] = &[
    Step { name: "servers", what: "what the tests need is installed", stops: true, run: needs },
    Step { name: "fmt", what: "formatting", stops: false, run: fmt },
    Step {
        name: "pages",
        what: "links, and whether the pages have all that they should",
        stops: false,
        run: links,
    },
    Step { name: "tree", what: "few dependencies where few are promised", stops: false, run: tree },
    Step { name: "clippy", what: "lints, warnings as errors", stops: false, run: clippy },
    Step {
        name: "features",
        what: "each feature of the facade alone, and what is said of one that is missing",
        stops: false,
        run: features,
    },
    Step { name: "test", what: "all tests", stops: false, run: test },
    Step { name: "doctest", what: "the examples in doc comments", stops: false, run: doctest },
    Step { name: "doc", what: "the API's pages, without warnings", stops: false, run: doc },
    Step { name: "examples", what: "the examples do their job", stops: false, run: run_examples },
    Step { name: "benches", what: "the benches run, once each", stops: false, run: benches },
    Step { name: "table", what: "every case by every backend", stops: false, run: cases },
    Step {
        name: "interop",
        what: "other programs and we keep each other out",
        stops: false,
        run: interop::step,
    },
];

/// Crates whose tests need a server, all of them.
const SERVER_CRATES: &[&str] = &["lockwright-redis", "lockwright-testbed", interop::CRATE];

/// Crates of which some test binaries start a server before they look which tests are wanted, and
/// those that don't.
const SOME_BINARIES: [(&str, &[&str]); 2] = [
    ("lockwright-sql", &["--lib", "--test", "it", "--test", "conformance"]),
    (
        "lockwright-redlock",
        &["--lib", "--test", "quorum", "--test", "model", "--test", "simulation"],
    ),
];

/// How the tests of other crates that need a server are told: by these in their paths. They stand
/// in a module that is named after the server, or have `on_` and its name in their own.
const SERVER_TESTS: &[&str] = &[
    "redis::",
    "on_redis",
    "postgres::",
    "on_postgres",
    "mysql::",
    "on_mysql",
    "pgbouncer::",
    "on_pgbouncer",
];

/// How many crates the facade may consist of with memory alone, itself included.
const LEANEST: usize = 30;

/// What must not be among them.
const CLIENT_LIBRARIES: &[&str] = &["redis", "sqlx", "sqlx-core", "libsqlite3-sys"];

fn needs(options: &Options) -> Report {
    if options.quick {
        return Report::left_out("nothing was looked for or installed");
    }
    match servers::provide() {
        Ok(()) => Report::of(true),
        Err(problem) => Report::failed(&problem),
    }
}

fn fmt(_: &Options) -> Report {
    let colour = if process::colours() { "always" } else { "never" };
    Report::of(quietly("fmt", cargo(&["fmt", "--all", "--check", "--", "--color", colour])).ok())
}

fn links(_: &Options) -> Report {
    match pages::check(&crate::root()) {
        Ok(problems) if problems.is_empty() => Report::of(true),
        Ok(problems) => Report::failed(&problems.join("\n")),
        Err(error) => Report::failed(&format!("the pages can't be read: {error}")),
    }
}

fn clippy(_: &Options) -> Report {
    let args = "clippy --workspace --all-targets --all-features -- -D warnings";
    Report::of(quietly("clippy", cargo(&words(args))).ok())
}

fn doc(_: &Options) -> Report {
    let mut command = cargo(&words("doc --no-deps --workspace --all-features"));
    command.env("RUSTDOCFLAGS", "-D warnings");
    let finished = quietly("doc", command);
    // Cargo's own warnings, of two crates that write the same page, say, aren't rustdoc's.
    let warned = finished.lines.iter().any(|line| plain(line).starts_with("warning:"));
    if finished.ok() && warned {
        finished.show();
        finished.explain();
    }
    Report::of(finished.ok() && !warned)
}

/// The facade with no feature, and with each of its features alone.
fn features(options: &Options) -> Report {
    let names = match features_of(&crate::root().join("Cargo.toml")) {
        Ok(names) => names,
        Err(error) => return Report::failed(&format!("Cargo.toml can't be read: {error}")),
    };
    for name in [String::new()].into_iter().chain(names) {
        let args = "clippy --package lockwright --no-default-features --features";
        let mut command = cargo(&words(args));
        command.args([&name, "--", "-D", "warnings"]);
        let log = if name.is_empty() { "features-none" } else { &format!("features-{name}") };
        if !quietly(log, command).ok() {
            // The next ones would most likely say the same again.
            return Report::failed(&format!("the facade with --features '{name}' alone FAILED"));
        }
    }
    // What isn't compiled in must say so, which no test shows that has it all.
    let args = "--package lockwright --no-default-features --features memory --test facade";
    let mut report = run_tests("features-test", &words(args), &[]);
    if options.quick {
        report.left_out.push("features: servers that want TLS, without it".to_owned());
    } else {
        let args = "--package lockwright-sql --no-default-features --features mysql,postgres \
                    --test tls";
        report.add(run_tests("features-tls", &words(args), &[]));
    }
    report
}

/// The keys of the `[features]` table, but for `default`.
fn features_of(manifest: &Path) -> std::io::Result<Vec<String>> {
    let text = fs::read_to_string(manifest)?;
    let table = text.lines().skip_while(|line| line.trim() != "[features]").skip(1);
    Ok(table
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .map(|(key, _)| key.trim().to_owned())
        .filter(|key| !key.starts_with('#') && key != "default")
        .collect())
}

fn test(options: &Options) -> Report {
    if let Err(error) = table::begin() {
        return Report::failed(&format!("target/conformance can't be written: {error}"));
    }
    if !options.quick {
        let mut args = words("--workspace --all-features --tests --exclude");
        args.push(interop::CRATE);
        return run_tests("test", &args, &[]);
    }
    let mut args = words("--workspace --all-features --tests");
    let mut left_out = Vec::new();
    for (name, _) in SOME_BINARIES {
        args.extend(["--exclude", name]);
        left_out.push(format!("test: the binaries of {name} that need a server"));
    }
    for name in SERVER_CRATES {
        args.extend(["--exclude", name]);
        left_out.push(format!("test: all of {name}, which needs a server"));
    }
    let skips = SERVER_TESTS.iter().flat_map(|name| ["--skip", name]);
    args.push("--");
    args.extend(skips.clone());
    let mut report = run_tests("test", &args, &left_out);
    for (name, binaries) in SOME_BINARIES {
        let mut some = vec!["--package", name, "--all-features"];
        some.extend(binaries);
        some.push("--");
        some.extend(skips.clone());
        report.add(run_tests(&name.replace("lockwright", "test"), &some, &[]));
    }
    if report.tests.filtered > 0 {
        let number = report.tests.filtered;
        report.left_out.push(format!("test: {number} tests of other crates, which need a server"));
    }
    report
}

/// Every case by every backend.
fn cases(options: &Options) -> Report {
    if options.quick {
        return Report::left_out("table: not all suites ran");
    }
    match table::check() {
        Ok(()) => Report::of(true),
        Err(problem) => Report::failed(&problem),
    }
}

fn doctest(options: &Options) -> Report {
    let mut args = words("--workspace --all-features --doc");
    let mut left_out = Vec::new();
    if options.quick {
        for name in SERVER_CRATES {
            args.extend(["--exclude", name]);
            left_out.push(format!("doctest: {name}"));
        }
    }
    run_tests("doctest", &args, &left_out)
}

/// Runs `cargo test` and says one line for each binary; all that it printed where it failed.
pub(crate) fn run_tests(name: &str, args: &[&str], left_out: &[String]) -> Report {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(args);
    let mut report = Report::of(true);
    report.left_out.extend_from_slice(left_out);
    let mut reader = Reader::default();
    let mut say = |suite: Suite| {
        clear_progress();
        table::note(&suite);
        let counts = suite.counts();
        report.tests.add(counts);
        report.left_out.extend(suite.ignored().map(|test| format!("{name}: {test}")));
        if suite.ok() {
            if counts.passed + counts.ignored > 0 {
                let took = suite.took.as_secs_f64();
                println!("     {:4} passed  {took:6.2} s  {}", counts.passed, suite.title);
            }
        } else {
            println!("     FAILED  {}", suite.title);
            suite.complaints().for_each(|line| println!("{line}"));
        }
    };
    let finished = process::run(name, command, |line| {
        if let Some(suite) = reader.line(line) {
            say(suite);
        }
    });
    if let Some(suite) = reader.end() {
        say(suite);
    }
    if !finished.ok() {
        report.outcome = Outcome::Failed;
        if report.tests.failed == 0 {
            // It wasn't a test: it didn't build, say.
            finished.show();
        }
        finished.explain();
    } else if report.tests.failed > 0 {
        report.outcome = Outcome::Failed;
    }
    report
}

fn run_examples(options: &Options) -> Report {
    if examples::ALL.is_empty() {
        return Report::left_out("there are none");
    }
    let mut report = Report::of(true);
    for example in examples::ALL {
        let title = format!("{} {}", example.name, example.args.join(" "));
        let title = title.trim();
        if options.quick && example.needs_server {
            report.left_out.push(format!("examples: {title}, which needs a server"));
            continue;
        }
        let mut command = cargo(&["run", "--quiet", "--package", "lockwright", "--example"]);
        command.args([example.name, "--features", example.features, "--"]).args(example.args);
        let log = format!("example-{}", title.replace(|c: char| !c.is_alphanumeric(), "-"));
        let finished = process::run(&log, command, |_| {});
        let closed = finished.lines.iter().any(|line| plain(line).contains(example.closing));
        if finished.ended(example.ends_well) && closed {
            println!("     ok    {title}");
        } else {
            println!("     FAILED  {title}");
            finished.show();
            if !closed {
                println!("     it did not print: {}", example.closing);
            }
            finished.explain();
            report.outcome = Outcome::Failed;
        }
    }
    report
}

fn tree(_: &Options) -> Report {
    let args = "tree --edges normal --prefix none --package lockwright --no-default-features \
                --features memory";
    let finished = process::run("tree", cargo(&words(args)), |_| {});
    if !finished.ok() {
        finished.show();
        finished.explain();
        return Report::of(false);
    }
    let crates: BTreeSet<String> = finished
        .lines
        .iter()
        .map(|line| plain(line).split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .filter(|name| !name.is_empty())
        .collect();
    let list = || crates.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if crates.is_empty() || crates.len() > LEANEST {
        return Report::failed(&format!(
            "lockwright with memory alone is {} crates, {LEANEST} at most are promised: {}",
            crates.len(),
            list()
        ));
    }
    for name in crates.iter().filter_map(|name| name.split_once(' ')).map(|(name, _)| name) {
        if CLIENT_LIBRARIES.contains(&name) {
            return Report::failed(&format!("lockwright with memory alone depends on {name}"));
        }
    }
    println!("     lockwright with memory alone: {} crates", crates.len());
    Report::of(true)
}

/// Runs each bench once, built as tests are: that it runs is what is asked here, not how fast.
fn benches(_: &Options) -> Report {
    let mut names = Vec::new();
    if let Ok(entries) = fs::read_dir(crate::root().join("benches")) {
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if let Some(name) = path.file_stem().and_then(|name| name.to_str())
                && path.extension().is_some_and(|extension| extension == "rs")
            {
                names.push(name.to_owned());
            }
        }
    }
    if names.is_empty() {
        return Report::left_out("there are none");
    }
    let mut command = cargo(&words("test --workspace --all-features"));
    for name in &names {
        command.args(["--bench", name]);
    }
    Report::of(quietly("benches", command).ok())
}

fn words(args: &str) -> Vec<&str> {
    args.split_whitespace().collect()
}
