#![allow(dead_code, unused_imports, reason = "each test binary uses some of it")]

mod common;
pub(crate) mod meddler;
pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod process;

pub(crate) use self::common::*;
