//! The servers' wall clock, to which a library, loaded by `LD_PRELOAD`, adds an offset. etcd,
//! linked statically, can't load it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lockwright_testbed::process;

use crate::servers::Result;

const SOURCE: &str = include_str!("clock.c");

#[derive(Debug)]
pub(crate) struct ServersClock(fs::File);

impl ServersClock {
    /// Prepares a clock for servers that start later. Returns `None` without a C compiler.
    pub(crate) fn begin(folder: &Path) -> Result<Option<Self>> {
        let Some(library) = compile(folder)? else { return Ok(None) };
        let path = folder.join("clock-offset");
        fs::write(&path, 0_i64.to_ne_bytes())?;
        let file = fs::File::options().read(true).write(true).open(&path)?;
        process::set_environment(vec![
            ("LD_PRELOAD".to_owned(), library.display().to_string()),
            ("LOCKWRIGHT_CHAOS_CLOCK".to_owned(), path.display().to_string()),
        ]);
        Ok(Some(Self(file)))
    }

    pub(crate) fn step(&self, milliseconds: i64) -> Result<()> {
        self.set(self.offset()? + milliseconds * 1_000_000)
    }

    pub(crate) fn reset(&self) -> Result<()> {
        self.set(0)
    }

    fn set(&self, nanos: i64) -> Result<()> {
        Ok(self.0.write_all_at(&nanos.to_ne_bytes(), 0)?)
    }

    fn offset(&self) -> Result<i64> {
        let mut nanos = [0; 8];
        self.0.read_exact_at(&mut nanos, 0)?;
        Ok(i64::from_ne_bytes(nanos))
    }
}

fn compile(folder: &Path) -> Result<Option<PathBuf>> {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    fs::write(&source, SOURCE)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]).args([&library, &source]);
    match compiler.status() {
        Ok(status) if status.success() => Ok(Some(library)),
        Ok(status) => Err(format!("{} can't be compiled: {status}", source.display()).into()),
        Err(_) => Ok(None),
    }
}
