//! The queue of a lock: the children of its node, in order of their sequence numbers.

use lockwright_core::backend_util::queue_admission;
use lockwright_core::{Mode, Token};

use crate::paths::{LOCK, named};

/// The texts before the numbers in node names of Lockwright, Curator and kazoo. Other programs'
/// readers count as exclusive: they don't share a lock with Lockwright's.
const KINDS: [&str; 5] = [LOCK, "__lock__", "__rlock__", "__WRIT__", "__READ__"];

fn mode(node: &str) -> Mode {
    let marked = || {
        let rest = node.strip_prefix("_c_")?.strip_suffix(LOCK)?;
        let (uuid, mark) = rest.split_at_checked(36)?;
        let is_uuid = uuid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        queue_admission::marked(mark.strip_prefix('-').filter(|_| is_uuid)?)
    };
    marked().unwrap_or(Mode::Exclusive)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) node: String,
    pub(crate) mode: Mode,
    sequence: i32,
}

impl Contender {
    fn of(node: String) -> Option<Self> {
        let after = |kind: &&str| node.rfind(*kind).map(|at| at + kind.len());
        let at = KINDS.iter().filter_map(after).max()?;
        // Ten digits, possibly with a minus once all numbers have been used.
        let sequence = node.get(at..).filter(|text| text.len() >= 10)?.parse().ok()?;
        let mode = mode(&node[..at]);
        Some(Self { node, mode, sequence })
    }

    pub(crate) fn is_of(&self, token: Token) -> bool {
        let rest = self.node.strip_prefix(&named(token));
        rest.is_some_and(|rest| rest.starts_with('-'))
    }

    /// Returns whether the sequence number is past the last unique one. From 2^31 - 1 on, servers
    /// repeat that number, or return negative ones.
    fn is_spent(&self) -> bool {
        !(0..i32::MAX).contains(&self.sequence)
    }
}

pub(crate) fn queue(children: Vec<String>) -> Vec<Contender> {
    let mut queue: Vec<Contender> = children.into_iter().filter_map(Contender::of).collect();
    queue.sort_by_key(|contender| (contender.is_spent(), contender.sequence));
    queue
}

pub(crate) fn modes(queue: &[Contender]) -> Vec<Mode> {
    queue.iter().map(|contender| contender.mode).collect()
}

pub(crate) fn can_be_admitted(queue: &[Contender], at: usize) -> bool {
    let is_equal =
        |other: Option<&Contender>| other.is_some_and(|other| other.sequence == queue[at].sequence);
    let before = at.checked_sub(1).and_then(|before| queue.get(before));
    !queue[at].is_spent() && !is_equal(before) && !is_equal(queue.get(at + 1))
}

#[cfg(test)]
mod tests {
    use lockwright_core::Claim;

    use super::*;
    use crate::paths::node;

    #[test]
    fn queue_is_ordered_by_arrival() {
        let children = [
            "_c_0d2c6b5e-5a0f-4c1e-8d52-6f1c7be0b0a1-lock-0000000007",
            "9a0b__lock__0000000003",
            "_c_ffffffff-5a0f-4c1e-8d52-6f1c7be0b0a1-lock-0000000001",
            "_c_ffffffff-5a0f-4c1e-8d52-6f1c7be0b0a1-__WRIT__0000000004",
            "lease-0000000000",
            "-lock-",
            "item0000000001",
            "0000000000",
            "b",
            "b-lock-",
            "-lock-12",
        ];
        let order: Vec<i32> =
            queue(children.map(str::to_owned).to_vec()).iter().map(|c| c.sequence).collect();
        assert_eq!(order, [1, 3, 4, 7]);
    }

    #[test]
    fn spent_sequence_number_is_never_admitted() {
        let turns = |children: &[&str]| -> Vec<(i32, bool)> {
            let queue = queue(children.iter().map(|child| (*child).to_owned()).collect());
            let turn = |(at, contender): (usize, &Contender)| {
                (contender.sequence, can_be_admitted(&queue, at))
            };
            queue.iter().enumerate().map(turn).collect()
        };
        let last = "a-lock-2147483646";
        let spent = ["b-lock-2147483647", "c-lock-2147483647", "d-lock--2147483648"];
        let all = [spent[0], spent[2], last, spent[1]];
        assert_eq!(
            turns(&all),
            [(i32::MAX - 1, true), (i32::MIN, false), (i32::MAX, false), (i32::MAX, false)]
        );
        for alone in spent {
            assert!(!turns(&[alone])[0].1, "{alone}");
        }
        let tie = ["a-lock-0000000004", "b-lock-0000000003", "c-lock-0000000003"];
        assert_eq!(turns(&tie), [(3, false), (3, false), (4, true)]);
    }

    #[test]
    fn node_name_is_the_token_as_a_uuid() {
        let token: Token = "00112233445566778899aabbccddeeff".parse().unwrap();
        let uuid = "_c_00112233-4455-6677-8899-aabbccddeeff";
        for (mode, rest) in [
            (Mode::Exclusive, "-lock-"),
            (Mode::Shared, "-r-lock-"),
            (Mode::Permits { count: 2, of: 3 }, "-p2of3-lock-"),
        ] {
            let claim = Claim { token, mode, ..lockwright_conformance::test_helpers::claim("x") };
            assert_eq!(node(&claim), format!("{uuid}{rest}"));
            let found = queue(vec![format!("{}0000000012", node(&claim))]);
            assert!(found[0].is_of(token) && !found[0].is_of(Token::random()));
            assert_eq!(found[0].mode, mode);
        }
        for other in [
            format!("{uuid}-r-__READ__0000000001"),
            format!("{uuid}-p4of3-lock-0000000001"),
            format!("{uuid}r-lock-0000000001"),
            "_c_r-lock-0000000001".to_owned(),
            "r-lock-0000000001".to_owned(),
        ] {
            assert_eq!(queue(vec![other.clone()])[0].mode, Mode::Exclusive, "{other}");
        }
    }
}
