use std::error::Error as StdError;
use std::fmt;

use lockwright_core::{Error, ErrorKind};

use crate::PROFILE_NAME;

pub(crate) fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message).with_backend(PROFILE_NAME)
}

/// One node's error.
#[derive(Debug)]
pub struct NodeError {
    /// The node's address.
    pub address: String,
    /// The node's error.
    pub error: Error,
}

/// The nodes' errors that prevented a quorum: the [source](std::error::Error::source) of a
/// [`Redlock`](crate::Redlock)'s error.
#[derive(Debug, Default)]
pub struct NodeErrors(pub(crate) Vec<NodeError>);

impl NodeErrors {
    /// Iterates over the errors.
    pub fn iter(&self) -> impl Iterator<Item = &NodeError> {
        self.0.iter()
    }

    pub(crate) fn push(&mut self, address: &str, error: Error) {
        self.0.push(NodeError { address: address.to_owned(), error });
    }

    pub(crate) fn listed(&self) -> String {
        let texts = self.iter().map(|node| format!("{}: {}", node.address, node.error));
        texts.collect::<Vec<_>>().join("; ")
    }

    pub(crate) fn hopeless(&self, too_many: usize) -> Option<ErrorKind> {
        let permanent = |error: &&Error| !error.is_transient() && error.lost_reason().is_none();
        let errors = self.0.iter().map(|node| &node.error).filter(permanent);
        let kinds = errors.map(Error::kind);
        kinds.clone().find(|kind| kinds.clone().filter(|other| other == kind).count() >= too_many)
    }

    pub(crate) fn into_error(self, kind: ErrorKind, what: &str) -> Error {
        if self.0.is_empty() {
            return error(kind, what);
        }
        error(kind, format!("{what}: {}", self.listed())).with_source(self)
    }
}

impl fmt::Display for NodeErrors {
    // Only the number, because the quorum's error lists them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the error of one node"),
            number => write!(f, "the errors of {number} nodes"),
        }
    }
}

impl StdError for NodeErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_errors_are_reported_as_such() {
        let errors = |kinds: &[ErrorKind]| {
            let mut errors = NodeErrors::default();
            for kind in kinds {
                errors.push("a:1", Error::new(*kind, "x"));
            }
            errors
        };
        let (denied, down) = (ErrorKind::Denied, ErrorKind::Unavailable);
        assert_eq!(errors(&[denied, down, denied]).hopeless(2), Some(denied));
        assert_eq!(errors(&[denied, down, down]).hopeless(2), None);
    }
}
