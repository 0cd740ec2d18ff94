use std::io::{self, Read, Write};

use lockwright::{Error, LockName, Locks, Ticket, TicketError};
use serde_json::json;

use crate::args::{Acquire, ConnectionOptions, Run};
use crate::connect::connect;
use crate::run::signals::Signals;
use crate::run::{self, ended_by};
use crate::{Failure, Output, config, millis};

pub(crate) async fn acquire(connection: &ConnectionOptions, what: &Acquire) -> Result<u8, Failure> {
    LockName::new(&what.name)?;
    let config = config(connection)?;
    let run = Run {
        name: what.name.clone(),
        and: Vec::new(),
        semaphore: None,
        permits: 1,
        command: Vec::new(),
        shell: None,
        request: what.request.or_wait(config.options_of(&what.name).wait),
        ttl: Some(what.ttl),
        fixed: false,
        max_hold: None,
        at_least: None,
        once_per: None,
    };
    let locks = config.connect().await?;
    if !locks.profile().tickets {
        let what = "a hold without a process; use `lockwright run`";
        return Err(Error::unsupported(what, locks.profile()).into());
    }
    let mut signals = Signals::listen()?;
    let result = tokio::select! {
        result = print_ticket(connection.json, &run, &locks) => result,
        signal = signals.next_ending() => Ok(ended_by(signal)),
    };
    run::close(&locks).await;
    result
}

async fn print_ticket(json: bool, run: &Run, locks: &Locks) -> Result<u8, Failure> {
    let Some(guard) = run::acquire_lock(Output::new(json), run, locks).await? else {
        return Ok(run.request.conflict_exit_code);
    };
    // A lock that Redis offered to a waiter has less than a TTL left.
    guard.renew().await?;
    let ticket = guard.into_ticket().map_err(TicketError::into_error)?;
    let mut line = encode(&ticket);
    if json {
        line = json!({
            "name": run.name,
            "ticket": line,
            "fence": ticket.fence(),
            "ttl_ms": millis(ticket.ttl()),
        })
        .to_string();
    }
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        // A lost ticket's hold would block others for a whole TTL.
        locks.release_ticket(&ticket).await?;
        return Err(Failure::os(
            "released the lock, because the ticket could not be written",
            error,
        ));
    }
    Ok(0)
}

pub(crate) async fn renew(connection: &ConnectionOptions, ticket: &str) -> Result<u8, Failure> {
    let ticket = read(ticket)?;
    connect(connection).await?.renew_ticket(&ticket).await?;
    Ok(0)
}

pub(crate) async fn release(connection: &ConnectionOptions, ticket: &str) -> Result<u8, Failure> {
    let ticket = read(ticket)?;
    connect(connection).await?.release_ticket(&ticket).await?;
    Ok(0)
}

fn read(argument: &str) -> Result<Ticket, Failure> {
    let mut text = argument.to_owned();
    if argument == "-" {
        text.clear();
        io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::usage(format!("cannot read the ticket: {error}")))?;
    }
    decode(text.trim()).ok_or_else(|| {
        Failure::usage("this is not a ticket; pass the output of `lockwright acquire`, or `ticket` of its JSON")
    })
}

/// Writes a ticket as one shell word: its JSON in hexadecimal digits.
fn encode(ticket: &Ticket) -> String {
    json!(ticket).to_string().bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(text: &str) -> Option<Ticket> {
    let byte = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let json: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    serde_json::from_slice(&json?).ok()
}
