use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use lockwright_interop::{Peer, programs};
use lockwright_testbed::go;

const CONCURRENCY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go/concurrency");
const CURATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/Curator.java");
const ETCDCTL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/etcdctl_lock.py");
const KAZOO: (&str, &str) = ("kazoo", "2.11.0");

/// Debian's jars. Java finds their dependencies through their manifests.
const JARS: &str = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-nop.jar";

const JAVA: [&str; 4] =
    ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"];

fn start(mut command: Command, ttl: &str, servers: &str) -> Peer {
    command.args([ttl, servers]);
    Peer::start(command)
}

pub(crate) fn concurrency(ttl: &str, servers: &str) -> Peer {
    start(Command::new(go::build(Path::new(CONCURRENCY)).unwrap()), ttl, servers)
}

pub(crate) fn curator(ttl: &str, servers: &str) -> Peer {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    let classes = CLASSES.get_or_init(compiled).display();
    let mut command = Command::new("java");
    command.args(JAVA).args(["-cp", &format!("{classes}:{JARS}"), "Curator"]);
    start(command, ttl, servers)
}

pub(crate) fn etcdctl(ttl: &str, servers: &str) -> Peer {
    let mut command = Command::new("python3");
    command.args(["-B", ETCDCTL]);
    start(command, ttl, servers)
}

pub(crate) fn kazoo(ttl: &str, servers: &str) -> Peer {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    start(programs::python("kazoo_lock.py", KAZOO, folder), ttl, servers)
}

fn compiled() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    std::fs::read(CURATOR).unwrap().hash(&mut hasher);
    let name = format!("curator-{:016x}", hasher.finish());
    programs::create_once(Path::new(env!("CARGO_TARGET_TMPDIR")), &name, |temporary| {
        let classes = temporary.join("classes");
        let mut javac = Command::new("javac");
        javac.args(["-cp", JARS, "-d"]).args([&classes, Path::new(CURATOR)]);
        programs::output(&mut javac, "default-jdk-headless or libcurator-recipes-java");
        classes
    })
}
