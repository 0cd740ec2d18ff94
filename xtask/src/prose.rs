//! Counts words that `docs/src/style.md` rules out.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::folders;
use crate::options::Options;
use crate::report::Report;

struct Habit {
    limit: f64,
    phrases: &'static [&'static str],
}

const HABITS: &[Habit] = &[
    Habit { limit: 0.1, phrases: &["nobody", "somebody", "anybody", "whoever", "everybody"] },
    Habit {
        limit: 0.3,
        phrases: &[
            "what is",
            "what it",
            "what they",
            "what was",
            "what were",
            "what comes",
            "what stands",
        ],
    },
    Habit { limit: 0.4, phrases: &["tell", "tells", "told"] },
    Habit {
        limit: 1.3,
        phrases: &[
            "believe", "believes", "believed", "hear", "hears", "heard", "knows", "want", "wants",
            "learn", "learns",
        ],
    },
    Habit { limit: 0.1, phrases: &["stand", "stands", "stood"] },
    Habit {
        limit: 0.2,
        phrases: &["one that", "one who", "another one", "the other one", "of ours", "of theirs"],
    },
    Habit { limit: 0.05, phrases: &["anew", "meanwhile", "for ever", "all the same"] },
    Habit { limit: 0.05, phrases: &["beside"] },
    Habit {
        limit: 0.2,
        phrases: &["in vain", "on the way", "on its way", "on their way", "go on", "goes on"],
    },
];

const MESSAGE: usize = 20;

pub(crate) fn step(_: &Options) -> Report {
    let mut count = Count::default();
    let listed = Command::new("git").arg("ls-files").current_dir(folders::root()).output();
    let Ok(listed) = listed else { return Report::failed("git can't list the files") };
    for name in String::from_utf8_lossy(&listed.stdout).lines().filter(|name| is_read(name)) {
        match fs::read_to_string(folders::root().join(name)) {
            Ok(text) => count.file(name, &text),
            Err(_) => continue,
        }
    }
    match count.problems() {
        problems if problems.is_empty() => Report::of(true),
        problems => Report::failed(&problems),
    }
}

/// Tests, generated pages and the list of changes don't count.
fn is_read(name: &str) -> bool {
    let of_tests = name.split('/').any(|part| matches!(part, "tests" | "test" | "tests.rs"));
    let generated = ["/benchmarks/", "/hand-over/", "CHANGELOG", "LICENSE", "xtask/src/prose.rs"];
    let ends = [".rs", ".md", ".lua", ".sql"];
    !of_tests
        && !generated.iter().any(|part| name.contains(part))
        && ends.iter().any(|end| name.ends_with(end))
}

#[derive(Default)]
struct Count {
    words: usize,
    found: [Vec<String>; HABITS.len()],
}

impl Count {
    fn file(&mut self, name: &str, text: &str) {
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
        let mut is_fenced = false;
        for (number, line) in text.lines().enumerate() {
            let start = line.trim_start();
            if extension == Some("md") && start.starts_with("```") {
                is_fenced = !is_fenced;
            }
            let prose = match extension {
                Some("md") if is_fenced => continue,
                Some("md") => line.to_owned(),
                Some("rs") => of_rust(start),
                _ => start.strip_prefix("--").unwrap_or_default().to_owned(),
            };
            self.line(name, number + 1, &prose);
        }
    }

    fn line(&mut self, name: &str, number: usize, prose: &str) {
        self.words += prose.split_whitespace().count();
        let words = normalized(prose);
        for (habit, found) in HABITS.iter().zip(&mut self.found) {
            for phrase in habit.phrases {
                let times = words.matches(&format!(" {phrase} ")).count();
                found.extend((0..times).map(|_| format!("{name}:{number}: {phrase}")));
            }
        }
    }

    fn problems(&self) -> String {
        let mut problems = String::new();
        for (habit, found) in HABITS.iter().zip(&self.found) {
            let rate = 1_000.0 * found.len() as f64 / self.words.max(1) as f64;
            if rate > habit.limit {
                let phrases = habit.phrases.join(", ");
                let _ = writeln!(
                    problems,
                    "{phrases}: {rate:.2} in 1,000 words, at most {} (docs/src/style.md):\n  {}",
                    habit.limit,
                    found.join("\n  ")
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

/// Returns lower-case words, each between two spaces, without code.
fn normalized(prose: &str) -> String {
    let mut out = String::from(" ");
    for text in prose.split('`').step_by(2) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
        for word in text.split(|c| !is_part(c)).filter(|word| !word.is_empty()) {
            out.push_str(&word.to_lowercase());
            out.push(' ');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        let mut count = Count::default();
        count.file(name, text);
        count.found.concat()
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
        let mut count = Count::default();
        count.line("a.md", 1, &"word ".repeat(40_000));
        assert_eq!(count.problems(), "");
        count.line("a.md", 2, "anew");
        assert!(count.problems().is_empty(), "{}", count.problems());
        (3..9).for_each(|number| count.line("a.md", number, "anew"));
        assert!(count.problems().contains("a.md:8: anew"), "{}", count.problems());
    }
}
