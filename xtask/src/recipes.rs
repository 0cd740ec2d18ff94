use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fs_err as fs;

use crate::process::{self, output};
use crate::{folders, text};

pub(crate) struct Place {
    source: PathBuf,
    target: PathBuf,
}

impl Place {
    pub(crate) fn of(sources: &Path, folder: &str) -> Result<Self, String> {
        let target = std::path::absolute(folders::target()).map_err(text)?;
        let target = target.join("peers").join(folder);
        fs::create_dir_all(&target).map_err(text)?;
        Ok(Self { source: sources.join(folder), target })
    }

    fn source(&self, name: &str) -> PathBuf {
        self.source.join(name)
    }

    fn target(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    fn texts(&self, names: &[&str]) -> Result<String, String> {
        names.iter().map(|name| fs::read_to_string(self.source(name)).map_err(text)).collect()
    }

    fn once(
        &self,
        what: &str,
        made_of: String,
        make: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let record = self.target(&format!("{what}.made-of"));
        if fs::read_to_string(&record).is_ok_and(|before| before == made_of) {
            return Ok(());
        }
        let _ = fs::remove_file(&record);
        let _ = fs::remove_dir_all(self.target(what));
        make()?;
        fs::write(&record, made_of).map_err(text)
    }

    fn run(&self, program: impl AsRef<Path>, args: &[&str]) -> Result<(), String> {
        let mut command = Command::new(program.as_ref());
        command.args(args).current_dir(&self.source);
        self.finish(command)
    }

    fn finish(&self, mut command: Command) -> Result<(), String> {
        command.stdin(Stdio::null());
        let called = Path::new(command.get_program()).file_name().unwrap_or_default();
        let called = called.to_string_lossy().into_owned();
        let language = self.target.file_name().unwrap_or_default().to_string_lossy();
        let finished =
            process::run(&format!("peers-{language}"), command, process::WITH_BUILDING, |_| {});
        if finished.ok() {
            return Ok(());
        }
        finished.explain();
        Err(format!("`{called}` fails: {}", last_words(&finished.lines)))
    }
}

pub(crate) fn last_words(lines: &[String]) -> String {
    let said: Vec<&str> =
        lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let text = said[said.len().saturating_sub(4)..].join("; ").replace('\t', " ");
    match text.char_indices().rev().nth(400) {
        Some((start, _)) => format!("…{}", &text[start..]),
        None => text,
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn go(place: &Place, name: &str) -> Result<Vec<String>, String> {
    let program = shown(&place.target(&format!("bin/{name}")));
    let mut command = Command::new("go");
    command.args(["build", "-o", &program, &format!("./{name}")]).current_dir(&place.source);
    command.env("GOFLAGS", "-mod=readonly -modcacherw -buildvcs=false");
    command.env("GOMODCACHE", place.target("modules")).env("GOCACHE", place.target("cache"));
    command.env("GOTOOLCHAIN", "local").env("GOWORK", "off").env("CGO_ENABLED", "0");
    place.finish(command)?;
    Ok(vec![program])
}

fn java_libraries(place: &Place) -> Result<(), String> {
    place.once("lib", place.texts(&["pom.xml"])?, || {
        let repository = format!("-Dmaven.repo.local={}", shown(&place.target("repository")));
        let output = format!("-DoutputDirectory={}", shown(&place.target("lib")));
        place.run("mvn", &["-B", "-q", &repository, "dependency:copy-dependencies", &output])
    })
}

pub(crate) fn java(place: &Place, name: &str) -> Result<Vec<String>, String> {
    java_libraries(place)?;
    let sources = ["Protocol.java", &format!("{name}.java")];
    let made_of =
        output("javac", &["-version"])? + &place.texts(&["pom.xml", sources[0], sources[1]])?;
    let (classes, libraries) = (shown(&place.target("classes")), shown(&place.target("lib/*")));
    place.once(name, made_of, || {
        place.run("javac", &["-d", &classes, "-cp", &libraries, sources[0], sources[1]])
    })?;
    Ok(["java", "-cp", &format!("{classes}:{libraries}"), name].map(str::to_owned).to_vec())
}

fn node_libraries(place: &Place) -> Result<(), String> {
    let sources = fs::read_dir(&place.source).map_err(text)?.flatten();
    let sources = sources.map(|file| shown(&file.path()));
    let sources: Vec<String> = sources.filter(|file| !file.ends_with("/node_modules")).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    output("cp", &[&["-R"], &sources[..], &[&shown(&place.target)]].concat())?;
    let made_of = place.texts(&["package.json", "package-lock.json"])?;
    place.once("node_modules", made_of + &output("node", &["--version"])?, || {
        let cache = shown(&place.target("cache"));
        let target = shown(&place.target);
        place.run("npm", &["ci", "--no-audit", "--no-fund", "--cache", &cache, "--prefix", &target])
    })
}

fn python_libraries(place: &Place) -> Result<(), String> {
    let made_of = place.texts(&["requirements.txt"])?;
    place.once("venv", made_of + &output("python3", &["--version"])?, || {
        let venv = place.target("venv");
        place.run("python3", &["-m", "venv", &shown(&venv)])?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        place.run(venv.join("bin/python"), &[&pip[..], &["-r", "requirements.txt"]].concat())
    })
}

pub(crate) fn node(place: &Place, name: &str) -> Result<Vec<String>, String> {
    node_libraries(place)?;
    Ok(vec!["node".to_owned(), shown(&place.target(&format!("{name}.js")))])
}

pub(crate) fn python(place: &Place, name: &str) -> Result<Vec<String>, String> {
    python_libraries(place)?;
    let (python, script) = (place.target("venv/bin/python"), place.source(&format!("{name}.py")));
    Ok(vec![shown(&python), "-B".to_owned(), shown(&script)])
}

pub(crate) fn rust(place: &Place, name: &str) -> Result<Vec<String>, String> {
    let (manifest, target) = (shown(&place.source("Cargo.toml")), shown(&place.target));
    let build = ["build", "--release", "--locked", "--manifest-path", &manifest];
    let args = [&build[..], &["--target-dir", &target, "--bin", name]].concat();
    let mut command = process::cargo(&args);
    process::without_lints(&mut command);
    place.finish(command)?;
    Ok(vec![shown(&place.target(&format!("release/{name}")))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_module_is_built_once() {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().to_path_buf(), folder.path().to_path_buf());
        let place = Place { source, target };
        let mut made = Vec::new();
        for (made_of, works) in [("a", true), ("a", true), ("b", false), ("b", true), ("a", true)] {
            let make = || {
                made.push(made_of);
                if works { Ok(()) } else { Err(String::new()) }
            };
            assert_eq!(place.once("thing", made_of.to_owned(), make).is_ok(), works);
        }
        assert_eq!(made, ["a", "b", "b", "a"]);
    }

    #[test]
    fn last_words_are_one_line() {
        let lines = ["1", "", "2", "3", "4", "5\t5"].map(str::to_owned);
        assert_eq!(last_words(&lines), "2; 3; 4; 5 5");
        assert!(last_words(&["x".repeat(1000)]).chars().count() < 410);
    }
}
