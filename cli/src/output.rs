use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::rfc3339::rfc3339;
use crate::{Failure, escape, stderr};

/// The messages on standard error. While a lock is held, a message that would block is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    pub(crate) fn has_status_line(self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    pub(crate) fn event(self, event: &str, fields: Value) {
        if self.json {
            self.report(event, fields, "");
        }
    }

    pub(crate) fn report(self, event: &str, fields: Value, sentence: &str) {
        self.write(event, fields, sentence, Duration::ZERO);
    }

    pub(crate) fn fail(self, failure: &Failure) -> ExitCode {
        let fields = json!({
            "kind": failure.kind,
            "message": failure.message,
            "exit_code": failure.code,
        });
        self.write("error", fields, &failure.message, stderr::MESSAGE_TIMEOUT);
        ExitCode::from(failure.code)
    }

    pub(crate) fn status_line(self, text: &str) {
        stderr::write_within(&format!("\r\x1b[K{}", escape(text)), Duration::ZERO);
    }

    fn write(self, event: &str, fields: Value, sentence: &str, patience: Duration) {
        if !self.json {
            return stderr::write_message(sentence, patience);
        }
        stderr::write_within(&event_line(event, fields), patience);
    }
}

pub(crate) fn event_line(event: &str, fields: Value) -> String {
    let mut line = json!({ "event": event, "time": time_of_day() });
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    format!("{line}\n")
}

pub(crate) fn time_of_day() -> String {
    rfc3339(SystemTime::now())
}
