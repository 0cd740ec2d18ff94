//! The conformance suite on a SQLite file.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use lockwright_conformance::{Connect, Factory, child, connector, harness};
use lockwright_core::{Clock, Result, async_trait};
use lockwright_sql::Sqlite;

struct File(PathBuf);

#[async_trait]
impl Factory for File {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        let path = self.0.clone();
        Ok(connector(move || {
            let path = path.clone();
            async move { Sqlite::open(path).await }
        }))
    }

    fn child(&self) -> Option<Command> {
        child::this_program(self.0.to_str()?)
    }
}

fn main() -> ExitCode {
    if let Some(code) = child::main(|path| async move { Sqlite::open(path).await }) {
        return code;
    }
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("no temporary folder: {error}");
            return ExitCode::FAILURE;
        }
    };
    harness::main(File(folder.path().join("locks.db")))
}
