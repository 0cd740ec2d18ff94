//! The conformance suite on the memory backend, on a clock that the suite moves.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_conformance::{Factory, Protected, Runtime, connector, harness, protect};
use lockwright_core::backend_util::lock;
use lockwright_core::fencing::{Fenced, Gate};
use lockwright_core::{Clock, LockName, Result, async_trait};
use lockwright_memory::Memory;

#[derive(Clone, Default)]
struct Service {
    gate: Gate,
    values: Arc<Mutex<HashMap<LockName, u64>>>,
}

struct Value(Service, LockName);

#[async_trait]
impl Protected for Value {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        let inside = self.0.gate.enter(&self.1, fenced).await?;
        // Other tasks run during the write, and its duration varies, as with a remote service.
        Clock::tokio().sleep(Duration::from_millis(fenced.fence.get() % 3)).await;
        lock(&self.0.values).insert(self.1.clone(), value);
        drop(inside);
        Ok(())
    }

    async fn read(&self) -> Result<Option<u64>> {
        Ok(lock(&self.0.values).get(&self.1).copied())
    }
}

fn main() -> ExitCode {
    let service = Service::default();
    let factory = Factory::new(|clock| {
        let store = Memory::with_clock(clock.clone());
        connector(move || std::future::ready(Ok(store.clone())))
    });
    let value = move |name| std::future::ready(Ok(Value(service.clone(), name)));
    let factory = factory.runtime(Runtime::Paused).ttl(Duration::from_secs(10));
    harness::main(factory.protected(protect(value)))
}
