use lockwright::Locks;
use lockwright::operator::{Finding, Severity};
use serde_json::json;

use super::print_result;
use crate::json::profile;
use crate::{Failure, escape};

const ERROR_FOUND: u8 = 1;

pub(super) async fn doctor(locks: &Locks, json: bool) -> Result<u8, Failure> {
    let mut findings = locks.doctor().await?;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let value = json!({ "profile": profile(locks.profile()), "findings": findings });
    print_result(json, &value, &report(locks.profile().backend, &findings))?;
    let worst = findings.first().map(|finding| finding.severity);
    Ok(if worst == Some(Severity::Error) { ERROR_FOUND } else { 0 })
}

fn report(backend: &str, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return format!("{backend}: nothing found\n");
    }
    let mut text = String::new();
    for Finding { severity, code, what, why, fix } in findings {
        let [what, why, fix] = [what, why, fix].map(|text| escape(text));
        text.push_str(&format!("{severity}: {what} [{code}]\n  why: {why}\n  fix: {fix}\n"));
    }
    let count = |wanted| {
        let n = findings.iter().filter(|finding| finding.severity == wanted).count();
        format!("{n} {wanted}{}", if n == 1 { "" } else { "s" })
    };
    text.push_str(&format!(
        "{backend}: {}, {}, {}\n",
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Note)
    ));
    text
}
