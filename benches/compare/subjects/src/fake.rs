//! A subject for tests of the driver. The kind `honest` works; each other kind has a defect.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use lockwright_bench_protocol::{Cannot, Handshake, Library, Result, serve};
use tokio::sync::{Mutex, OwnedMutexGuard};

fn kind() -> &'static str {
    std::env::args().nth(1).map_or("honest", |kind| &*kind.leak())
}

/// File locks aren't fair, so this process's tasks queue for a mutex first.
struct Fake {
    kind: &'static str,
    prefix: String,
    ours: RefCell<HashMap<String, Arc<Mutex<()>>>>,
}

impl Library for Fake {
    type Hold = Option<(File, OwnedMutexGuard<()>)>;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let prefix = urls[0].trim_start_matches("sqlite:").to_owned();
        Ok(Self { kind: kind(), prefix, ours: RefCell::default() })
    }

    async fn lock(&self, name: &str, _ttl: Duration) -> Result<Self::Hold> {
        match self.kind {
            "open" => return Ok(None),
            "unable" => return Err(Cannot("it doesn't wait".to_owned()).into()),
            "ending" => std::process::exit(1),
            "talkative" => {
                println!("let me think");
                return Err("it talked".into());
            }
            _ => {}
        }
        let mutex = self.ours.borrow_mut().entry(name.to_owned()).or_default().clone();
        let ours = mutex.lock_owned().await;
        let file = File::create(format!("{}.{}", self.prefix, name.replace('/', "-")))?;
        while file.try_lock().is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(Some((file, ours)))
    }

    async fn unlock(&self, _hold: Self::Hold) -> Result<()> {
        Ok(())
    }
}

fn main() {
    let (name, backends) = (kind(), &["sqlite"]);
    serve::<Fake>(&Handshake { name, library: "none", runtime: "", backends, notes: &[] });
}
