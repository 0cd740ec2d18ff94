//! Notes on holds that an operator ended at once, in the data of the queue's node.
//!
//! The queue's node outlives the hold's node: servers remove empty queues only once a minute.

use lockwright_core::{LockName, Reason, Result, Token};
use serde::{Deserialize, Serialize};

use crate::errors::{Effect, if_present};
use crate::session::Session;
use crate::shared::Shared;

const MOST: usize = 16;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    broken: Vec<Note>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    token: Token,
    by: String,
}

impl Notes {
    fn read(data: &[u8]) -> Option<Self> {
        if data.is_empty() { Some(Self::default()) } else { serde_json::from_slice(data).ok() }
    }
}

/// Adds a note. Returns `None` if the data belong to another program.
pub(crate) fn with(data: &[u8], token: Token, by: &str) -> Option<Vec<u8>> {
    let mut notes = Notes::read(data)?;
    notes.broken.push(Note { token, by: by.to_owned() });
    let excess = notes.broken.len().saturating_sub(MOST);
    notes.broken.drain(..excess);
    Some(serde_json::to_vec(&notes).expect("text is JSON"))
}

pub(crate) async fn why_gone(
    shared: &Shared,
    session: &Session,
    name: &LockName,
    token: Token,
) -> Result<Reason> {
    let queue = shared.paths.queue(name);
    let found = session.read(|| session.client.get_data(&queue)).await;
    let found = if_present(found, Effect::Reads)?;
    let notes = found.and_then(|(data, _)| Notes::read(&data)).unwrap_or_default();
    let is_broken = notes.broken.iter().any(|note| note.token == token);
    Ok(if is_broken { Reason::Broken } else { Reason::Gone })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_keeps_the_latest_notes() {
        let tokens: Vec<Token> = (0..=MOST).map(|_| Token::random()).collect();
        let data = tokens.iter().fold(Vec::new(), |data, token| with(&data, *token, "me").unwrap());
        let kept: Vec<Token> =
            Notes::read(&data).unwrap().broken.iter().map(|note| note.token).collect();
        assert_eq!(kept, tokens[1..]);
    }

    #[test]
    fn data_of_another_program_are_left_alone() {
        for data in [&b"10.0.0.1"[..], b"{}", b"[1]"] {
            assert_eq!(with(data, Token::random(), "me"), None);
        }
    }
}
