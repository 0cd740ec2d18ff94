use std::env;
use std::io;
use std::time::Duration;

use serde_json::json;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use crate::{Output, escape, stderr};

const VARIABLE: &str = "RUST_LOG";

/// Does nothing unless `RUST_LOG` is set.
pub(crate) fn init(output: Output) {
    let Some(filter) = env::var_os(VARIABLE).filter(|filter| !filter.is_empty()) else { return };
    match filter.to_string_lossy().parse::<Targets>() {
        Ok(targets) => {
            let lines = fmt::layer().with_ansi(false).with_writer(|| Stderr);
            registry().with(lines).with(targets).init();
        }
        Err(error) => {
            let message = format!(
                "{VARIABLE} is ignored: {error}; set it to a level or a list such as \
                 lockwright=debug,sqlx=warn"
            );
            output.report("not_logged", json!({ "message": message }), &message);
        }
    }
}

/// Receives a whole event in each write, and drops it if standard error isn't ready.
struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = escape(String::from_utf8_lossy(event).trim_end());
        stderr::write_within(&format!("{line}\n"), Duration::ZERO);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
