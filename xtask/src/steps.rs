use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::sync::PoisonError;

use serde_json::Value;

use crate::examples::Example;
use crate::libtest::Reader;
use crate::options::Options;
use crate::process::{self, Finished, cargo, cargo_in_background, clear_progress, quietly};
use crate::report::{Outcome, Report};
use crate::run_tests::run_tests;
use crate::{
    binaries, chaos, config, cost, examples, folders, pages, parallel, prose, servers, table, text,
    versions,
};
use When::{First, InTurn, Parallel, WithTests};

type Run = fn(&Options) -> Result<Report, String>;

pub(crate) struct Step {
    pub(crate) when: When,
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: Run,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Before all other steps. A failure ends the run.
    First,
    InTurn,
    /// In parallel with later steps: the step waits for the network.
    Parallel,
    /// In parallel with the tests, at low priority.
    WithTests,
}

const fn step(when: When, name: &'static str, what: &'static str, run: Run) -> Step {
    Step { when, name, what, run }
}

/// The steps that fail fastest are first.
pub(crate) const ALL: &[Step] = &[
    step(First, "servers", "the programs that the tests need are installed", needs),
    step(InTurn, "fmt", "formatting", fmt),
    step(InTurn, "pages", "links and required parts of the documentation", links),
    step(InTurn, "prose", "the words that docs/src/style.md rules out", prose::step),
    step(InTurn, "tree", "limits on the number of dependencies", tree),
    step(InTurn, "publish", "each crate can be packaged", publish),
    step(Parallel, "download", "newer versions of the servers", versions::download),
    step(WithTests, "clippy", "lints, warnings as errors", clippy),
    step(WithTests, "features", "each feature of the facade alone", features),
    step(WithTests, "doc", "the API documentation, without warnings", doc),
    step(WithTests, "cost", "the hot paths' instructions compared with the baseline", cost::step),
    step(InTurn, "test", "all tests", test),
    step(InTurn, "missing", "the errors for missing features", missing),
    step(InTurn, "doctest", "the examples in doc comments", doctest),
    step(InTurn, "examples", "the examples run and print their result", run_examples),
    step(InTurn, "benches", "each benchmark runs once", benches),
    // `examples` waits for the steps `WithTests`, so these don't disturb the steps below.
    step(InTurn, "versions", "the conformance suite on newer server versions", versions::step),
    step(InTurn, "chaos", "a few schedules of random faults on each backend", chaos::step),
    step(InTurn, "table", "the table of conformance cases and backends", cases),
    step(InTurn, "interop", "mutual exclusion with other programs", run_interop),
];

/// The most crates that `lockwright` may need with only the memory backend.
const LEANEST: usize = 30;

const CLIENT_LIBRARIES: &[&str] = &["redis", "sqlx", "sqlx-core", "libsqlite3-sys"];

/// The command-line tool's permitted `-sys` crates.
const BOUND: &[&str] = &["libsqlite3-sys", "linux-raw-sys"];

/// Crates that need more than a C compiler to build.
const BUILD_TOOLS: &[&str] =
    &["bindgen", "cmake", "cxx-build", "prost-build", "protobuf-src", "tonic-prost-build"];

const INTEROP_TESTS: &str = "conformance/interop/tests";

fn needs(options: &Options) -> Result<Report, String> {
    servers::provide(!options.quick)?;
    let mut report = Report::of(true);
    if options.quick {
        report.left_out.push("servers: none was searched or installed".to_owned());
    }
    Ok(report)
}

fn passed(log: &str, command: Command) -> Result<Report, String> {
    quietly(log, command).map(|_| Report::of(true))
}

fn fmt(_: &Options) -> Result<Report, String> {
    let colour = if process::colours() { "always" } else { "never" };
    passed("fmt", cargo(&["fmt", "--all", "--check", "--", "--color", colour]))
}

fn links(_: &Options) -> Result<Report, String> {
    let problems = pages::check(&folders::root());
    let problems = problems.map_err(|error| format!("the pages can't be read: {error}"))?;
    Report::unless(problems.join("\n"))
}

fn clippy(_: &Options) -> Result<Report, String> {
    // Cargo repeats the warnings of crates that earlier steps compiled.
    without_warnings("clippy", "build --workspace --all-targets --all-features")
}

fn doc(_: &Options) -> Result<Report, String> {
    without_warnings("doc", "doc --no-deps --workspace --all-features")
}

fn without_warnings(log: &str, args: &str) -> Result<Report, String> {
    let finished = quietly(log, cargo_in_background(&words(args)))?;
    let warned = finished.lines.iter().any(|line| line.starts_with("warning:"));
    if warned {
        finished.show();
        finished.explain();
    }
    Ok(Report::of(!warned))
}

fn features(options: &Options) -> Result<Report, String> {
    let names = pages::features_with_code(&folders::root().join("Cargo.toml"));
    let names = names.map_err(|error| format!("Cargo.toml can't be read: {error}"))?;
    for name in [String::new()].into_iter().chain(names) {
        let args = "clippy --package lockwright --no-default-features --features";
        let mut command = cargo_in_background(&words(args));
        command.args([&name, "--", "-D", "warnings"]);
        let log = if name.is_empty() { "features-none" } else { &format!("features-{name}") };
        let failed = |_| format!("the facade with --features '{name}' alone FAILED");
        quietly(log, command).map_err(failed)?;
    }
    let mut build = cargo_in_background(&["test", "--no-run"]);
    build.args(missing_args(options));
    quietly("features-test", build)?;
    passed("features-examples", examples::build_embedded())
}

fn missing_args(options: &Options) -> Vec<&'static str> {
    let mut args = words(
        "--package lockwright --no-default-features --features \
         lockwright/memory,lockwright/sqlite --test facade",
    );
    if !options.quick {
        // These tests need `lockwright-sql` without its feature `tls`.
        args.extend(words(
            "--package lockwright-sql --features lockwright-sql/mysql,lockwright-sql/postgres \
             --test tls",
        ));
    }
    args
}

fn missing(options: &Options) -> Result<Report, String> {
    let mut report = run_tests("missing", &missing_args(options), options, |_| true)?;
    if options.quick {
        report.left_out.push("missing: servers that require TLS, without it".to_owned());
    }
    Ok(report)
}

fn test(options: &Options) -> Result<Report, String> {
    table::begin().map_err(|error| format!("target/conformance can't be written: {error}"))?;
    let mut args = words("--workspace --all-features --tests --exclude");
    args.push(config::INTEROP);
    run_tests("test", &args, options, |_| true)
}

fn cases(options: &Options) -> Result<Report, String> {
    if options.quick {
        return Ok(Report::left_out("not all suites ran"));
    }
    table::check().map(|()| Report::of(true))
}

fn doctest(options: &Options) -> Result<Report, String> {
    let mut args = words("test --workspace --all-features --doc");
    let mut report = Report::of(true);
    if options.quick {
        for package in config::packages_with_servers() {
            args.extend(["--exclude", package]);
            report.left_out.push(format!("doctest: {package}"));
        }
    }
    let mut reader = Reader::default();
    let mut suites = Vec::new();
    let finished = process::run("doctest", cargo(&args), process::WITH_BUILDING, |line| {
        suites.extend(reader.line(line));
    });
    suites.extend(reader.end());
    for suite in suites {
        report.add(binaries::said("doctest", &suite));
    }
    if !finished.ok() {
        report.outcome = Outcome::Failed;
        if report.tests.failed == 0 {
            finished.show();
        }
        finished.explain();
    }
    Ok(report)
}

fn run_examples(options: &Options) -> Result<Report, String> {
    // The background steps' compilers would delay the examples beyond their limits.
    drop(options.background.lock().unwrap_or_else(PoisonError::into_inner));
    let mut report = Report::of(true);
    let (on_servers, embedded): (Vec<_>, Vec<_>) =
        examples::ALL.iter().partition(|example| example.needs_test_features);
    quietly("examples-embedded", examples::build_embedded())?;
    parallel::run(options.at_a_time, embedded, Example::run, |(example, finished)| {
        report.add(judged(example, &finished));
    });
    if options.quick {
        let left_out = |it: &Example| format!("examples: {}, which needs a server", it.title());
        report.left_out.extend(on_servers.into_iter().map(left_out));
        return Ok(report);
    }
    quietly("examples", examples::build())?;
    parallel::run(options.at_a_time, on_servers, Example::run, |(example, finished)| {
        report.add(judged(example, &finished));
    });
    Ok(report)
}

fn judged(example: &Example, finished: &Finished) -> Report {
    let title = example.title();
    let closed = finished.lines.iter().any(|line| line.contains(example.closing));
    let did = finished.ended(example.ends_well) && closed;
    clear_progress();
    if did {
        println!("     ok    {title}");
    } else {
        println!("     FAILED  {title}");
        finished.show();
        if !closed {
            println!("     it did not print: {}", example.closing);
        }
        finished.explain();
    }
    Report::of(did)
}

fn crates(log: &str, args: &str) -> Result<BTreeSet<String>, String> {
    // A download's message would count as a crate.
    let command = cargo(&words(&format!("tree --quiet --prefix none {args}")));
    let lines = quietly(log, command)?.lines;
    let name = |line: &String| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    Ok(lines.iter().map(name).filter(|name| !name.is_empty()).collect())
}

/// Doesn't build the packages, which takes minutes. The step `tree` has downloaded what `--offline`
/// needs.
fn publish(_: &Options) -> Result<Report, String> {
    let metadata = quietly("metadata", cargo(&words("metadata --no-deps --format-version 1")))?;
    let metadata = metadata.lines.iter().find(|line| line.starts_with('{'));
    let metadata: Value =
        serde_json::from_str(metadata.map_or("", String::as_str)).map_err(text)?;
    let mut args = words("package --offline --no-verify --allow-dirty");
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if package["publish"].is_null() {
            args.extend(["--package", package["name"].as_str().unwrap_or_default()]);
        }
    }
    passed("publish", cargo(&args))
}

fn tree(_: &Options) -> Result<Report, String> {
    let args = "--edges normal --package lockwright --no-default-features --features memory";
    let crates_of_facade = crates("tree", args)?;
    if crates_of_facade.is_empty() || crates_of_facade.len() > LEANEST {
        let list = crates_of_facade.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(format!(
            "lockwright with memory alone is {} crates, {LEANEST} at most are promised: {list}",
            crates_of_facade.len(),
        ));
    }
    if let Some(name) = names(&crates_of_facade).find(|name| CLIENT_LIBRARIES.contains(name)) {
        return Err(format!("lockwright with memory alone depends on {name}"));
    }
    println!("     lockwright with memory alone: {} crates", crates_of_facade.len());

    let args = "--edges normal,build --package lockwright-cli";
    let crates_of_command = crates("tree-command", args)?;
    let needs_more =
        |name: &&str| BUILD_TOOLS.contains(name) || name.ends_with("-sys") && !BOUND.contains(name);
    if crates_of_command.is_empty() {
        return Err("the command consists of no crates".to_owned());
    }
    if let Some(name) = names(&crates_of_command).find(needs_more) {
        return Err(format!(
            "the command with default features needs more than a C compiler to build: {name}"
        ));
    }
    let count = crates_of_command.len();
    println!("     the command: {count} crates, none needs more than a C compiler");
    Ok(Report::of(true))
}

fn names(crates: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    crates.iter().filter_map(|name| name.split_once(' ')).map(|(name, _)| name)
}

fn benches(_: &Options) -> Result<Report, String> {
    let files = fs::read_dir(folders::root().join("benches")).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = files.filter_map(|file| Some(format!("--bench={}", file.strip_suffix(".rs")?)));
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return Ok(Report::left_out("there are none"));
    }
    // The labels of `metrics` allocate, so the features are the default's.
    let mut command = cargo(&words("test --package lockwright"));
    command.args(names);
    passed("benches", command)
}

fn run_interop(options: &Options) -> Result<Report, String> {
    if options.quick {
        return Ok(Report::left_out("the other programs lock on servers"));
    }
    let tests = fs::read_dir(folders::root().join(INTEROP_TESTS))
        .map_err(|error| format!("{INTEROP_TESTS} can't be read: {error}"))?;
    let tests: Vec<_> = tests.flatten().map(|test| test.path().with_extension("")).collect();
    let mut args = words("--workspace --all-features");
    for test in &tests {
        args.extend(test.file_name().and_then(OsStr::to_str).iter().flat_map(|it| ["--test", it]));
    }
    // `--test` also selects tests of other crates with the same name.
    run_tests("interop", &args, options, |binary| binary.package == config::INTEROP)
}

fn words(args: &str) -> Vec<&str> {
    args.split_whitespace().collect()
}
