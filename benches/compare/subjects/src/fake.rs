//! A subject for tests of the driver. The kind `honest` works. Each other kind has one defect.
#![forbid(unsafe_code)]

use std::fs::File;
use std::rc::Rc;
use std::time::Duration;

use lockwright_bench_protocol::{Cannot, Handshake, Library, Result, serve};
use tokio::sync::{Mutex, OwnedMutexGuard};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Honest,
    Open,
    Unable,
    Ending,
    Talkative,
}

fn kind() -> (&'static str, Kind) {
    match std::env::args().nth(1).as_deref() {
        Some("open") => ("open", Kind::Open),
        Some("unable") => ("unable", Kind::Unable),
        Some("ending") => ("ending", Kind::Ending),
        Some("talkative") => ("talkative", Kind::Talkative),
        _ => ("honest", Kind::Honest),
    }
}

/// A file lock, and a mutex between this process's tasks, because file locks aren't fair.
struct Fake {
    kind: Kind,
    prefix: String,
    ours: Rc<std::cell::RefCell<std::collections::HashMap<String, std::sync::Arc<Mutex<()>>>>>,
}

impl Library for Fake {
    type Hold = Option<(File, OwnedMutexGuard<()>)>;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let prefix = urls[0].trim_start_matches("sqlite:").to_owned();
        Ok(Self { kind: kind().1, prefix, ours: Rc::default() })
    }

    async fn lock(&self, name: &str, _ttl: Duration) -> Result<Self::Hold> {
        match self.kind {
            Kind::Open => return Ok(None),
            Kind::Unable => return Err(Cannot("it doesn't wait".to_owned()).into()),
            Kind::Ending => std::process::exit(1),
            Kind::Talkative => {
                println!("let me think");
                return Err("it talked".into());
            }
            Kind::Honest => {}
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
    let name = kind().0;
    serve::<Fake>(&Handshake {
        name,
        library: "none",
        runtime: "",
        backends: &["sqlite"],
        notes: &[],
    });
}
