use std::fmt::{self, Write};

use super::model::Action;
use super::state::{Phase, State};

/// The column at which the nodes' states begin.
const MARGIN: usize = 54;

pub(crate) fn tell<const N: usize>(
    before: &State<N>,
    action: Action,
    after: &State<N>,
    text: &mut String,
) {
    let begin = text.len();
    say(before, action, after, text).expect("writing to a String succeeds");
    let width = text.len() - begin;
    text.extend(std::iter::repeat_n(' ', MARGIN.saturating_sub(width)));
    for node in &after.nodes {
        let holder = node.holder().map_or('-', letter);
        let waits = if node.waits() { "!" } else { " " };
        write!(text, " {holder}:{}{waits}", node.counter()).expect("writing to a String succeeds");
    }
    text.truncate(text.trim_end().len());
}

fn letter(token: usize) -> char {
    char::from(b'A' + token as u8)
}

fn say<const N: usize>(
    before: &State<N>,
    action: Action,
    after: &State<N>,
    text: &mut String,
) -> fmt::Result {
    let rounds = after.rounds;
    let who = |round: usize| {
        let token = rounds.token(round);
        let name = letter(token);
        if rounds.is_renewal(round) {
            format!("{name}'s renewal")
        } else if round != token {
            format!("{name}'s next round")
        } else {
            name.to_string()
        }
    };
    match action {
        Action::Ask(round) => {
            write!(text, "{} sends candidate {}", who(round), rounds.candidate(round))
        }
        Action::Renew(round) => write!(text, "{} begins", who(round)),
        Action::Vote(at, round) | Action::Duplicate(at, round) => {
            let had = before.nodes[at].holder() == Some(rounds.token(round));
            let node = after.nodes[at];
            write!(text, "node {}: ", at + 1)?;
            match (had, rounds.phase(round)) {
                (true, _) => write!(text, "yes to {} again: {}", who(round), node.noted()),
                (false, Phase::Asking) => write!(text, "yes to {}: {}", who(round), node.noted()),
                (false, _) => write!(text, "late, yes to {}: {}", who(round), node.noted()),
            }?;
            let again = matches!(action, Action::Duplicate(..));
            if again { write!(text, ", to be repeated") } else { Ok(()) }
        }
        Action::Refuse(at, round) => write!(text, "node {}: no to {}", at + 1, who(round)),
        Action::Choose(round) => write!(text, "{} chooses {}", who(round), rounds.fence(round)),
        Action::Raise(at, round) => {
            write!(text, "node {}: notes {} for {}", at + 1, before.rounds.fence(round), who(round))
        }
        Action::Hold(round) => write!(text, "{}: {} HOLDS", who(round), rounds.fence(round)),
        Action::GiveUp(round) => match before.rounds.phase(round) {
            Phase::Holding => write!(text, "{}: released, or past its deadline", who(round)),
            _ => write!(text, "{}: failed, or given up", who(round)),
        },
        Action::Overdue(round) => write!(text, "{}: its TTL has passed", who(round)),
        Action::Free(at) => {
            let token = before.nodes[at].holder().map_or('-', letter);
            write!(text, "node {}: {token} released or expired", at + 1)
        }
        Action::Release(at, token) => {
            write!(text, "node {}: a release of {} arrives", at + 1, letter(token))
        }
        Action::Lose(at) => write!(text, "node {}: restarts EMPTY", at + 1),
        Action::Admit(at) => write!(text, "node {}: votes again", at + 1),
        Action::Jump(at) => write!(text, "node {}: its clock JUMPS forward", at + 1),
    }
}
