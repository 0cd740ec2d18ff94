//! `conformance`: runs the suite against a live server.

use std::process::{Command, ExitCode};
use std::sync::Arc;

use lockwright::Clock;
use lockwright::backend::async_trait;
use lockwright_conformance::{Connect, Factory, cases, child, connector};
use serde_json::json;

use super::{print, print_json};
use crate::args::{Conformance, ConnectionOptions};
use crate::connect::config;
use crate::escape::escape;
use crate::exit::Failure;
use crate::json::profile;
use crate::output::Output;

const CASE_FAILED: u8 = 1;

struct Server {
    url: String,
}

#[async_trait]
impl Factory for Server {
    async fn open(&self, _: &Clock) -> lockwright::Result<Connect> {
        let url = self.url.clone();
        Ok(connector(move || {
            let url = url.clone();
            async move { lockwright::backend::open(&url).await }
        }))
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.url)
    }
}

pub(crate) fn as_child() -> Option<ExitCode> {
    child::main(|url| async move { lockwright::backend::open(&url).await })
}

/// Must not be called in a runtime.
pub(super) fn conformance(
    connection: &ConnectionOptions,
    what: &Conformance,
) -> Result<u8, Failure> {
    let filter = what.filter.as_deref().unwrap_or_default();
    let wanted = || cases::all().filter(|case| case.path().contains(filter));
    let count = wanted().count();
    if count == 0 {
        return Err(Failure::usage(format!("no case's name contains {filter:?}; see --list")));
    }
    if what.list {
        if connection.json {
            let list: Vec<_> = wanted()
                .map(|case| json!({ "group": case.group, "case": case.name, "about": case.about }))
                .collect();
            print_json(&list)?;
        } else {
            let list: String =
                wanted().map(|case| format!("{}: {}\n", case.path(), case.about)).collect();
            print(&list)?;
        }
        return Ok(0);
    }
    let server = Server { url: config(connection)?.url };
    let output = Output::new(connection.json);
    if output.has_status_line() {
        output.status_line(&format!("running {count} cases, which takes a while"));
    }
    let report = lockwright_conformance::run(Arc::new(server), filter);
    if output.has_status_line() {
        output.status_line("");
    }
    let report = report?;
    if connection.json {
        print_json(&json!({
            "backend": report.backend,
            "profile": profile(&report.profile),
            "rows": report.rows,
        }))?;
    } else {
        let lines = report.to_string();
        print(&lines.lines().map(|line| escape(line) + "\n").collect::<String>())?;
    }
    Ok(if report.ok() { 0 } else { CASE_FAILED })
}
