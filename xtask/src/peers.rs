//! Builds the other lock libraries' programs, which the benchmarks measure beside ours: `cargo xtask peers`.
//!
//! A peer is found by its file in `bench/peers/`. What can't be built is no failure of the command: it is
//! said, with the reason, and the benchmarks' report says it too.

use std::fmt::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use std::{fs, io};

use crate::greeting::{self, Greeting};
use crate::recipes::{self, Place, last_words, said, text};
use crate::{process, servers};

/// Where the peers are, in the repository.
const SOURCES: &str = "bench/peers";

/// How long a program may take to say who it is.
const GREETING: Duration = Duration::from_secs(60);

/// A language, and how its peers are built.
struct Language {
    /// Its folder, in the sources and in the target folder.
    folder: &'static str,
    /// What stands before and after a peer's name in the path of its file.
    file: (&'static str, &'static str),
    /// What it is built with, as `servers` knows it.
    tools: &'static [&'static str],
    /// Does what is done for all of them.
    prepare: fn(&Place) -> Result<(), String>,
    /// Builds one, and says how to run it.
    build: fn(&Place, &str) -> Result<Vec<String>, String>,
}

const LANGUAGES: &[Language] = &[
    Language {
        folder: "go",
        file: ("", "/main.go"),
        tools: &["go"],
        prepare: |_| Ok(()),
        build: recipes::go,
    },
    Language {
        folder: "java",
        file: ("", ".java"),
        tools: &["javac", "mvn"],
        prepare: recipes::java_libraries,
        build: recipes::java,
    },
    Language {
        folder: "node",
        file: ("", ".js"),
        tools: &["node", "npm"],
        prepare: recipes::node_libraries,
        build: |place, name| {
            Ok(vec!["node".to_owned(), text(&place.target(&format!("{name}.js")))])
        },
    },
    Language {
        folder: "python",
        file: ("", ".py"),
        tools: &["python3"],
        prepare: recipes::python_libraries,
        // Without writing what it compiles beside the sources.
        build: |place, name| {
            let script = place.source(&format!("{name}.py"));
            Ok(vec![text(&place.target("venv/bin/python")), "-B".to_owned(), text(&script)])
        },
    },
    Language {
        folder: "rust",
        file: ("src/bin/", ".rs"),
        tools: &[],
        prepare: |_| Ok(()),
        build: recipes::rust,
    },
];

/// What the peers of one language share isn't one. Java wants it with a capital.
const SHARED: &str = "protocol";

/// A peer, and what became of it.
struct Peer {
    file: String,
    name: String,
    outcome: Result<Built, String>,
}

struct Built {
    command: Vec<String>,
    greeting: Greeting,
}

/// The task.
pub(crate) fn main(args: &[String]) -> ExitCode {
    if !args.is_empty() {
        return crate::usage_error("`peers` takes no arguments");
    }
    match build_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build_all() -> io::Result<()> {
    let lacking = servers::provide_for_peers();
    let mut peers = Vec::new();
    for language in LANGUAGES {
        let names = language.names()?;
        let place = Place::of(&crate::root().join(SOURCES), language.folder)?;
        let lacks = language.tools.iter().find_map(|tool| lacking.get(tool));
        let prepared = match lacks {
            _ if names.is_empty() => continue,
            Some(reason) => Err(reason.clone()),
            None => {
                println!("     {}: {}", language.folder, names.join(", "));
                (language.prepare)(&place)
            }
        };
        for name in names {
            let built = prepared.clone().and_then(|()| (language.build)(&place, &name));
            let outcome = built.and_then(|command| {
                let greeting = meet(&name, &command)?;
                Ok(Built { command, greeting })
            });
            peers.push(Peer {
                file: format!("{}/{}", language.folder, language.file_of(&name)),
                name,
                outcome,
            });
        }
    }
    let missing = missing(&peers);
    let folder = crate::target_folder().join("peers");
    fs::write(folder.join("commands.tsv"), commands(&peers))?;
    let rows = missing.iter().map(|(name, reason)| [name.as_str(), reason].join("\t") + "\n");
    fs::write(folder.join("missing.tsv"), rows.collect::<String>())?;
    print!("{}", summary(&peers, &missing));
    Ok(())
}

impl Language {
    /// The names of its peers.
    fn names(&self) -> io::Result<Vec<String>> {
        let folder = crate::root().join(SOURCES).join(self.folder);
        let Ok(entries) = fs::read_dir(folder.join(self.file.0)) else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in entries {
            let file = entry?.file_name().to_string_lossy().into_owned();
            let name = file.split('.').next().unwrap_or_default();
            if folder.join(self.file_of(name)).is_file() && !name.eq_ignore_ascii_case(SHARED) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn file_of(&self, name: &str) -> String {
        [self.file.0, name, self.file.1].concat()
    }
}

/// Starts a program, which ends at once as there's nothing that it is told, and hears who it is.
fn meet(name: &str, command: &[String]) -> Result<Greeting, String> {
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).stdin(Stdio::null());
    let finished = process::run(&format!("peers-greeting-{name}"), program, GREETING, |_| {});
    let line = finished.lines.iter().find(|line| line.starts_with('{'));
    match line {
        _ if !finished.ok() => Err(format!("it doesn't start: {}", last_words(&finished.lines))),
        None => Err(format!("it doesn't say who it is: {}", last_words(&finished.lines))),
        Some(line) => {
            greeting::read(line).map_err(|error| format!("its greeting: {error}: {line}"))
        }
    }
}

/// Who isn't there, and why.
fn missing(peers: &[Peer]) -> Vec<(String, String)> {
    let mut missing: Vec<(String, String)> = peers
        .iter()
        .filter_map(|peer| Some((peer.name.clone(), peer.outcome.as_ref().err()?.clone())))
        .collect();
    let dotnet = match said("dotnet", &["--list-sdks"]).trim() {
        "" => "and there is no .NET SDK here to build one with or to try it",
        _ => "because there was no .NET SDK to try it with when the others were written",
    };
    missing.push((
        "DistributedLock (madelson, C#)".to_owned(),
        format!("no program is written for it, {dotnet}"),
    ));
    missing
}

/// How the driver runs them.
fn commands(peers: &[Peer]) -> String {
    let rows = peers.iter().filter_map(|peer| {
        let built = peer.outcome.as_ref().ok()?;
        Some([&peer.file, "\t", &built.command.join("\t"), "\n"].concat())
    });
    rows.collect()
}

fn summary(peers: &[Peer], missing: &[(String, String)]) -> String {
    let mut rows = vec![["peer", "library", "runtime", "backends"].map(str::to_owned)];
    for built in peers.iter().filter_map(|peer| peer.outcome.as_ref().ok()) {
        let Greeting { name, library, runtime, backends } = &built.greeting;
        rows.push([name.clone(), library.clone(), runtime.clone(), backends.join(", ")]);
    }
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (name, library, runtime) = (width(0), width(1), width(2));
    let mut text = String::from("\n");
    for row in &rows {
        let _ = writeln!(
            text,
            "{:name$}  {:library$}  {:runtime$}  {}",
            row[0], row[1], row[2], row[3]
        );
    }
    text += "\nnot there:\n";
    for (name, reason) in missing {
        let _ = writeln!(text, "  {name}: {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_found_and_what_they_share_is_none() {
        let names = |language: &Language| language.names().unwrap();
        assert!(names(&LANGUAGES[0]).contains(&"redsync".to_owned()));
        for name in LANGUAGES.iter().flat_map(names) {
            assert!(!name.eq_ignore_ascii_case(SHARED), "{name}");
        }
    }
}
