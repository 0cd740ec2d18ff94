use std::fmt::Write as _;
use std::fs;

use crate::folders;
use crate::options::Options;
use crate::process::output;
use crate::report::Report;

const STYLE: &str = include_str!("../../docs/src/style.md");

/// A shorter string literal, in bytes, doesn't count as a message.
const MESSAGE: usize = 20;

pub(crate) fn step(_: &Options) -> Result<Report, String> {
    let mut count = Count::of(STYLE);
    for name in output("git", &["ls-files"])?.lines().filter(|name| is_read(name)) {
        if let Ok(text) = fs::read_to_string(folders::root().join(name)) {
            count.file(name, &text);
        }
    }
    Report::unless(count.problems())
}

fn is_read(name: &str) -> bool {
    let of_tests = name.split('/').any(|part| matches!(part, "tests" | "test" | "tests.rs"));
    let generated = ["/benchmarks/", "/hand-over/", "CHANGELOG", "LICENSE", "xtask/src/prose.rs"];
    let ends = [".rs", ".md", ".lua", ".sql"];
    !of_tests
        && !generated.iter().any(|part| name.contains(part))
        && ends.iter().any(|end| name.ends_with(end))
}

struct Count {
    words: usize,
    habits: Vec<Habit>,
}

struct Habit {
    phrases: Vec<&'static str>,
    limit: f64,
    found: Vec<String>,
}

impl Count {
    fn of(style: &'static str) -> Self {
        let habit = |line: &'static str| {
            let (phrases, limit) =
                line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ")?;
            let (phrases, limit) = (phrases.split(", ").collect(), limit.parse().ok()?);
            Some(Habit { phrases, limit, found: Vec::new() })
        };
        Self { words: 0, habits: style.lines().filter_map(habit).collect() }
    }

    fn file(&mut self, name: &str, text: &str) {
        let is_page = name.ends_with(".md");
        let mut is_fenced = false;
        for (number, line) in (1..).zip(text.lines()) {
            let start = line.trim_start();
            is_fenced ^= is_page && start.starts_with("```");
            if is_page && !is_fenced {
                self.line(name, number, line);
            } else if name.ends_with(".rs") {
                self.line(name, number, &of_rust(start));
            } else if !is_page {
                self.line(name, number, start.strip_prefix("--").unwrap_or_default());
            }
        }
    }

    fn line(&mut self, name: &str, number: usize, prose: &str) {
        self.words += prose.split_whitespace().count();
        let words = normalized(prose);
        for Habit { phrases, found, .. } in &mut self.habits {
            for phrase in phrases {
                let times = words.matches(&format!(" {phrase} ")).count();
                found.extend((0..times).map(|_| format!("{name}:{number}: {phrase}")));
            }
        }
    }

    fn problems(&self) -> String {
        let mut problems = String::new();
        for Habit { phrases, limit, found } in &self.habits {
            let rate = 1_000.0 * found.len() as f64 / self.words.max(1) as f64;
            if rate > *limit {
                let (phrases, found) = (phrases.join(", "), found.join("\n  "));
                let _ = writeln!(
                    problems,
                    "{phrases}: {rate:.2} in 1,000 words, at most {limit} (docs/src/style.md):\n  {found}",
                );
            }
        }
        problems
    }
}

fn of_rust(line: &str) -> String {
    if let Some(comment) = line.strip_prefix("//") {
        return comment.trim_start_matches(['/', '!']).to_owned();
    }
    let texts = line.split('"').skip(1).step_by(2).filter(|text| text.len() >= MESSAGE);
    texts.collect::<Vec<_>>().join(" ")
}

/// Returns the words outside code in lower case, each between spaces.
fn normalized(prose: &str) -> String {
    let text = prose.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '\''));
    format!(" {} ", words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        let mut count = Count::of(STYLE);
        count.file(name, text);
        count.habits.into_iter().flat_map(|habit| habit.found).collect()
    }

    #[test]
    fn habits_are_found_in_comments_messages_and_pages() {
        let code = "let beside = 1; // x\n/// What is `beside` told.\nlet _ = \"nobody has answered yet\";\n";
        assert_eq!(found("a.rs", code), ["a.rs:3: nobody", "a.rs:2: what is", "a.rs:2: told"]);
        assert_eq!(found("a.md", "It stands.\n```\nIt stands.\n```\n"), ["a.md:1: stands"]);
        assert_eq!(found("a.sql", "-- Another one.\nSELECT stands\n"), ["a.sql:1: another one"]);
    }

    #[test]
    fn rate_above_its_limit_is_a_problem() {
        let mut count = Count::of(STYLE);
        count.line("a.md", 1, &"word ".repeat(40_000));
        assert_eq!(count.problems(), "");
        count.line("a.md", 2, "anew");
        assert!(count.problems().is_empty(), "{}", count.problems());
        (3..9).for_each(|number| count.line("a.md", number, "anew"));
        assert!(count.problems().contains("a.md:8: anew"), "{}", count.problems());
    }
}
