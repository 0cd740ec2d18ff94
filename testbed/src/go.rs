use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err::{self as fs, File};

use crate::{Error, Program, Result, folder};

const PACKAGE: &str = "golang-go";

const PATIENCE: Duration = Duration::from_secs(20 * 60);

pub fn build(source: &Path) -> Result<PathBuf> {
    let place = place()?;
    fs::create_dir_all(&place)?;
    let program = place.join(name_of(source)?);
    let turn = File::create(program.with_extension("lock"))?;
    turn.lock()?;
    if !program.exists() {
        // A killed build must leave no partial file under the final name.
        let fresh = program.with_extension("new");
        go(&place)?
            // This makes the build a fifth faster.
            .args(["build", "-gcflags=all=-l", "-ldflags=-s"])
            .args(["-o", &folder::text(&fresh), "."])
            .run(source, "")
            .map_err(|error| explain(&error, source, &place))?;
        fs::rename(&fresh, &program)?;
    }
    Ok(program)
}

fn go(place: &Path) -> Result<Program> {
    Ok(Program::new("go", PACKAGE)
        .within(PATIENCE)
        // A user can delete the folder only if its modules are writable.
        .env("GOFLAGS", "-mod=readonly -modcacherw -buildvcs=false")
        .env("GOMODCACHE", folder::text(&place.join("modules")))
        .env("GOCACHE", folder::text(&place.join("cache")))
        .env("GOWORK", "off")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0"))
}

fn explain(error: &Error, source: &Path, place: &Path) -> Error {
    let module = fs::read_to_string(source.join("go.mod")).unwrap_or_default();
    let wanted = module.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or("?");
    // In the module's folder, an old Go doesn't print its version.
    let found = go(place).and_then(|go| go.arg("version").run(place, "")).unwrap_or_default();
    let (source, found) = (source.display(), found.trim());
    Error::new(format!("{source} needs Go {wanted} or newer; `{found}` can't build it: {error}"))
}

fn name_of(source: &Path) -> Result<String> {
    let files = fs::read_dir(source)?.map(|entry| Ok(entry?.path()));
    let mut files = files.collect::<io::Result<Vec<PathBuf>>>()?;
    files.sort_unstable();
    let mut hasher = DefaultHasher::new();
    for file in files.iter().filter(|file| file.is_file()) {
        fs::read(file)?.hash(&mut hasher);
    }
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    Ok(format!("{name}-{:016x}", hasher.finish()))
}

fn place() -> Result<PathBuf> {
    let ours = std::env::current_exe().ok();
    let target = ours.iter().flat_map(|exe| exe.ancestors()).find(|folder| {
        folder.join("CACHEDIR.TAG").is_file() && folder.join(".rustc_info.json").is_file()
    });
    target.map_or_else(folder::cache, |target| Ok(target.join("tmp"))).map(|it| it.join("go"))
}
