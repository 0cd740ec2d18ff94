use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::ended_by;
use super::signals::Signals;
use crate::{Failure, Output, duration, exit, millis};

/// The shortest and the longest pause while the server is unavailable.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

pub(super) async fn campaign(
    output: Output,
    name: &str,
    signals: &mut Signals,
    mut run: impl AsyncFnMut(&mut Signals) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    // `None` until the first loss: earlier failures end the campaign.
    let mut next_pause: Option<Duration> = None;
    loop {
        let began = Instant::now();
        let (failure, pause, next) = match (run(signals).await, next_pause) {
            (Err(failure), _) if failure.kind == "lost" => {
                // A command that ends at once must not run in a tight loop.
                (failure, PAUSE.0.saturating_sub(began.elapsed()), PAUSE.0)
            }
            (Err(failure), Some(pause)) if failure.code == exit::UNAVAILABLE => {
                (failure, pause, longer(pause))
            }
            (result, _) => return result,
        };
        // The command may have ended by this signal, and not by the loss.
        if let Some(signal) = signals.termination() {
            return Ok(ended_by(signal));
        }
        report(output, name, &failure, pause);
        tokio::select! {
            () = sleep(pause) => {}
            signal = signals.next_ending() => return Ok(ended_by(signal)),
        }
        next_pause = Some(next);
    }
}

pub(crate) fn longer(pause: Duration) -> Duration {
    (pause * 2).clamp(PAUSE.0, PAUSE.1)
}

fn report(output: Output, name: &str, failure: &Failure, pause: Duration) {
    let when = if pause.is_zero() {
        "requests the lock again".to_owned()
    } else {
        format!("requests the lock again in {}", duration::show(pause))
    };
    output.report(
        "retrying",
        json!({ "name": name, "message": failure.message, "pause_ms": millis(pause) }),
        &format!("{}; {when}", failure.message),
    );
}
