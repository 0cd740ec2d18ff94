use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A client's identity for operators. It never affects locking.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The machine's name.
    pub host: Arc<str>,
    /// The process id.
    pub pid: u32,
    /// The user's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Arc<str>>,
    /// The client's public value in an election.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Arc<str>>,
}

impl Identity {
    /// The longest label, in bytes.
    pub const LONGEST_LABEL: usize = 128;

    /// The longest value of a leader, in bytes.
    pub const LONGEST_VALUE: usize = 512;

    /// Returns the identity of this process.
    pub fn of_this_process(label: Option<&str>) -> Self {
        let (host, pid) = (host_name(), std::process::id());
        Self { host, pid, label: label.map(Arc::from), value: None }
    }
}

pub(crate) fn check_text(what: &str, text: &str, longest: usize) -> Result<()> {
    let problem = if text.len() > longest {
        format!("a {what} has at most {longest} bytes and this one has {}", text.len())
    } else if text.chars().any(char::is_control) {
        format!("a {what} can't contain control characters; remove them")
    } else {
        return Ok(());
    };
    Err(Error::invalid_input(problem))
}

fn host_name() -> Arc<str> {
    #[cfg(unix)]
    {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        // Control characters are replaced, because backends write identities as lines of text.
        Arc::from(name.replace(char::is_control, "?"))
    }
    #[cfg(not(unix))]
    {
        Arc::from(std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned()))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(label) = &self.label {
            write!(f, "{label}@")?;
        }
        write!(f, "{}:{}", self.host, self.pid)
    }
}
