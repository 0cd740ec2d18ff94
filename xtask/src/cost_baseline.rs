use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

const TOLERANCE: f64 = 0.03;

/// The tolerated difference in system calls per run. Nearly all runs make the same calls, so a
/// change of the path adds or removes about a whole one.
const TOLERANCE_OF_CALLS: f64 = 0.1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Costs {
    /// The compiler, target, C library and vector extensions, which affect the counts.
    pub(crate) built: BTreeMap<String, String>,
    pub(crate) paths: Vec<Path>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Path {
    name: String,
    instructions: f64,
    /// System calls per run; under valgrind, including each reading of the clock.
    calls: f64,
}

impl Costs {
    pub(crate) fn built_differs_from(&self, recorded: &Self) -> Option<String> {
        self.built.iter().find_map(|(what, here)| {
            let there = recorded.built.get(what).map_or("unknown", String::as_str);
            (here != there)
                .then(|| format!("the {what} is {here}, and was {there} when it was recorded"))
        })
    }
}

impl Path {
    pub(crate) fn new(name: &str, (instructions, calls): (u64, u64), times: u64) -> Self {
        let each = |sum: u64, digits: f64| (digits * sum as f64 / times as f64).round() / digits;
        let (instructions, calls) = (each(instructions, 10.0), each(calls, 100.0));
        Self { name: name.to_owned(), instructions, calls }
    }
}

pub(crate) fn table(paths: &[Path]) -> String {
    let width = paths.iter().map(|path| path.name.len()).max().unwrap_or_default();
    let mut text = format!("     {:width$}  instructions  system calls\n", "each time");
    for Path { name, instructions, calls } in paths {
        let _ = writeln!(text, "     {name:width$}  {instructions:12.1}  {calls:12.2}");
    }
    text
}

const RECORD_AGAIN: &str = "record it again: cargo xtask cost --record";

pub(crate) fn compare(now: &[Path], recorded: &[Path]) -> Vec<String> {
    let find = |paths: &[Path], name: &str| paths.iter().find(|path| path.name == name).cloned();
    let of_now = now.iter().filter_map(|path| match find(recorded, &path.name) {
        Some(recorded) => problem(path, &recorded),
        None => Some(format!("{}: not in the baseline; {RECORD_AGAIN}", path.name)),
    });
    let gone = recorded.iter().filter(|path| find(now, &path.name).is_none()).map(|path| {
        format!("{}: in the baseline, but no longer measured; {RECORD_AGAIN}", path.name)
    });
    of_now.chain(gone).collect()
}

fn problem(now: &Path, recorded: &Path) -> Option<String> {
    let part = now.instructions / recorded.instructions - 1.0;
    let calls = now.calls - recorded.calls;
    let change = if part > TOLERANCE || calls > TOLERANCE_OF_CALLS {
        "the cost increased. If that is intended, explain it in the commit, and"
    } else if part < -TOLERANCE || calls < -TOLERANCE_OF_CALLS {
        "the cost decreased. To keep that,"
    } else {
        return None;
    };
    Some(format!(
        "{}: {:.1} instructions, {:.1} are recorded ({:+.1} %, {:.0} % pass), and {:.2} system \
         calls, {:.2} are recorded (each reading of the clock is one); {change} {RECORD_AGAIN}",
        now.name,
        now.instructions,
        recorded.instructions,
        part * 100.0,
        TOLERANCE * 100.0,
        now.calls,
        recorded.calls,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Vec<Path> {
        let acquire = Path::new("acquire + release, fixed", (562_100, 1_000), 200);
        vec![acquire, Path::new("check", (14_060, 200), 200)]
    }

    fn with(instructions: f64, calls: f64) -> String {
        let mut now = paths();
        now[0].instructions *= instructions;
        now[0].calls += calls;
        compare(&now, &paths()).join("\n")
    }

    #[test]
    fn difference_beyond_the_tolerance_is_reported() {
        for (instructions, calls, expected) in [
            (1.0, 0.0, &[""][..]),
            (1.025, 0.05, &[""]),
            (0.975, -0.05, &[""]),
            (1.05, 0.0, &["acquire + release, fixed: ", "+5.0 %", "the cost increased"]),
            (1.005, 1.0, &["6.00 system calls, 5.00 are recorded", "the cost increased"]),
            (0.9, 0.0, &["-10.0 %", "the cost decreased", "record it again"]),
            (1.0, -1.0, &["the cost decreased", "record it again"]),
            (0.9, 1.0, &["the cost increased"]),
        ] {
            let said = with(instructions, calls);
            assert!(expected.iter().all(|part| said.contains(part)), "{said}");
            assert_eq!(said.is_empty(), expected == [""], "{said}");
        }
    }

    #[test]
    fn path_on_one_side_only_is_reported() {
        let [one, two] = [&paths()[..1], &paths()[..]];
        let [gone, new] = [compare(one, two), compare(two, one)].map(|said| said.join("\n"));
        assert!(gone.starts_with("check: in the baseline, but no longer measured"), "{gone}");
        assert!(new.starts_with("check: not in the baseline"), "{new}");
    }

    #[test]
    fn another_compiler_is_reported() {
        let costs = |rustc: &str| Costs {
            built: BTreeMap::from([("compiler".to_owned(), rustc.to_owned())]),
            paths: paths(),
        };
        assert_eq!(costs("rustc 1.95.0").built_differs_from(&costs("rustc 1.95.0")), None);
        let said = costs("rustc 1.96.0").built_differs_from(&costs("rustc 1.95.0")).unwrap();
        assert!(said.contains("1.96.0") && said.contains("1.95.0"), "{said}");
    }
}
