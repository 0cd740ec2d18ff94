use std::process::ExitCode;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use crate::options::Options;
use crate::report::{Counts, Outcome, Report};
use crate::steps::{self, Step, When};
use crate::tmp::TmpFolder;
use crate::usage;

pub(crate) fn main(args: &[String]) -> ExitCode {
    // Each binary runs several tests at once, so a third parallel binary would hardly save time.
    let mut options = Options { at_a_time: 2, ..Options::default() };
    let mut chosen: Vec<&Step> = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--quick" {
            options.quick = true;
        } else if arg == "--at-a-time" {
            let number = args.next().map_or("", String::as_str);
            options.at_a_time = match number.parse() {
                Ok(number @ 1..) => number,
                _ => return usage::error(&format!("`--at-a-time` of `{number}` binaries")),
            };
        } else if matches!(arg.as_str(), "help" | "-h" | "--help") {
            print!("{}", usage::help());
            return ExitCode::SUCCESS;
        } else if let Some(step) = steps::ALL.iter().find(|step| step.name == arg) {
            chosen.push(step);
        } else {
            return usage::error(&format!("`test` has no step or option `{arg}`"));
        }
    }
    let all = chosen.is_empty();
    if all {
        chosen.extend(steps::ALL);
    }
    chosen.sort_by_key(|step| step.when != When::First);

    let _tmp_folder = TmpFolder::begin();
    let begun = Instant::now();
    let mut done = run(&chosen, &options);
    done.sort_by_key(|done| chosen.iter().position(|step| step.name == done.step));
    summary(&done, begun.elapsed(), &options)
}

fn run(chosen: &[&'static Step], options: &Options) -> Vec<Done> {
    let is_parallel = |step: &&Step| matches!(step.when, When::Parallel | When::WithTests);
    let first = chosen.iter().position(is_parallel).unwrap_or(chosen.len());
    let mut done = run_in_turn(&chosen[..first], options);
    if done.iter().any(|done| done.stops) {
        return done;
    }
    let [in_turn, parallel, with_tests] =
        [When::InTurn, When::Parallel, When::WithTests].map(|when| {
            chosen[first..].iter().copied().filter(|it| it.when == when).collect::<Vec<_>>()
        });
    done.extend(thread::scope(|scope| {
        let parallel = scope.spawn(move || run_in_turn(&parallel, options));
        let with_tests = scope.spawn(move || {
            options.tests_are_built.wait();
            let _running = options.background.lock().unwrap_or_else(PoisonError::into_inner);
            run_in_turn(&with_tests, options)
        });
        let mut done = run_in_turn(&in_turn, options);
        let _ = options.tests_are_built.set(()); // ends the wait if no step built tests
        done.extend(parallel.join().expect("a step doesn't panic"));
        done.extend(with_tests.join().expect("a step doesn't panic"));
        done
    }));
    done
}

fn run_in_turn(steps: &[&'static Step], options: &Options) -> Vec<Done> {
    let mut done = Vec::new();
    for step in steps {
        println!("==== {}: {}", step.name, step.what);
        let began = Instant::now();
        let report = Report::of_result((step.run)(options));
        let stops = report.outcome == Outcome::Failed && step.when == When::First;
        let now = Done { step: step.name, took: began.elapsed(), report, stops };
        println!("     {} {} after {}", now.step, now.verdict(), seconds(now.took));
        done.push(now);
        if stops {
            break;
        }
    }
    done
}

struct Done {
    step: &'static str,
    took: Duration,
    report: Report,
    stops: bool,
}

impl Done {
    fn verdict(&self) -> &'static str {
        match self.report.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::LeftOut(_) => "left out",
        }
    }

    fn left_out(&self) -> Vec<String> {
        let mut left_out = self.report.left_out.clone();
        if let Outcome::LeftOut(reason) = &self.report.outcome {
            left_out.push(format!("{}: {reason}", self.step));
        }
        left_out
    }
}

fn summary(done: &[Done], took: Duration, options: &Options) -> ExitCode {
    let mut counts = Counts::default();
    println!("\n  step       outcome         time   tests");
    for done in done {
        let Done { step, took, report, .. } = done;
        let tests = match report.tests {
            Counts { passed: 0, failed: 0, .. } => String::new(),
            Counts { passed, failed: 0, .. } => passed.to_string(),
            Counts { passed, failed, .. } => format!("{passed}, and {failed} failed"),
        };
        let verdict = done.verdict();
        println!("  {step:10} {verdict:10} {:>9}   {tests}", seconds(*took));
        counts.add(report.tests);
        if report.outcome == Outcome::Failed && report.tests.failed == 0 {
            counts.failed += 1;
        }
    }
    println!("  total      {:>20}", seconds(took));

    let left_out: Vec<String> = done.iter().flat_map(|done| done.left_out()).collect();
    if !left_out.is_empty() {
        let because = if options.quick { " (--quick leaves out tests with servers)" } else { "" };
        println!("\nNOT run{because}:");
        for what in left_out {
            println!("  {what}");
        }
    }
    let retried: Vec<&str> =
        done.iter().flat_map(|done| &done.report.retried).map(String::as_str).collect();
    if !retried.is_empty() {
        println!("\nRETRIED, because each timed out as shown. They passed when they ran alone:");
        for test in retried {
            println!("  {test}");
        }
    }
    println!("\n{}", last_line(done, counts));
    if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn last_line(done: &[Done], counts: Counts) -> String {
    let mut line = format!("{} passed, {} failed", counts.passed, counts.failed);
    if done.iter().all(|done| done.report.tests == Counts::default()) {
        let steps = ["passed", "FAILED", "left out"].map(|verdict| {
            let steps = done.iter().filter(|done| done.verdict() == verdict).count();
            (steps > 0).then(|| format!("{steps} {verdict}"))
        });
        let steps: Vec<String> = steps.into_iter().flatten().collect();
        line += &format!(" (no tests; of the steps {})", steps.join(", "));
    }
    let failed: Vec<&str> =
        done.iter().filter(|done| done.verdict() == "FAILED").map(|done| done.step).collect();
    if !failed.is_empty() {
        line += &format!("; failed steps: {}", failed.join(", "));
    }
    line
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_steps_where_there_are_no_tests() {
        let done = |report| Done { step: "x", took: Duration::ZERO, report, stops: false };
        let mut all = vec![done(Report::of(true)), done(Report::of(true))];
        assert_eq!(
            last_line(&all, Counts::default()),
            "0 passed, 0 failed (no tests; of the steps 2 passed)"
        );
        all.extend([done(Report::of(false)), done(Report::left_out("why"))]);
        let counts = Counts { failed: 1, ..Counts::default() };
        assert_eq!(
            last_line(&all, counts),
            "0 passed, 1 failed (no tests; of the steps 2 passed, 1 FAILED, 1 left out); failed steps: \
             x"
        );
        let mut tested = Report::of(true);
        tested.tests.passed = 7;
        all.push(done(tested));
        let counts = Counts { passed: 7, failed: 1, ..Counts::default() };
        assert_eq!(last_line(&all, counts), "7 passed, 1 failed; failed steps: x");
    }
}
