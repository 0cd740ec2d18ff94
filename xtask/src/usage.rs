use std::process::ExitCode;

use crate::steps;

pub(crate) fn error(problem: &str) -> ExitCode {
    eprint!("cargo xtask: {problem}\n\n{}", help());
    ExitCode::from(2)
}

pub(crate) fn help() -> String {
    let mut text = String::from(
        "\
Usage: cargo xtask TASK

Tasks:
  test [OPTION...] [STEP...]  run all checks, or only these steps
       --quick                only tests without servers; lists the others at the end
       --at-a-time NUMBER     how many test binaries run in parallel; default 2
  cost                        the step `cost` of `test`
       --record               write the present cost of hot paths as the baseline
  bench [OPTION...]           measure every backend, its baseline and other libraries, for an hour
                              and a half; `cargo xtask bench --help` lists the options
  chaos [OPTION...]           random faults on real servers, and a check of what clients observed;
                              `cargo xtask chaos --help` lists the options
  interop                     the step `interop` of `test`, with its preparations
  peers                       build the other libraries that the benchmarks measure, and report
                              which can't be built, and why
  help                        print this text

Steps of `test`, in order:
",
    );
    for step in steps::ALL {
        text += &format!("  {:10} {}\n", step.name, step.what);
    }
    text += "
The last line is `N passed, N failed`. It counts tests, or steps if no step has tests. The exit code
is 0 if nothing failed, 1 if something failed, 2 if the command line was invalid. The full output is
in target/xtask/.
";
    text
}
