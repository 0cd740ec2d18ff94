//! Tests of the driver and the subjects.
#![forbid(unsafe_code)]

mod driver;
mod smoke;

use std::path::Path;

use lockwright_bench::driver::Plan;

fn smoke_of(backend: &str, logs: &Path) -> Plan {
    Plan {
        backends: vec![backend.to_owned()],
        only: vec![],
        rounds: 1,
        smoke: true,
        ours: vec![],
        peers: vec![],
        missing: vec![],
        logs: logs.to_owned(),
    }
}
