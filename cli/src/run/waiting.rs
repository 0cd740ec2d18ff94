use std::time::{Duration, Instant};

use lockwright::operator::{Holder, Inspection};
use lockwright::{Locks, Result};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::args::Run;
use crate::run::process::foreground::{Terminal, group_of};
use crate::{Output, duration, escape};

const FIRST_REFRESH: Duration = Duration::from_millis(300);

const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// How long the report of the holders may delay the exit.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn show_holder_until<H>(
    output: Output,
    run: &Run,
    locks: &Locks,
    acquire: impl Future<Output = Result<H>>,
) -> Result<H> {
    if output.has_status_line() && !run.request.quiet {
        let line = StatusLine { output, terminal: Terminal::open() };
        tokio::select! {
            result = acquire => result,
            never = line.keep(run, locks) => match never {},
        }
    } else if output.is_json() {
        tokio::select! {
            result = acquire => result,
            never = report_holders(output, run, locks) => match never {},
        }
    } else {
        acquire.await
    }
}

struct StatusLine {
    output: Output,
    terminal: Terminal,
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.show("");
    }
}

impl StatusLine {
    async fn keep(&self, run: &Run, locks: &Locks) -> std::convert::Infallible {
        let since = Instant::now();
        sleep(FIRST_REFRESH).await;
        loop {
            let line = match inspect(run, locks).await {
                Ok(seen) => sentence(&seen, since.elapsed()),
                Err(error) => format!("waiting for {:?}; {error}", run.name),
            };
            self.show(&self.fit(&escape(&line)));
            sleep(REFRESH_INTERVAL).await;
        }
    }

    /// Shows the text, unless in a background job, which lacks the terminal.
    fn show(&self, text: &str) {
        if self.terminal.is_with(group_of(None)) {
            self.output.status_line(text);
        }
    }

    /// Cuts the line, because a wrapped line can't be cleared.
    fn fit(&self, line: &str) -> String {
        let columns = rustix::termios::tcgetwinsize(rustix::stdio::stderr())
            .map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { 80 } else { columns };
        line.chars().take(columns - 1).collect()
    }
}

fn sentence(seen: &Inspection, waited: Duration) -> String {
    let name = seen.name.as_str();
    let waited = duration::show_elapsed(waited);
    let holder = held_by(seen).unwrap_or_else(|| "it is free at the moment".to_owned());
    format!("waiting for {name:?} ({waited}): {holder}")
}

fn held_by(seen: &Inspection) -> Option<String> {
    let holder = seen.holders.first()?;
    let others = match seen.holders.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let left = holder.remaining.map_or_else(String::new, |left| {
        format!(" ({} left unless renewed)", duration::show(left))
    });
    Some(format!("held by {}{left}{others}", holder_name(holder)))
}

pub(crate) async fn report_given_up(event: &str, output: Output, run: &Run, locks: &Locks) {
    if run.request.quiet && !output.is_json() {
        return;
    }
    let seen = timeout(INSPECT_TIMEOUT, inspect(run, locks)).await.ok().and_then(Result::ok);
    let name = seen.as_ref().map_or(run.name.as_str(), |seen| seen.name.as_str());
    let holders = seen.as_ref().map(|seen| crate::json::inspection(seen)["holders"].take());
    let holder = seen.as_ref().and_then(held_by).unwrap_or_else(|| "it was held".to_owned());
    output.report(
        event,
        json!({ "name": name, "exit_code": run.request.conflict_exit_code, "holders": holders }),
        &format!("did not get {name:?}: {holder}; `lockwright show {name:?}` shows more"),
    );
}

/// Returns the first of the names that another client holds, or else the last name.
async fn inspect(run: &Run, locks: &Locks) -> Result<Inspection> {
    let is_other = |holder: &Holder| holder.identity.as_ref() != Some(locks.identity());
    let mut seen = locks.inspect(&run.name).await?;
    for name in &run.and {
        if seen.holders.iter().any(is_other) {
            break;
        }
        seen = locks.inspect(name).await?;
    }
    Ok(seen)
}

pub(crate) fn holder_name(holder: &Holder) -> String {
    match (&holder.identity, &holder.token) {
        (Some(identity), _) => escape(&identity.to_string()),
        (None, Some(_)) => "an unnamed client".to_owned(),
        (None, None) => "a client of another library".to_owned(),
    }
}

async fn report_holders(output: Output, run: &Run, locks: &Locks) -> std::convert::Infallible {
    let mut reported = None;
    let mut seen_before = Vec::new();
    loop {
        if let Ok(seen) = inspect(run, locks).await {
            // Skip a holder with this client's identity once: it may be this client's new grant. A
            // holder seen twice is a client in another container with the same host name and
            // process id.
            let others: Vec<_> = seen
                .holders
                .iter()
                .filter(|holder| {
                    holder.identity.as_ref() != Some(locks.identity())
                        || seen_before.contains(&holder.token)
                })
                .collect();
            let tokens: Vec<_> = others.iter().map(|holder| holder.token).collect();
            if !tokens.is_empty() && reported.as_ref() != Some(&tokens) {
                let holders: Vec<_> = others.into_iter().map(crate::json::holder).collect();
                output.event("waiting", json!({ "name": seen.name, "holders": holders }));
                reported = Some(tokens);
            }
            seen_before = seen.holders.iter().map(|holder| holder.token).collect();
        }
        sleep(REFRESH_INTERVAL).await;
    }
}
