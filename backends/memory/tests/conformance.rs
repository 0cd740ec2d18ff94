//! The conformance suite on the memory backend, on a clock that the suite moves.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use lockwright_conformance::{Connect, Factory, Runtime, connector, harness};
use lockwright_core::{Clock, Result, async_trait};
use lockwright_memory::Memory;

struct InProcess;

#[async_trait]
impl Factory for InProcess {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        let store = Memory::with_clock(clock.clone());
        Ok(connector(move || {
            let store = store.clone();
            async move { Ok(store) }
        }))
    }

    fn runtime(&self) -> Runtime {
        Runtime::Paused
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }
}

fn main() -> ExitCode {
    harness::main(InProcess)
}
