//! A class-data-sharing archive, with which a JVM needs a third less processor time to start.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fs_err as fs;

use super::options::Options;
use super::server::{self, Ports};
use crate::wait::SOON;
use crate::{Program, Result, folder};

/// Returns the JVM's option for the archive, if Java (13 or later) can create one.
pub(super) fn option() -> Option<String> {
    static ARCHIVE: OnceLock<Option<String>> = OnceLock::new();
    let archive = ARCHIVE.get_or_init(|| provide().ok().map(|archive| folder::text(&archive)));
    archive.as_ref().map(|archive| format!("-XX:SharedArchiveFile={archive}"))
}

fn provide() -> Result<PathBuf> {
    let cache = folder::cache()?;
    let archive = cache.join(format!("zookeeper-{:016x}.jsa", versions()?));
    if !archive.exists() {
        let place = folder::temporary("zookeeper", None)?;
        let fresh = tempfile::Builder::new().tempdir_in(&cache)?;
        let fresh = fresh.path().join("classes");
        write(place.path(), &fresh)?;
        fs::rename(&fresh, &archive)?;
    }
    Ok(archive)
}

/// Returns a hash of the jar files' and Java's paths and times: the JVM ignores an archive of other
/// versions.
fn versions() -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let java = Program::new("java", server::JAVA_PACKAGE).locate()?;
    for path in server::class_path()?.split(':').map(Path::new).chain([java.as_path()]) {
        let path = fs::canonicalize(path)?;
        let modified = fs::metadata(&path)?.modified()?;
        (path, modified).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// A standalone server doesn't load the election classes, but an ensemble of one member does.
fn write(place: &Path, archive: &Path) -> Result<()> {
    let ports = Ports::find();
    let (quorum, election) = (ports.quorum, ports.election);
    let members =
        format!("standaloneEnabled=false\nserver.1=127.0.0.1:{quorum}:{election}:participant\n");
    let options = Options::default();
    server::prepare(place, 1, &options, ports, &members, "127.0.0.1 localhost\n")?;
    let option = format!("-XX:ArchiveClassesAtExit={}", folder::text(archive));
    let mut process = server::start_with(place, &options, Some(option))?;
    process.wait_until_ready(|| server::ask(ports.clients, "ruok", SOON).ok())?;
    process.stop();
    Ok(())
}
