//! What the command says on standard error: sentences for people, or JSON lines for programs.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::exit::Failure;
use crate::harmless::harmless;

/// Says it in the way that was asked for. Standard error may be closed or full: what nobody reads
/// is lost, and never an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    json: bool,
}

impl Voice {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether a status line makes sense: a person looks at a terminal.
    pub(crate) fn has_status_line(self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// Something that only programs want to know.
    pub(crate) fn event(self, event: &str, fields: Value) {
        if self.json {
            self.write_event(event, fields);
        }
    }

    /// Something that people want to know too.
    pub(crate) fn tell(self, event: &str, fields: Value, sentence: &str) {
        if self.json {
            self.write_event(event, fields);
        } else {
            let _ = writeln!(io::stderr(), "lockwright: {}", harmless(sentence));
        }
    }

    /// Why it ends, and with which code.
    pub(crate) fn fail(self, failure: &Failure) -> ExitCode {
        let fields = json!({
            "kind": failure.kind,
            "message": failure.message,
            "exit_code": failure.code,
        });
        self.tell("error", fields, &failure.message);
        ExitCode::from(failure.code)
    }

    /// Replaces the status line; an empty text clears it.
    pub(crate) fn status_line(self, text: &str) {
        let _ =
            write!(io::stderr(), "\r\x1b[K{}", harmless(text)).and_then(|()| io::stderr().flush());
    }

    fn write_event(self, event: &str, fields: Value) {
        let mut line = json!({ "event": event });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        let _ = writeln!(io::stderr(), "{line}");
    }
}
