use std::collections::BTreeSet;
use std::fs;
use std::sync::PoisonError;

use crate::examples::Example;
use crate::libtest::Reader;
use crate::options::Options;
use crate::process::{self, Finished, cargo, cargo_in_background, clear_progress, quietly};
use crate::report::{Outcome, Report};
use crate::run_tests::run_tests;
use crate::{
    binaries, chaos, config, cost, examples, folders, interop, pages, parallel, prose, servers,
    table, versions,
};

pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// True if a failure ends the run.
    pub(crate) stops: bool,
    pub(crate) when: When,
    pub(crate) run: fn(&Options) -> Report,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    InTurn,
    /// In parallel with later steps, because the step waits for the network.
    AtOnce,
    /// In parallel with the tests, at low priority.
    WithTests,
}

impl Step {
    const fn of(name: &'static str, what: &'static str, run: fn(&Options) -> Report) -> Self {
        Self { name, what, stops: false, when: When::InTurn, run }
    }

    const fn at_once(self) -> Self {
        Self { when: When::AtOnce, ..self }
    }

    const fn with_tests(self) -> Self {
        Self { when: When::WithTests, ..self }
    }
}

/// The steps that fail fastest are first.
pub(crate) const ALL: &[Step] = &[
    Step {
        stops: true,
        ..Step::of("servers", "the programs that the tests need are installed", needs)
    },
    Step::of("fmt", "formatting", fmt),
    Step::of("pages", "links and required parts of the documentation", links),
    Step::of("prose", "the words that docs/src/style.md rules out", prose::step),
    Step::of("tree", "limits on the number of dependencies", tree),
    Step::of("download", "newer versions of the servers", versions::download).at_once(),
    Step::of("clippy", "lints, warnings as errors", clippy).with_tests(),
    Step::of("features", "each feature of the facade alone", features).with_tests(),
    Step::of("doc", "the API documentation, without warnings", doc).with_tests(),
    Step::of("cost", "the hot paths' instructions compared with the baseline", cost::step)
        .with_tests(),
    Step::of("test", "all tests", test),
    Step::of("missing", "the errors for missing features", missing),
    Step::of("doctest", "the examples in doc comments", doctest),
    Step::of("examples", "the examples run and print their result", run_examples),
    Step::of("benches", "each benchmark runs once", benches),
    // By now, the steps in parallel with the tests have usually ended.
    Step::of("versions", "the conformance suite on newer versions of the servers", versions::step),
    Step::of("chaos", "a few schedules of random faults on each backend", chaos::step),
    Step::of("table", "the table of conformance cases and backends", cases),
    Step::of("interop", "mutual exclusion with other programs", interop::step),
];

/// The maximum number of crates that the facade needs with only the memory backend.
const LEANEST: usize = 30;

const CLIENT_LIBRARIES: &[&str] = &["redis", "sqlx", "sqlx-core", "libsqlite3-sys"];

/// The permitted `-sys` crates of the command-line tool.
const BOUND: &[&str] = &["libsqlite3-sys", "linux-raw-sys"];

/// Crates that need more than a C compiler to build.
const BUILD_TOOLS: &[&str] =
    &["bindgen", "cmake", "cxx-build", "prost-build", "protobuf-src", "tonic-prost-build"];

fn needs(options: &Options) -> Report {
    let mut report = match servers::provide(!options.quick) {
        Ok(()) => Report::of(true),
        Err(problem) => Report::failed(&problem),
    };
    if options.quick {
        report.left_out.push("servers: none was searched or installed".to_owned());
    }
    report
}

fn fmt(_: &Options) -> Report {
    let colour = if process::colours() { "always" } else { "never" };
    Report::of(quietly("fmt", cargo(&["fmt", "--all", "--check", "--", "--color", colour])).ok())
}

fn links(_: &Options) -> Report {
    match pages::check(&folders::root()) {
        Ok(problems) if problems.is_empty() => Report::of(true),
        Ok(problems) => Report::failed(&problems.join("\n")),
        Err(error) => Report::failed(&format!("the pages can't be read: {error}")),
    }
}

fn clippy(_: &Options) -> Report {
    let args = "clippy --workspace --all-targets --all-features -- -D warnings";
    Report::of(quietly("clippy", cargo_in_background(&words(args))).ok())
}

fn doc(_: &Options) -> Report {
    let mut command = cargo_in_background(&words("doc --no-deps --workspace --all-features"));
    command.env("RUSTDOCFLAGS", "-D warnings");
    let finished = quietly("doc", command);
    // `-D warnings` doesn't apply to cargo's own warnings.
    let warned = finished.lines.iter().any(|line| line.starts_with("warning:"));
    if finished.ok() && warned {
        finished.show();
        finished.explain();
    }
    Report::of(finished.ok() && !warned)
}

fn features(options: &Options) -> Report {
    let names = match pages::features_with_code(&folders::root().join("Cargo.toml")) {
        Ok(names) => names,
        Err(error) => return Report::failed(&format!("Cargo.toml can't be read: {error}")),
    };
    for name in [String::new()].into_iter().chain(names) {
        let args = "clippy --package lockwright --no-default-features --features";
        let mut command = cargo_in_background(&words(args));
        command.args([&name, "--", "-D", "warnings"]);
        let log = if name.is_empty() { "features-none" } else { &format!("features-{name}") };
        if !quietly(log, command).ok() {
            return Report::failed(&format!("the facade with --features '{name}' alone FAILED"));
        }
    }
    let mut build = cargo_in_background(&["test", "--no-run"]);
    build.args(missing_args(options));
    let examples = examples::build_embedded();
    Report::of(quietly("features-test", build).ok() && quietly("features-examples", examples).ok())
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

fn missing(options: &Options) -> Report {
    let mut report = run_tests("missing", &missing_args(options), options);
    if options.quick {
        report.left_out.push("missing: servers that require TLS, without it".to_owned());
    }
    report
}

fn test(options: &Options) -> Report {
    if let Err(error) = table::begin() {
        return Report::failed(&format!("target/conformance can't be written: {error}"));
    }
    let mut args = words("--workspace --all-features --tests --exclude");
    args.push(config::INTEROP);
    run_tests("test", &args, options)
}

fn cases(options: &Options) -> Report {
    if options.quick {
        return Report::left_out("not all suites ran");
    }
    match table::check() {
        Ok(()) => Report::of(true),
        Err(problem) => Report::failed(&problem),
    }
}

fn doctest(options: &Options) -> Report {
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
    report
}

fn run_examples(options: &Options) -> Report {
    if examples::ALL.is_empty() {
        return Report::left_out("there are none");
    }
    // Wait for the background steps, which compile: the examples have time limits.
    drop(options.background.lock().unwrap_or_else(PoisonError::into_inner));
    let mut report = Report::of(true);
    let (on_servers, embedded): (Vec<_>, Vec<_>) =
        examples::ALL.iter().partition(|example| example.needs_server);
    if !quietly("examples-embedded", examples::build_embedded()).ok() {
        return Report::of(false);
    }
    parallel::run(options.at_a_time, embedded, Example::run, |(example, finished)| {
        report.add(judged(example, &finished))
    });
    if options.quick {
        let titles = on_servers.iter().map(|example| example.title());
        report
            .left_out
            .extend(titles.map(|title| format!("examples: {title}, which needs a server")));
    } else if quietly("examples", examples::build()).ok() {
        parallel::run(options.at_a_time, on_servers, Example::run, |(example, finished)| {
            report.add(judged(example, &finished));
        });
    } else {
        return Report::of(false);
    }
    report
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

fn crates(log: &str, args: &str) -> Option<BTreeSet<String>> {
    // Without `--quiet`, a download's message would count as a crate.
    let command = cargo(&words(&format!("tree --quiet --prefix none {args}")));
    let finished = process::run(log, command, process::WITH_BUILDING, |_| {});
    if !finished.ok() {
        finished.show();
        finished.explain();
        return None;
    }
    let names = finished
        .lines
        .iter()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    Some(names.filter(|name| !name.is_empty()).collect())
}

fn tree(_: &Options) -> Report {
    let args = "--edges normal --package lockwright --no-default-features --features memory";
    let Some(crates_of_facade) = crates("tree", args) else { return Report::of(false) };
    if crates_of_facade.is_empty() || crates_of_facade.len() > LEANEST {
        let list = crates_of_facade.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Report::failed(&format!(
            "lockwright with memory alone is {} crates, {LEANEST} at most are promised: {list}",
            crates_of_facade.len(),
        ));
    }
    if let Some(name) = names(&crates_of_facade).find(|name| CLIENT_LIBRARIES.contains(name)) {
        return Report::failed(&format!("lockwright with memory alone depends on {name}"));
    }
    println!("     lockwright with memory alone: {} crates", crates_of_facade.len());

    let args = "--edges normal,build --package lockwright-cli";
    let Some(crates_of_command) = crates("tree-command", args) else { return Report::of(false) };
    let needs_more =
        |name: &&str| BUILD_TOOLS.contains(name) || name.ends_with("-sys") && !BOUND.contains(name);
    if crates_of_command.is_empty() {
        return Report::failed("the command consists of no crates");
    }
    if let Some(name) = names(&crates_of_command).find(needs_more) {
        return Report::failed(&format!(
            "the command with default features needs more than a C compiler to build: {name}"
        ));
    }
    println!(
        "     the command: {} crates, none needs more than a C compiler",
        crates_of_command.len()
    );
    Report::of(true)
}

fn names(crates: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    crates.iter().filter_map(|name| name.split_once(' ')).map(|(name, _)| name)
}

fn benches(_: &Options) -> Report {
    let mut names = Vec::new();
    if let Ok(entries) = fs::read_dir(folders::root().join("benches")) {
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
