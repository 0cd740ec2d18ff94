//! `cargo xtask peers`: builds programs with other lock libraries.
//!
//! A failed build isn't an error: the benchmarks' report shows the reason.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use std::{fs, io};

use crate::recipes::{self, Place, last_words, said, text};
use crate::{folders, process, servers};

const SOURCES: &str = "benches/compare/peers";

const HANDSHAKE: Duration = Duration::from_secs(60);

struct Language {
    folder: &'static str,
    file: (&'static str, &'static str),
    tools: &'static [&'static str],
    prepare: fn(&Place) -> Result<(), String>,
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

/// The file that peers share. In Java it is capitalized.
const SHARED: &str = "protocol";

struct Peer {
    file: String,
    name: String,
    outcome: Result<Built, String>,
}

struct Built {
    command: Vec<String>,
    /// A line of JSON: see `benches/compare/README.md`.
    handshake: String,
}

pub(crate) fn main() -> ExitCode {
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
        let place = Place::of(&folders::root().join(SOURCES), language.folder)?;
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
                let handshake = meet(&name, &command)?;
                Ok(Built { command, handshake })
            });
            peers.push(Peer {
                file: format!("{}/{}", language.folder, language.file_of(&name)),
                name,
                outcome,
            });
        }
    }
    let missing = missing(&peers);
    let folder = folders::target().join("peers");
    fs::write(folder.join("commands.tsv"), commands(&peers))?;
    let rows = missing.iter().map(|(name, reason)| [name.as_str(), reason].join("\t") + "\n");
    fs::write(folder.join("missing.tsv"), rows.collect::<String>())?;
    print!("{}", summary(&peers, &missing));
    Ok(())
}

impl Language {
    fn names(&self) -> io::Result<Vec<String>> {
        let folder = folders::root().join(SOURCES).join(self.folder);
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

/// Returns the handshake. The benchmarks parse it.
fn meet(name: &str, command: &[String]) -> Result<String, String> {
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).stdin(Stdio::null());
    let finished = process::run(&format!("peers-handshake-{name}"), program, HANDSHAKE, |_| {});
    let line = finished.lines.iter().find(|line| line.starts_with('{'));
    match line {
        _ if !finished.ok() => Err(format!("it doesn't start: {}", last_words(&finished.lines))),
        None => Err(format!("it doesn't say who it is: {}", last_words(&finished.lines))),
        Some(line) => Ok(line.clone()),
    }
}

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

fn commands(peers: &[Peer]) -> String {
    let rows = peers.iter().filter_map(|peer| {
        let built = peer.outcome.as_ref().ok()?;
        Some([&peer.file, "\t", &built.command.join("\t"), "\n"].concat())
    });
    rows.collect()
}

fn summary(peers: &[Peer], missing: &[(String, String)]) -> String {
    let built = peers.iter().filter_map(|peer| peer.outcome.as_ref().ok());
    let built: String = built.map(|built| format!("  {}\n", built.handshake)).collect();
    let missing: String =
        missing.iter().map(|(name, reason)| format!("  {name}: {reason}\n")).collect();
    format!("\nbuilt:\n{built}\nnot there:\n{missing}")
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
