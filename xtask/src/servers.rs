use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process;

struct Need {
    what: &'static str,
    binary: &'static str,
    /// Folders to search before PATH. A `*` matches a number, the largest first.
    places: &'static [&'static str],
    /// With these arguments, a complete program exits with 0, and prints its version if `least` is
    /// set.
    probe: &'static [&'static str],
    /// Required files outside PATH, such as Java libraries.
    files: &'static [&'static str],
    least: Option<Version>,
    packages: &'static [&'static str],
    why: &'static str,
}

pub(crate) type Version = (u32, u32);

const VERSION: Need = Need {
    what: "",
    binary: "",
    places: &[],
    probe: &["--version"],
    files: &[],
    least: None,
    packages: &[],
    why: "",
};

#[rustfmt::skip]
const NEEDS: &[Need] = &[
    Need { what: "Redis", binary: "redis-server", least: Some((6, 0)), packages: &["redis-server"],
        why: "the redis backend is tested against a real server", ..VERSION },
    Need { what: "PostgreSQL", binary: "postgres", least: Some((15, 0)), packages: &["postgresql"],
        places: &["/usr/lib/postgresql/*/bin"], why: "the sql backend is tested against a real server", ..VERSION },
    // `mariadb-server` would add a service and a database.
    Need { what: "MariaDB", binary: "mariadbd", least: Some((10, 6)), packages: &["mariadb-server-core"],
        probe: &["--no-defaults", "--version"], why: "the sql backend is tested against a real server", ..VERSION },
    Need { what: "MariaDB's command line client", binary: "mariadb", least: None, packages: &["mariadb-client-core"],
        probe: &["--no-defaults", "--version"], why: "tests look at the server through it", ..VERSION },
    Need { what: "SQLite's command line client", binary: "sqlite3", packages: &["sqlite3"],
        why: "a test of the command locks its database through it", ..VERSION },
    Need { what: "PgBouncer", binary: "pgbouncer", least: Some((1, 18)), packages: &["pgbouncer"],
        why: "the sql backend is tested through a pool of connections that isn't its own", ..VERSION },
    Need { what: "OpenSSL's command", binary: "openssl", least: Some((1, 1)), packages: &["openssl"],
        probe: &["version"], why: "it makes the certificates of servers that are spoken to over TLS", ..VERSION },
    Need { what: "Python with venv and pip", binary: "python3", least: Some((3, 10)), packages: &["python3", "python3-venv"],
        probe: &["-c", "import venv, ensurepip, sys; print(sys.version)"],
        why: "interoperation is tested with redis-py and kazoo, which pip fetches", ..VERSION },
    // The current etcd needs this version. Debian's Go may be older.
    Need { what: "Go", binary: "go", least: Some((1, 26)), packages: &["golang-go"],
        probe: &["version"],
        why: "it builds today's etcd, and redsync and etcd's own client for interoperation", ..VERSION },
    Need { what: "etcd", binary: "etcd", least: Some((3, 4)), packages: &["etcd-server"],
        why: "the etcd backend is tested against a real cluster", ..VERSION },
    Need { what: "etcdctl", binary: "etcdctl", least: Some((3, 4)), packages: &["etcd-client"],
        probe: &["version"],
        why: "tests look at the cluster through it, and interoperation is tested with its locks", ..VERSION },
    // etcd's `.proto` files import standard files of `libprotobuf-dev`.
    Need { what: "The compiler of protocol buffers", binary: "protoc", least: None, packages: &["protobuf-compiler", "libprotobuf-dev"],
        probe: &["--descriptor_set_out=/dev/null", "google/protobuf/descriptor.proto"],
        why: "the client library for etcd is built with it", ..VERSION },
    Need { what: "Java with its compiler", binary: "javac", least: Some((11, 0)), packages: &["default-jdk-headless"],
        probe: &["-version"],
        why: "ZooKeeper runs on it, and interoperation is tested with programs in its language", ..VERSION },
    // `zookeeper` would add a service and a desktop Java.
    Need { what: "ZooKeeper", binary: "java", least: Some((3, 5)), packages: &["libzookeeper-java"],
        probe: &["-cp", "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.Version", "--full"],
        files: &["/usr/share/java/zookeeper.jar"],
        why: "the zookeeper backend is tested against a real ensemble", ..VERSION },
    Need { what: "Curator", binary: "java", least: None, packages: &["libcurator-client-java", "libcurator-framework-java", "libcurator-recipes-java"],
        files: &["/usr/share/java/curator-client.jar", "/usr/share/java/curator-framework.jar", "/usr/share/java/curator-recipes.jar"],
        why: "interoperation is tested with its locks on ZooKeeper", ..VERSION },
    Need { what: "Valgrind", binary: "valgrind", least: Some((3, 19)), packages: &["valgrind"],
        probe: &["--tool=callgrind", "--version"], why: "it counts the instructions of the hot paths", ..VERSION },
];

const FOR_QUICK: &[&str] = &["protoc", "sqlite3"];

const FOR_PEERS_TOO: &[&str] = &["go", "javac", "python3"];

#[rustfmt::skip]
const FOR_PEERS: &[Need] = &[
    Need { what: "Maven", binary: "mvn", least: Some((3, 6)), packages: &["maven"],
        why: "it fetches Redisson and Curator", ..VERSION },
    Need { what: "Node.js", binary: "node", least: Some((18, 0)), packages: &["nodejs"],
        why: "the peers in its language run on it", ..VERSION },
    Need { what: "npm", binary: "npm", least: None, packages: &["npm"],
        why: "it fetches the libraries of Node.js", ..VERSION },
];

pub(crate) fn provide(with_servers: bool) -> Result<(), String> {
    let wanted = NEEDS.iter().filter(|need| with_servers || FOR_QUICK.contains(&need.binary));
    let missing = provide_these(&wanted.collect::<Vec<_>>());
    if missing.is_empty() { Ok(()) } else { Err(instructions(&missing)) }
}

pub(crate) fn provide_for_peers() -> BTreeMap<&'static str, String> {
    let wanted = NEEDS.iter().filter(|need| FOR_PEERS_TOO.contains(&need.binary)).chain(FOR_PEERS);
    let missing = provide_these(&wanted.collect::<Vec<_>>()).into_iter();
    let reason = |need: &Need, problem| {
        format!("{} {problem}; Debian has it in {}", need.what, need.packages.join(", "))
    };
    missing.map(|(need, problem)| (need.binary, reason(need, problem))).collect()
}

fn provide_these(wanted: &[&'static Need]) -> Vec<(&'static Need, String)> {
    let missing = missing(wanted);
    for (need, problem) in &missing {
        println!("     {} {problem}; {}", need.what, need.why);
    }
    if missing.is_empty() || !may_install() {
        return missing;
    }
    let packages = packages(&missing);
    println!("     installing {}", packages.join(" "));
    let mut command = Command::new("sh");
    command.args(["-c", include_str!("install.sh"), "install.sh"]).args(&packages);
    if process::quietly("servers", command).is_ok() { self::missing(wanted) } else { missing }
}

fn packages(missing: &[(&Need, String)]) -> Vec<&'static str> {
    missing.iter().flat_map(|(need, _)| need.packages).copied().collect()
}

fn missing(wanted: &[&'static Need]) -> Vec<(&'static Need, String)> {
    wanted.iter().filter_map(|need| Some((*need, problem(need)?))).collect()
}

fn problem(need: &Need) -> Option<String> {
    let Some(binary) = candidates(need).into_iter().find(|candidate| starts(candidate)) else {
        return Some(format!("is not installed (no {} {})", need.binary, searched(need)));
    };
    if let Some(file) = need.files.iter().find(|file| !Path::new(file).is_file()) {
        return Some(format!("is not installed (no {file})"));
    }
    let output = match Command::new(&binary).args(need.probe).output() {
        Ok(output) => output,
        Err(error) => return Some(format!("can't be run ({}: {error})", binary.display())),
    };
    if !output.status.success() {
        return Some(format!("is not complete ({} {})", need.binary, need.probe.join(" ")));
    }
    let least = need.least?;
    match version(&String::from_utf8_lossy(&output.stdout)) {
        Some(found) if found >= least => None,
        Some((major, minor)) => Some(format!(
            "is {major}.{minor}, and {}.{} is the oldest that will do",
            least.0, least.1
        )),
        None => Some(format!("doesn't say its version ({} {})", need.binary, need.probe.join(" "))),
    }
}

fn candidates(need: &Need) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = need.places.iter().flat_map(|place| expand(place)).collect();
    folders.extend(std::env::split_paths(&path));
    folders.extend(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
    folders.into_iter().map(|folder| folder.join(need.binary)).collect()
}

fn expand(place: &str) -> Vec<PathBuf> {
    let Some((above, below)) = place.split_once("/*/") else { return vec![PathBuf::from(place)] };
    let mut numbered: Vec<(u32, PathBuf)> = std::fs::read_dir(above)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| Some((path.file_name()?.to_str()?.parse().ok()?, path.join(below))))
        .collect();
    numbered.sort_unstable_by(|a, b| b.cmp(a));
    numbered.into_iter().map(|(_, path)| path).collect()
}

pub(crate) fn newest(path: &Path) -> Option<PathBuf> {
    expand(path.to_str()?).into_iter().find(|path| path.is_file())
}

fn starts(binary: &Path) -> bool {
    let mut command = Command::new(binary);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    binary.is_file() && command.status().is_ok()
}

fn searched(need: &Need) -> String {
    need.places.iter().map(|place| format!("in {place} or ")).collect::<String>() + "in PATH"
}

/// Parses a text such as `v=7.0.15` or `3.11.2 (main, ...)`.
pub(crate) fn version(text: &str) -> Option<Version> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| {
        let mut parts = word.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

fn instructions(missing: &[(&Need, String)]) -> String {
    let mut text = String::from("Please install, and run this again:\n");
    for (need, _) in missing {
        let least = need.least.map(|(major, minor)| format!(" {major}.{minor} or newer"));
        let (what, least) = (need.what, least.unwrap_or_default());
        let _ = writeln!(text, "  {what}{least}, so that `{}` is {}", need.binary, searched(need));
        for file in need.files {
            let _ = writeln!(text, "    and {file} is there");
        }
    }
    let packages = packages(missing).join(" ");
    let _ =
        writeln!(text, "On Debian or Ubuntu: apt-get install --no-install-recommends {packages}");
    text += "  (run as root there, this command does it itself, and starts and enables nothing)\n";
    text += "Without any server: cargo xtask test --quick";
    text
}

pub(crate) fn may_install() -> bool {
    let files = ["/etc/debian_version", "/usr/bin/apt-get"];
    files.iter().all(|file| Path::new(file).exists())
        && process::output("id", &["-u"]).is_ok_and(|user| user == "0\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_where_they_stand() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n";
        assert_eq!(version(redis), Some((7, 0)));
        assert_eq!(version("3.11.2 (main, Apr 28 2025, 14:11:48) [GCC 12.2.0]"), Some((3, 11)));
        assert_eq!(version("no digits here"), None);
        assert!((6, 2) < (10, 0));
    }

    #[test]
    fn missing_program_or_file_is_named_with_its_package() {
        let base = Need { packages: &["redis-server"], least: Some((6, 0)), ..VERSION };
        let (binary, places) = ("lockwright-no-such-binary", &["/no/such/*/folder"][..]);
        let probe = &["-c", "true"];
        for (need, missing, instruction) in [
            (Need { binary, places, ..base }, binary, "in /no/such/*/folder or in PATH"),
            (
                Need { binary: "sh", probe, files: &["/no/such.jar"], ..base },
                "no /no/such.jar",
                "/no/such.jar is there",
            ),
        ] {
            let problem = problem(&need).unwrap();
            assert!(problem.contains(missing), "{problem}");
            let text = instructions(&[(&need, problem)]);
            let install = "apt-get install --no-install-recommends redis-server";
            for expected in [instruction, "6.0 or newer", install, "--quick"] {
                assert!(text.contains(expected), "{text}");
            }
        }
    }

    #[test]
    fn a_version_that_is_too_old_is_reported() {
        let probe = &["-c", "echo 5.3"];
        let need = |least| Need { binary: "sh", probe, least: Some(least), ..VERSION };
        assert_eq!(problem(&need((5, 3))), None);
        assert!(problem(&need((5, 4))).unwrap().contains("is 5.3, and 5.4"));
    }

    #[test]
    fn the_largest_number_comes_first_and_what_is_no_number_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["9", "16", "15", "common"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let found = expand(&format!("{}/*/bin", folder.path().display()));
        assert_eq!(found, ["16/bin", "15/bin", "9/bin"].map(|name| folder.path().join(name)));
    }
}
