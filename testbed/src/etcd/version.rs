use std::path::Path;

use crate::{Program, Result, folder, go};

pub(super) const PACKAGE: &str = "etcd-server";

pub(super) const CURRENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/etcd-go");

/// The version of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The installed version. Debian 12 has 3.4.23.
    Debian,
    /// Version 3.6.16. The first use builds it with Go, which takes minutes.
    Current,
}

impl Version {
    pub(super) fn program(self) -> Result<Program> {
        match self {
            Self::Debian => Ok(Program::new("etcd", PACKAGE)),
            Self::Current => {
                Ok(Program::new(folder::text(&go::build(Path::new(CURRENT))?), PACKAGE))
            }
        }
    }
}
