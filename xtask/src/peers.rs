//! A failed build isn't an error: the report shows the reason.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::process;
use crate::recipes::{self, Place, last_words};
use crate::{folders, servers, text};

const SOURCES: &str = "benches/compare/peers";

const HANDSHAKE: Duration = Duration::from_secs(60);

struct Language {
    folder: &'static str,
    file: (&'static str, &'static str),
    tools: &'static [&'static str],
    build: fn(&Place, &str) -> Result<Vec<String>, String>,
}

const LANGUAGES: &[Language] = &[
    Language { folder: "go", file: ("", "/main.go"), tools: &["go"], build: recipes::go },
    Language {
        folder: "java",
        file: ("", ".java"),
        tools: &["javac", "mvn"],
        build: recipes::java,
    },
    Language { folder: "node", file: ("", ".js"), tools: &["node", "npm"], build: recipes::node },
    Language { folder: "python", file: ("", ".py"), tools: &["python3"], build: recipes::python },
    Language { folder: "rust", file: ("src/bin/", ".rs"), tools: &[], build: recipes::rust },
];

/// The source file that a language's peers share; capitalized in Java.
const SHARED: &str = "protocol";

#[derive(Serialize)]
struct Missing {
    name: String,
    reason: String,
}

/// See `benches/compare/README.md`.
#[derive(Deserialize)]
struct Handshake {
    name: String,
    #[serde(default)]
    library: String,
    #[serde(default)]
    runtime: String,
    backends: Vec<String>,
}

pub(crate) fn build_all() -> Result<ExitCode, String> {
    let lacking = servers::provide_for_peers();
    let (mut commands, mut handshakes, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for language in LANGUAGES {
        let names = language.names();
        if names.is_empty() {
            continue;
        }
        let place = Place::of(&folders::root().join(SOURCES), language.folder)?;
        println!("     {}: {}", language.folder, names.join(", "));
        let lacking = language.tools.iter().find_map(|tool| lacking.get(tool));
        for name in names {
            let built = match lacking {
                Some(reason) => Err(reason.clone()),
                None => (language.build)(&place, &name),
            };
            match built.and_then(|command| Ok((meet(&name, &command)?, command))) {
                Ok((handshake, command)) => {
                    handshakes.push(handshake);
                    commands.push(command);
                }
                Err(reason) => missing.push(Missing { name, reason }),
            }
        }
    }
    missing.push(Missing {
        name: "DistributedLock (madelson, C#)".to_owned(),
        reason: "no program is written for it: there was no .NET SDK to try it with".to_owned(),
    });
    let built = serde_json::to_string(&(commands, &missing)).map_err(text)?;
    fs::write(folders::target().join("peers/built.json"), built).map_err(text)?;
    print_summary(&handshakes, &missing);
    Ok(ExitCode::SUCCESS)
}

impl Language {
    fn names(&self) -> Vec<String> {
        let folder = folders::root().join(SOURCES).join(self.folder);
        let files = std::fs::read_dir(folder.join(self.file.0)).into_iter().flatten().flatten();
        let files = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let names = files.filter_map(|file| Some(file.split('.').next()?.to_owned()));
        let is_peer = |name: &String| {
            folder.join(self.file_of(name)).is_file() && !name.eq_ignore_ascii_case(SHARED)
        };
        let mut names: Vec<String> = names.filter(is_peer).collect();
        names.sort_unstable();
        names
    }

    fn file_of(&self, name: &str) -> String {
        [self.file.0, name, self.file.1].concat()
    }
}

fn meet(name: &str, command: &[String]) -> Result<Handshake, String> {
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).stdin(Stdio::null());
    let finished = process::run(&format!("peers-handshake-{name}"), program, HANDSHAKE, |_| {});
    let line = finished.lines.iter().find(|line| line.starts_with('{'));
    match line {
        _ if !finished.ok() => Err(format!("it doesn't start: {}", last_words(&finished.lines))),
        None => Err(format!("it doesn't say who it is: {}", last_words(&finished.lines))),
        Some(line) => match serde_json::from_str::<Handshake>(line) {
            Ok(handshake) if !handshake.backends.is_empty() => Ok(handshake),
            Ok(_) => Err(format!("its handshake has no backend: {line}")),
            Err(error) => Err(format!("its handshake: {error}: {line}")),
        },
    }
}

fn print_summary(handshakes: &[Handshake], missing: &[Missing]) {
    println!("\n{:24}  {:32}  {:16}  backends", "peer", "library", "runtime");
    for Handshake { name, library, runtime, backends } in handshakes {
        println!("{name:24}  {library:32}  {runtime:16}  {}", backends.join(", "));
    }
    println!("\nnot there:");
    for Missing { name, reason } in missing {
        println!("  {name}: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshake_needs_a_name_and_a_backend() {
        let meet = |line: &str| meet("self-test", &["echo", line].map(str::to_owned));
        let handshake = meet(r#"{"name": "a\u0062", "backends": ["redis", "etcd"], "notes": []}"#);
        let Handshake { name, backends, .. } = handshake.unwrap();
        assert_eq!((name.as_str(), backends.join(" ").as_str()), ("ab", "redis etcd"));
        for line in ["ready", "{", r#"{"name": "x"}"#, r#"{"name": "x", "backends": []}"#] {
            assert!(meet(line).is_err(), "{line}");
        }
    }

    #[test]
    fn peers_are_found_and_what_they_share_is_none() {
        let names = |language: &Language| language.names();
        assert!(names(&LANGUAGES[0]).contains(&"redsync".to_owned()));
        for name in LANGUAGES.iter().flat_map(names) {
            assert!(!name.eq_ignore_ascii_case(SHARED), "{name}");
        }
    }
}
