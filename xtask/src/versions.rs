use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::binaries::{self, Binary};
use crate::newer_servers::{Root, SERVERS, Suite};
use crate::options::Options;
use crate::packages::{self, Archive};
use crate::report::Report;
use crate::{folders, process, servers, tmp};

pub(crate) fn step(options: &Options) -> Result<Report, String> {
    if let Some(reason) = obstacle(options) {
        return Ok(Report::left_out(reason));
    }
    let place = Place::new()?;
    let roots = place.provide()?;
    let built = options.tests.get().cloned().map_or_else(build, Ok)?;
    let mut jobs: Vec<Binary> = Vec::new();
    for (server, root) in SERVERS.iter().zip(&roots) {
        for Suite { package, test, only } in server.suites {
            let binary = built.iter().find(|it| it.package == *package && it.name == *test);
            let binary = binary.ok_or_else(|| format!("{package} has no test {test}"))?;
            jobs.push(binary.clone().on(server.title, root.clone(), *only));
        }
    }
    // These suites mostly wait, so three run in parallel, not two. With four, answers are late.
    let at_a_time = if options.at_a_time == 1 { 1 } else { options.at_a_time + 1 };
    let mut report = binaries::run("versions", jobs, &[], at_a_time, process::RUNNING);
    report.left_out.retain(|test| !test.contains("[not promised]"));
    Ok(report)
}

fn build() -> Result<Vec<Binary>, String> {
    let mut args = vec!["--workspace", "--all-features"];
    let mut tests: Vec<&str> =
        SERVERS.iter().flat_map(|it| it.suites).map(|suite| suite.test).collect();
    tests.sort_unstable();
    tests.dedup();
    tests.iter().for_each(|test| args.extend(["--test", test]));
    binaries::build("versions", &args)
}

fn obstacle(options: &Options) -> Option<&'static str> {
    if options.quick {
        return Some("--quick runs no servers");
    }
    let has_none = !servers::may_install() || !packages::has_later_suites();
    has_none.then_some(
        "newer server versions come from packages, which are downloaded only as root on Debian or \
         Ubuntu",
    )
}

/// The step `versions` retries a failed download.
pub(crate) fn download(options: &Options) -> Result<Report, String> {
    if obstacle(options).is_some() {
        return Ok(Report::of(true));
    }
    let provided = Place::new().and_then(|place| match place.is_temporary {
        true => Ok(Vec::new()),
        false => place.provide(),
    });
    if let Err(problem) = provided {
        println!("     {problem}");
    }
    Ok(Report::of(true))
}

struct Place {
    kept: PathBuf,
    roots: PathBuf,
    is_temporary: bool,
}

impl Place {
    /// Uses a temporary folder if the servers' users can't enter the target folder.
    fn new() -> Result<Self, String> {
        let kept = folders::target().join("servers");
        let said = |error: std::io::Error| format!("{}: {error}", kept.display());
        fs::create_dir_all(&kept).map_err(said)?;
        let kept = kept.canonicalize().map_err(said)?;
        let may_be_entered =
            |folder: &Path| folder.metadata().is_ok_and(|it| it.permissions().mode() & 0o001 != 0);
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o755)).map_err(said)?;
        let is_temporary = !kept.ancestors().all(may_be_entered);
        let roots = if is_temporary {
            tmp::folder().join(format!("lockwright-servers-{}", std::process::id()))
        } else {
            kept.clone()
        };
        Ok(Self { kept, roots, is_temporary })
    }

    fn provide(&self) -> Result<Vec<Root>, String> {
        // The steps `download` and `versions` may run in parallel.
        static PROVIDING: Mutex<()> = Mutex::new(());
        let _alone = PROVIDING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut archive = None;
        let mut roots = Vec::new();
        let mut problems = Vec::new();
        for server in SERVERS {
            let folder = self.roots.join(server.folder);
            let found = match server.version(&folder) {
                Ok(version) => Ok(version),
                Err(_) => {
                    let archive = match &mut archive {
                        Some(archive) => archive,
                        none => none.insert(Archive::of_this_machine(&self.kept.join("packages"))?),
                    };
                    let fresh = self.roots.join(format!("{}.new", server.folder));
                    archive
                        .unpack(server.packages, &fresh, |root| server.version(root))
                        .and_then(|version| moved(&fresh, &folder).map(|()| version))
                }
            };
            match found {
                Ok(version) => {
                    let server = format!("{} {version}", server.product());
                    println!("     {server}");
                    roots.push(Root { folder, server });
                }
                Err(problem) => problems.push(format!("{}: {problem}", server.title)),
            }
        }
        if problems.is_empty() { Ok(roots) } else { Err(problems.join("\n")) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.roots);
        }
    }
}

fn moved(fresh: &Path, folder: &Path) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(said)?;
    }
    fs::rename(fresh, folder).map_err(said)
}
