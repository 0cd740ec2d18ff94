use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockwright::{Clock, Locks};
use lockwright_conformance::history::journal::{Event, Journal};
use lockwright_conformance::workload::{self, RemoteStore};
use serde::{Deserialize, Serialize};

pub(crate) const JOB: &str = "LOCKWRIGHT_CHAOS_CLIENT";

const PERIOD: Duration = Duration::from_millis(10);

pub(crate) const UNRECORDED_DELAY: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) plan: workload::Plan,
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) journal: PathBuf,
    pub(crate) register: String,
}

pub(crate) fn run() -> Result<(), String> {
    let text = std::env::var(JOB).map_err(|_| format!("{JOB} isn't set; the runner sets it"))?;
    let job: Job =
        serde_json::from_str(&text).map_err(|error| format!("{JOB} has no job: {error}"))?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let journal = job.journal()?;
    runtime.spawn(record_delays(Clock::boot(), journal.clone()));
    runtime.block_on(job.work(&journal))
}

impl Job {
    pub(crate) fn journal(&self) -> Result<Journal, String> {
        Journal::append_to(&self.journal, &self.name)
            .map_err(|error| format!("{}: {error}", self.journal.display()))
    }

    pub(crate) async fn work(&self, journal: &Journal) -> Result<(), String> {
        let store = RemoteStore::connect(&self.register)
            .map_err(|error| format!("the register at {}: {error}", self.register))?;
        let open = async || {
            let backend = lockwright::backend::open(&self.url).await?;
            Locks::builder(backend).ttl(self.plan.ttl).label(&self.name).build()
        };
        let work = workload::run(&self.plan, open, &Clock::boot(), journal, Arc::new(store)).await;
        work.map_err(|failure| format!("{}: {failure}", self.name))
    }
}

async fn record_delays(clock: Clock, journal: Journal) {
    loop {
        let since = clock.now();
        tokio::time::sleep(PERIOD).await;
        if clock.now().saturating_since(since) > PERIOD + UNRECORDED_DELAY {
            journal.write(Event::Delayed { since });
        }
    }
}
