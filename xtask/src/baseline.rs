//! The record of the hot paths' cost.

use std::fmt::Write as _;

/// See `benches/README.md`.
const TOLERANCE: f64 = 0.03;

/// System calls are nearly whole numbers.
const TOLERANCE_OF_CALLS: f64 = 0.1;

#[derive(Debug, PartialEq)]
pub(crate) struct Costs {
    pub(crate) built: Built,
    pub(crate) paths: Vec<Path>,
}

/// Besides the source, they determine a path's instructions.
#[derive(Debug, PartialEq)]
pub(crate) struct Built {
    pub(crate) rustc: String,
    pub(crate) host: String,
    /// It contains the allocator, and functions that copy and compare.
    pub(crate) libc: String,
    /// The C library and the token generator select code by them.
    pub(crate) vectors: String,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Path {
    name: String,
    instructions: f64,
    /// Under valgrind, reading the clock is one.
    calls: f64,
}

impl Built {
    fn fields(&self) -> [(&'static str, &String); 4] {
        let Self { rustc, host, libc, vectors } = self;
        [("compiler", rustc), ("target", host), ("libc", libc), ("vectors", vectors)]
    }

    pub(crate) fn differs_from(&self, recorded: &Self) -> Option<String> {
        let pairs = self.fields().into_iter().zip(recorded.fields());
        let mut differences = pairs.filter(|(here, there)| here != there).map(|(here, there)| {
            format!("the {} is {}, and was {} when it was recorded", here.0, here.1, there.1)
        });
        differences.next()
    }
}

impl Path {
    pub(crate) fn new(name: &str, (instructions, calls): (u64, u64), times: u64) -> Self {
        let each = |sum: u64| sum as f64 / times as f64;
        Self { name: name.to_owned(), instructions: each(instructions), calls: each(calls) }
    }
}

pub(crate) fn write(costs: &Costs) -> String {
    let mut text = String::from(
        "# What the client's hot paths cost, as `cargo xtask cost --record` wrote it.\n\
         # The test command compares with it; ../README.md says how.\n\n",
    );
    for (key, value) in costs.built.fields() {
        let _ = writeln!(text, "{key}: {value}");
    }
    text.push('\n');
    text + &table(&costs.paths, "")
}

pub(crate) fn read(text: &str) -> Result<Costs, String> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut field = |key: &str| {
        let value = lines.next().and_then(|line| line.strip_prefix(key)?.strip_prefix(": "));
        value.map(str::to_owned).ok_or_else(|| format!("the line with the {key} is missing"))
    };
    let built = Built {
        rustc: field("compiler")?,
        host: field("target")?,
        libc: field("libc")?,
        vectors: field("vectors")?,
    };
    let path = |line: &str| {
        let (rest, calls) = line.trim_end().rsplit_once(' ')?;
        let (name, instructions) = rest.trim_end().rsplit_once(' ')?;
        let (instructions, calls) = (instructions.parse().ok()?, calls.parse().ok()?);
        Some(Path { name: name.trim_end().to_owned(), instructions, calls })
    };
    let paths = lines
        .skip(1)
        .map(|line| path(line).ok_or_else(|| format!("the line `{line}` can't be parsed")));
    Ok(Costs { built, paths: paths.collect::<Result<_, _>>()? })
}

pub(crate) fn table(paths: &[Path], indent: &str) -> String {
    let width = paths.iter().map(|path| path.name.len()).max().unwrap_or_default();
    let mut text = format!("{indent}{:width$}  instructions  system calls\n", "each time");
    for Path { name, instructions, calls } in paths {
        let _ = writeln!(text, "{indent}{name:width$}  {instructions:12.1}  {calls:12.2}");
    }
    text
}

pub(crate) fn compare(now: &[Path], recorded: &[Path]) -> Vec<String> {
    let mut problems = Vec::new();
    for path in now {
        match recorded.iter().find(|other| other.name == path.name) {
            Some(recorded) => problems.extend(problem(path, recorded)),
            None => problems.push(format!("{}: not in the baseline; {RECORD_AGAIN}", path.name)),
        }
    }
    for gone in recorded.iter().filter(|path| now.iter().all(|other| other.name != path.name)) {
        problems.push(format!(
            "{}: in the baseline, but no longer measured; {RECORD_AGAIN}",
            gone.name
        ));
    }
    problems
}

const RECORD_AGAIN: &str = "record it again: cargo xtask cost --record";

fn problem(now: &Path, recorded: &Path) -> Option<String> {
    let part = now.instructions / recorded.instructions - 1.0;
    let calls = now.calls - recorded.calls;
    let more = part > TOLERANCE || calls > TOLERANCE_OF_CALLS;
    let less = part < -TOLERANCE || calls < -TOLERANCE_OF_CALLS;
    if !more && !less {
        return None;
    }
    let what_to_do = if more {
        format!(
            "the cost increased. If that is intended, explain it in the commit, and {RECORD_AGAIN}"
        )
    } else {
        format!("the cost decreased. To keep that, {RECORD_AGAIN}")
    };
    Some(format!(
        "{}: {:.1} instructions, {:.1} are recorded ({:+.1} %, {:.0} % pass), and {:.2} system \
         calls, {:.2} are recorded (each reading of the clock is one); {what_to_do}",
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

    fn costs() -> Costs {
        let built = Built {
            rustc: "rustc 1.95.0 (59807616e 2026-04-14)".to_owned(),
            host: "x86_64-unknown-linux-gnu".to_owned(),
            libc: "glibc 2.36".to_owned(),
            vectors: "avx2".to_owned(),
        };
        let paths = vec![
            Path::new("acquire + release, fixed", (562_100, 1_000), 200),
            Path::new("check", (14_060, 200), 200),
        ];
        Costs { built, paths }
    }

    fn with(instructions: f64, calls: f64) -> Vec<String> {
        let mut now = costs().paths;
        now[0].instructions *= instructions;
        now[0].calls += calls;
        compare(&now, &costs().paths)
    }

    #[test]
    fn written_costs_are_read() {
        assert_eq!(read(&write(&costs())), Ok(costs()));
    }

    #[test]
    fn invalid_line_is_named() {
        let text = write(&costs()).replace("70.3", "70,3");
        assert!(read(&text).unwrap_err().contains("check"), "{:?}", read(&text));
        let text = write(&costs()).replace("libc", "glibc");
        assert!(read(&text).unwrap_err().contains("libc"), "{:?}", read(&text));
        assert!(read("").unwrap_err().contains("compiler"));
    }

    #[test]
    fn difference_within_the_tolerance_passes() {
        assert_eq!(with(1.0, 0.0), [""; 0]);
        assert_eq!(with(1.025, 0.05), [""; 0]);
        assert_eq!(with(0.975, -0.05), [""; 0]);
    }

    #[test]
    fn more_names_the_path_and_how_much() {
        let said = with(1.05, 0.0).join("\n");
        assert!(
            said.starts_with("acquire + release, fixed: ") && said.contains("+5.0 %"),
            "{said}"
        );
        // Too few instructions to exceed the tolerance.
        let said = with(1.005, 1.0).join("\n");
        assert!(said.contains("6.00 system calls, 5.00 are recorded"), "{said}");
        assert!(said.contains("the cost increased"), "{said}");
    }

    #[test]
    fn less_asks_for_a_new_record() {
        let said = with(0.9, 0.0).join("\n");
        assert!(said.contains("-10.0 %") && said.contains("record it again"), "{said}");
        assert!(!said.contains("the cost increased"), "{said}");
        assert!(with(1.0, -1.0).join("\n").contains("record it again"));
        // A decrease of one doesn't offset an increase of the other.
        assert!(with(0.9, 1.0).join("\n").contains("the cost increased"));
    }

    #[test]
    fn path_on_one_side_only_is_reported() {
        let [one, two] = [&costs().paths[..1], &costs().paths[..]];
        assert!(
            compare(one, two)
                .join("\n")
                .starts_with("check: in the baseline, but no longer measured")
        );
        assert!(compare(two, one).join("\n").starts_with("check: not in the baseline"));
    }

    #[test]
    fn another_compiler_is_reported_and_not_compared() {
        let mut here = costs().built;
        assert_eq!(here.differs_from(&costs().built), None);
        here.rustc = "rustc 1.96.0".to_owned();
        let said = here.differs_from(&costs().built).unwrap();
        assert!(said.contains("1.96.0") && said.contains("1.95.0"), "{said}");
    }
}
