use std::process::ExitCode;
use std::sync::Arc;

use lockwright::backend::DistributedLock;
use lockwright_conformance::{Factory, cases, child};
use serde_json::json;

use super::print_result;
use crate::args::{Conformance, ConnectionOptions};
use crate::json::profile;
use crate::{Failure, Output, config, escape};

const CASE_FAILED: u8 = 1;

async fn open(url: String) -> lockwright::Result<impl DistributedLock> {
    lockwright::backend::open(&url).await
}

pub(crate) fn as_child() -> Option<ExitCode> {
    child::main(open)
}

/// Must not run in a Tokio runtime: the suite starts its own.
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
        let list: Vec<_> = wanted()
            .map(|case| json!({ "group": case.group, "case": case.name, "about": case.about }))
            .collect();
        let text = wanted().map(|case| format!("{}: {}\n", case.path(), case.about));
        print_result(connection.json, &list, &text.collect::<String>())?;
        return Ok(0);
    }
    let server = Factory::at(config(connection)?.full_url()?, open);
    let output = Output::new(connection.json);
    if output.has_status_line() {
        output.status_line(&format!("running {count} cases, which takes a while"));
    }
    let report = lockwright_conformance::run(Arc::new(server), filter);
    if output.has_status_line() {
        output.status_line("");
    }
    let report = report?;
    let value = json!({
        "backend": report.backend,
        "profile": profile(&report.profile),
        "rows": report.rows,
    });
    let text: String = report.to_string().lines().map(|line| escape(line) + "\n").collect();
    print_result(connection.json, &value, &text)?;
    Ok(if report.ok() { 0 } else { CASE_FAILED })
}
