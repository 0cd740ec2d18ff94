//! What must be installed for the tests, and its installation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process;

/// Something that the tests run, and that cargo can't build.
struct Need {
    /// For people.
    what: &'static str,
    binary: &'static str,
    /// Folders where it is looked for before PATH. A `*` stands for a number, and the largest comes
    /// first. After PATH come the folders of servers, which a user's PATH often leaves out.
    places: &'static [&'static str],
    /// Arguments with which it exits with 0 if it is complete, and says its version if `least` is
    /// given.
    probe: &'static [&'static str],
    /// The oldest version that will do.
    least: Option<Version>,
    /// The Debian packages that have it.
    packages: &'static [&'static str],
    /// What it is needed for.
    why: &'static str,
}

type Version = (u32, u32);

const NEEDS: &[Need] = &[
    Need {
        what: "Redis",
        binary: "redis-server",
        places: &[],
        probe: &["--version"],
        least: Some((6, 0)),
        packages: &["redis-server"],
        why: "the redis backend is tested against a real server",
    },
    Need {
        what: "PostgreSQL",
        binary: "postgres",
        places: &["/usr/lib/postgresql/*/bin"],
        probe: &["--version"],
        least: Some((15, 0)),
        packages: &["postgresql"],
        why: "the sql backend is tested against a real server",
    },
    Need {
        what: "MariaDB",
        binary: "mariadbd",
        places: &[],
        probe: &["--no-defaults", "--version"],
        least: Some((10, 6)),
        // Not `mariadb-server`, which is the same with a service and a database.
        packages: &["mariadb-server-core"],
        why: "the sql backend is tested against a real server",
    },
    Need {
        what: "MariaDB's command line client",
        binary: "mariadb",
        places: &[],
        probe: &["--no-defaults", "--version"],
        least: None,
        packages: &["mariadb-client-core"],
        why: "tests look at the server through it",
    },
    Need {
        what: "PgBouncer",
        binary: "pgbouncer",
        places: &[],
        probe: &["--version"],
        least: Some((1, 18)),
        packages: &["pgbouncer"],
        why: "the sql backend is tested through a pool of connections that isn't its own",
    },
    Need {
        what: "OpenSSL's command",
        binary: "openssl",
        places: &[],
        probe: &["version"],
        least: Some((1, 1)),
        packages: &["openssl"],
        why: "it makes the certificates of servers that are spoken to over TLS",
    },
    Need {
        what: "Python with venv and pip",
        binary: "python3",
        places: &[],
        probe: &["-c", "import venv, ensurepip, sys; print(sys.version)"],
        least: Some((3, 10)),
        packages: &["python3", "python3-venv"],
        why: "interoperation is tested with redis-py, which pip puts into a folder of the tests",
    },
    Need {
        what: "Go",
        binary: "go",
        places: &[],
        probe: &["version"],
        least: Some((1, 19)),
        packages: &["golang-go"],
        why: "interoperation is tested with redsync, which Go builds in a folder of the tests",
    },
];

/// Looks whether everything is there, and installs what isn't where it can.
pub(crate) fn provide() -> Result<(), String> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    for (need, problem) in &missing {
        println!("     {} {problem}; {}", need.what, need.why);
    }
    if !is_debian() || !is_root() {
        return Err(instructions(&missing));
    }
    let packages: Vec<&str> = missing.iter().flat_map(|(need, _)| need.packages).copied().collect();
    println!("     installing {}", packages.join(" "));
    let mut command = Command::new("sh");
    command.args(["-c", include_str!("install.sh"), "install.sh"]).args(&packages);
    if !process::quietly("servers", command).ok() {
        return Err(instructions(&missing));
    }
    let still = self::missing();
    if still.is_empty() { Ok(()) } else { Err(instructions(&still)) }
}

/// What is missing, each with what is wrong about it.
fn missing() -> Vec<(&'static Need, String)> {
    NEEDS.iter().filter_map(|need| Some((need, problem(need)?))).collect()
}

fn problem(need: &Need) -> Option<String> {
    // A folder that a removed version left, or one without a server, doesn't end the search.
    let Some(binary) = candidates(need).into_iter().find(|candidate| starts(candidate)) else {
        return Some(format!("is not installed (no {} {})", need.binary, searched(need)));
    };
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

/// Where it may be, in the order of preference.
fn candidates(need: &Need) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = need.places.iter().flat_map(|place| expand(place)).collect();
    folders.extend(std::env::split_paths(&path));
    folders.extend(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
    folders.into_iter().map(|folder| folder.join(need.binary)).collect()
}

/// The folders that `place` means: `/usr/lib/postgresql/*/bin`, say.
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

/// Whether it can be run at all; what comes of it is another question.
fn starts(binary: &Path) -> bool {
    let mut command = Command::new(binary);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    binary.is_file() && command.status().is_ok()
}

fn searched(need: &Need) -> String {
    need.places.iter().map(|place| format!("in {place} or ")).collect::<String>() + "in PATH"
}

/// The first thing in `text` that looks like a version: `v=7.0.15`, `3.11.2 (main, ...)`.
fn version(text: &str) -> Option<Version> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| {
        let mut parts = word.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

fn instructions(missing: &[(&Need, String)]) -> String {
    let mut text = String::from("Please install, and run this again:\n");
    for (need, _) in missing {
        let least = need.least.map(|(major, minor)| format!(" {major}.{minor} or newer"));
        let _ = writeln!(
            text,
            "  {}{}, so that `{}` is {}",
            need.what,
            least.unwrap_or_default(),
            need.binary,
            searched(need)
        );
    }
    let packages: Vec<&str> = missing.iter().flat_map(|(need, _)| need.packages).copied().collect();
    let _ = writeln!(
        text,
        "On Debian or Ubuntu: apt-get install --no-install-recommends {}",
        packages.join(" ")
    );
    text += "  (run as root there, this command does it itself, and starts and enables nothing)\n";
    text += "Without any server: cargo xtask test --quick";
    text
}

fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists() && Path::new("/usr/bin/apt-get").exists()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
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
    fn what_is_missing_is_named_with_what_to_install() {
        let need = Need {
            what: "Redis",
            binary: "lockwright-no-such-binary",
            places: &["/no/such/*/folder"],
            probe: &["--version"],
            least: Some((6, 0)),
            packages: &["redis-server"],
            why: "",
        };
        let problem = problem(&need).unwrap();
        assert!(problem.contains("lockwright-no-such-binary"), "{problem}");
        let text = instructions(&[(&need, problem)]);
        assert!(text.contains("Redis 6.0 or newer"), "{text}");
        assert!(text.contains("in /no/such/*/folder or in PATH"), "{text}");
        assert!(text.contains("apt-get install --no-install-recommends redis-server"), "{text}");
        assert!(text.contains("--quick"), "{text}");
    }

    #[test]
    fn a_version_that_is_too_old_is_said() {
        let need = |least| Need {
            what: "the shell",
            binary: "sh",
            places: &[],
            probe: &["-c", "echo 5.3"],
            least: Some(least),
            packages: &[],
            why: "",
        };
        assert_eq!(problem(&need((5, 3))), None);
        assert!(problem(&need((5, 4))).unwrap().contains("is 5.3, and 5.4"));
    }

    #[test]
    fn the_largest_number_comes_first_and_what_is_no_number_is_left_out() {
        let folder = std::env::temp_dir().join(format!("lockwright-xtask-{}", std::process::id()));
        for name in ["9", "16", "15", "common"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let found = expand(&format!("{}/*/bin", folder.display()));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ["16/bin", "15/bin", "9/bin"].map(|name| folder.join(name)));
    }
}
