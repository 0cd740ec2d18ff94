//! Packages of later Debian or Ubuntu suites, unpacked but not installed. apt loads them from the
//! machine's mirror and verifies them by the archive's keyring.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use crate::process::{self, Finished, output};
use crate::text;

struct Distribution {
    /// The `ID` in `/etc/os-release`.
    id: &'static str,
    keyrings: &'static [&'static str],
    components: &'static str,
    aliases: &'static [&'static str],
    attempts: &'static [Attempt],
}

/// The suites to search for the server, and the suite for all other packages, if another.
type Attempt = (&'static [&'static str], Option<&'static str>);

const DISTRIBUTIONS: &[Distribution] = &[
    Distribution {
        id: "debian",
        keyrings: &[
            "/usr/share/keyrings/debian-archive-keyring.gpg",
            "/usr/share/keyrings/debian-archive-keyring.pgp",
        ],
        components: "main",
        aliases: &["oldstable", "stable", "testing", "unstable", "sid"],
        // MySQL is only in unstable, whose other packages may be broken for a day.
        attempts: &[
            (&["testing"], None),
            (&["unstable", "testing"], None),
            (&["unstable", "testing"], Some("testing")),
            (&["stable"], None),
        ],
    },
    Distribution {
        id: "ubuntu",
        keyrings: &["/usr/share/keyrings/ubuntu-archive-keyring.gpg"],
        components: "main universe",
        aliases: &["devel"],
        // The release in development, or else the first that has all newer servers.
        attempts: &[(&["devel"], None), (&["resolute"], None)],
    },
];

/// Returns `false` for derivatives of Debian and Ubuntu, whose later suites are unknown.
pub(crate) fn has_later_suites() -> bool {
    distribution(&release()).is_some()
}

fn distribution(release: &str) -> Option<&'static Distribution> {
    let id = field(release, "ID")?;
    DISTRIBUTIONS.iter().find(|known| known.id == id)
}

fn release() -> String {
    fs::read_to_string("/etc/os-release").unwrap_or_default()
}

pub(crate) struct Archive {
    distribution: &'static Distribution,
    keyring: &'static str,
    architecture: String,
    mirrors: Vec<String>,
    folder: PathBuf,
    fetched: BTreeMap<PathBuf, Result<(), String>>,
}

impl Archive {
    pub(crate) fn of_this_machine(folder: &Path) -> Result<Self, String> {
        let release = release();
        let distribution =
            distribution(&release).ok_or("the machine runs neither Debian nor Ubuntu")?;
        let keyring = distribution.keyrings.iter().copied().find(|path| Path::new(path).exists());
        let keyring = keyring.ok_or_else(|| {
            format!("the archive's keyring {} is missing", distribution.keyrings[0])
        })?;
        let codename = field(&release, "VERSION_CODENAME").unwrap_or_default();
        let format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
        let format = ["indextargets", "--format", format, "Created-By: Packages"];
        let targets = output("apt-get", &format)?;
        let mirrors =
            mirrors(&targets, |suite| suite == codename || distribution.aliases.contains(&suite));
        if mirrors.is_empty() {
            return Err(format!("apt's sources have no mirror with the suite {codename} main"));
        }
        let architecture = output("dpkg", &["--print-architecture"])?.trim().to_owned();
        let folder = folder.to_path_buf();
        let fetched = BTreeMap::new();
        Ok(Self { distribution, keyring, architecture, mirrors, folder, fetched })
    }

    /// Tries the distribution's suites in turn, until `check` succeeds.
    pub(crate) fn unpack(
        &mut self,
        packages: &[&str],
        root: &Path,
        check: impl Fn(&Path) -> Result<String, String>,
    ) -> Result<String, String> {
        let mut problems = Vec::new();
        for attempt in self.distribution.attempts {
            let done = self.fetch(*attempt, packages).and_then(|files| {
                unpack(&files, root)?;
                check(root)
            });
            match done {
                Ok(found) => return Ok(found),
                Err(problem) => {
                    let (suites, base) = attempt;
                    let rest = base.map(|base| format!(", the rest from {base}"));
                    let rest = rest.unwrap_or_default();
                    problems.push(format!("from {}{rest}: {problem}", suites[0]));
                }
            }
        }
        Err(problems.join("\n"))
    }

    fn fetch(&mut self, attempt: Attempt, packages: &[&str]) -> Result<Vec<PathBuf>, String> {
        let (suites, base) = attempt;
        let folder = self.folder.join(suites.join("-"));
        if !self.fetched.contains_key(&folder) {
            let lists = self.fetch_lists(suites, &folder);
            self.fetched.insert(folder.clone(), lists);
        }
        self.fetched[&folder].clone()?;
        let mut args = ["install", "-y", "--no-install-recommends"].map(str::to_owned).to_vec();
        args.extend(base.map(|base| format!("--target-release={base}")));
        let suite = base.map(|_| format!("/{}", suites[0])).unwrap_or_default();
        args.extend(packages.iter().map(|package| format!("{package}{suite}")));
        let log = format!("versions-apt-{}", packages[0]);
        // With an empty cache, apt lists all packages, not only missing ones.
        let mut list = apt(&folder, &args);
        list.args(["--print-uris", "-o", "Dir::Cache::archives=none/"]);
        let files = apt_ran(process::run(&log, list, process::RUNNING, |_| {}))?;
        let mut download = apt(&folder, &args);
        let archives = self.folder.join("archives");
        download
            .args(["--download-only", "-o"])
            .arg(format!("Dir::Cache::archives={}/", archives.display()));
        apt_ran(process::run(&log, download, process::RUNNING, |_| {}))?;
        Ok(files.iter().filter_map(|line| Some(archives.join(file_name(line)?))).collect())
    }

    fn fetch_lists(&self, suites: &[&str], folder: &Path) -> Result<(), String> {
        for place in ["lists/partial", "cache/none/partial", "../archives/partial"] {
            fs::create_dir_all(folder.join(place)).map_err(text)?;
        }
        fs::write(folder.join("status"), "").map_err(text)?;
        fs::write(folder.join("apt.conf"), settings(folder)).map_err(text)?;
        let mut problem = String::new();
        for mirror in &self.mirrors {
            let sources: String = suites.iter().map(|suite| self.source(mirror, suite)).collect();
            fs::write(folder.join("sources.list"), sources).map_err(text)?;
            let log = format!("versions-apt-update-{}", suites[0]);
            let update = apt(folder, &["update".to_owned()]);
            match apt_ran(process::run(&log, update, process::RUNNING, |_| {})) {
                Ok(_) => return Ok(()),
                Err(why) => problem = why,
            }
        }
        Err(problem)
    }

    fn source(&self, mirror: &str, suite: &str) -> String {
        let Self { distribution, keyring, architecture, .. } = self;
        let components = distribution.components;
        format!("deb [arch={architecture} signed-by={keyring}] {mirror} {suite} {components}\n")
    }
}

fn settings(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "#clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear APT::Default-Release;\n\
         Dir::State \"{folder}\";\n\
         Dir::State::lists \"{folder}/lists/\";\n\
         Dir::State::status \"{folder}/status\";\n\
         Dir::Cache \"{folder}/cache/\";\n\
         Dir::Etc::SourceList \"{folder}/sources.list\";\n\
         Dir::Etc::SourceParts \"{folder}/none\";\n\
         Dir::Etc::Preferences \"{folder}/none\";\n\
         Dir::Etc::PreferencesParts \"{folder}/none\";\n\
         APT::Sandbox::User \"\";\n\
         APT::Get::AllowUnauthenticated \"false\";\n\
         Acquire::AllowInsecureRepositories \"false\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"3\";\n\
         Debug::NoLocking \"1\";\n"
    )
}

fn apt(folder: &Path, args: &[String]) -> Command {
    let mut command = Command::new("apt-get");
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["-q", "-c"]).arg(folder.join("apt.conf")).args(args);
    command
}

/// Returns apt's output, or its complaints as an error. If no mirror answers, apt complains, but
/// succeeds with old lists.
fn apt_ran(finished: Finished) -> Result<Vec<String>, String> {
    let lines = finished.lines.iter().map(String::as_str);
    let is_complaint =
        |line: &&str| line.starts_with("E: ") || line.starts_with("W: Failed to fetch");
    let complaints: Vec<&str> = lines.filter(is_complaint).collect();
    match (finished.ok(), complaints.is_empty()) {
        (true, true) => Ok(finished.lines),
        (_, false) => Err(complaints.join(" ")),
        (false, true) => Err(finished.lines.last().cloned().unwrap_or_default()),
    }
}

fn file_name(line: &str) -> Option<&str> {
    let name = line.strip_prefix('\'')?.split_once("' ")?.1.split(' ').next()?;
    name.ends_with(".deb").then_some(name)
}

fn mirrors(targets: &str, is_own: impl Fn(&str) -> bool) -> Vec<String> {
    let mut mirrors = Vec::new();
    for line in targets.lines() {
        if let [mirror, suite, "main"] = *line.split(' ').collect::<Vec<_>>()
            && is_own(suite)
            && !mirrors.iter().any(|known| known == mirror)
        {
            mirrors.push(mirror.to_owned());
        }
    }
    mirrors
}

fn field<'a>(release: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix('=');
    release.lines().find_map(value).map(|value| value.trim_matches('"'))
}

fn unpack(files: &[PathBuf], root: &Path) -> Result<(), String> {
    if root.exists() {
        fs::remove_dir_all(root).map_err(text)?;
    }
    fs::create_dir_all(root).map_err(text)?;
    // A server may run as another user.
    fs::set_permissions(root, Permissions::from_mode(0o755)).map_err(text)?;
    for file in files {
        output("dpkg-deb", &["-x", &file.display().to_string(), &root.display().to_string()])?;
    }
    // Unpacked programs get no security updates, so none may keep its set-user-ID bit.
    output("chmod", &["-R", "u-s,g-s", &root.display().to_string()])?;
    let loader = loader(root).ok_or("the packages have no dynamic loader")?;
    let mut folders = vec![PathBuf::from("usr/bin"), PathBuf::from("usr/sbin")];
    for entry in fs::read_dir(root.join("usr/lib/postgresql")).into_iter().flatten().flatten() {
        folders.push(Path::new("usr/lib/postgresql").join(entry.file_name()).join("bin"));
    }
    for folder in folders.iter().filter(|folder| root.join(folder).is_dir()) {
        wrap(root, folder, &loader).map_err(text)?;
    }
    Ok(())
}

fn loader(root: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(root.join("usr/lib")).ok()?.flatten();
    let mut files =
        folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten().flatten();
    let loader = files.find(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("ld-linux") && name.contains(".so")
    })?;
    Some(loader.path().strip_prefix(root).ok()?.to_path_buf())
}

/// Makes programs use the packages' loader and libraries: the system's may be too old.
fn wrap(root: &Path, folder: &Path, loader: &Path) -> std::io::Result<()> {
    let real = folder.with_extension("real");
    fs::rename(root.join(folder), root.join(&real))?;
    fs::create_dir(root.join(folder))?;
    fs::set_permissions(root.join(folder), Permissions::from_mode(0o755))?;
    let libraries = loader.parent().unwrap_or(loader);
    for entry in fs::read_dir(root.join(&real))? {
        let name = entry?.file_name();
        let (program, script) = (real.join(&name), root.join(folder).join(&name));
        let is_binary = fs::read(root.join(&program)).is_ok_and(|it| it.starts_with(b"\x7fELF"));
        if !is_binary {
            symlink(root.join(&program), script)?;
            continue;
        }
        let text = format!(
            "#!/bin/sh\n\
             root=${{0%/usr/*}}\n\
             exec \"$root/{}\" --argv0 \"$0\" --library-path \"$root/{}\" \"$root/{}\" \"$@\"\n",
            loader.display(),
            libraries.display(),
            program.display()
        );
        fs::write(&script, text)?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_taken_from_the_sources_of_the_machines_own_suite() {
        let targets = "http://mirror.test/debian/ bookworm main\n\
                       http://mirror.test/debian/ bookworm-updates main\n\
                       http://security.test/debian-security/ bookworm-security main\n\
                       https://other.test/ bookworm stable\n\
                       http://mirror.test/debian/ stable main\n\
                       https://third.test/ nodistro main\n";
        let is_own = |suite: &str| ["bookworm", "stable"].contains(&suite);
        assert_eq!(mirrors(targets, is_own), ["http://mirror.test/debian/"]);
        assert_eq!(mirrors(targets, |_| false), [""; 0]);
    }

    #[test]
    fn fields_of_the_release_are_read_with_and_without_quotes() {
        let release =
            "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_CODENAME=bookworm\nID=\"debian\"\n";
        assert_eq!(field(release, "VERSION_CODENAME"), Some("bookworm"));
        assert_eq!(field(release, "ID"), Some("debian"));
        assert_eq!(field(release, "VERSION"), None);
    }

    #[test]
    fn file_names_are_read_from_apts_list() {
        let line = "'http://mirror.test/pool/x_1%3a2_amd64.deb' x_1%3a2_amd64.deb 12 SHA256:0";
        assert_eq!(file_name(line), Some("x_1%3a2_amd64.deb"));
        assert_eq!(file_name("Reading package lists..."), None);
    }
}
