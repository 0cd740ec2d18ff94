//! A lock's key and its *companions*: further keys in the same hash slot. `docs/src/operations.md`
//! describes their values; on a quorum's node, the queue only shows that clients wait.
//! `lockwright:{redlock}:certificate:PREFIX` is no companion: it identifies the data of a quorum's
//! node.
//!
//! # The hash slot
//!
//! A Cluster hashes the text between a key's first `{` and the next `}` (the *tag*), or the whole
//! key if the tag is empty or missing. A companion's tag hashes to the lock's slot. This tag is
//!
//! - the tag of the lock's key, if it has one: `a{b}c` → `lockwright:{b}:fence:a{b}c`;
//! - else the lock's key itself, if it contains no `}`: `a` → `lockwright:{a}:fence`;
//! - else the smallest number that hashes to the lock's slot: `a}b` →
//!   `lockwright:{20658}:fence:a}b`.
//!
//! If the tag isn't the lock's whole key, that key is appended, so no two locks share a companion.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use lockwright_core::{Error, LockName, Result, Token};

const RESERVED: &str = "lockwright:{";

pub(crate) const SLOTS: usize = 16_384;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    text: String,
    ends: [usize; 1 + COMPANIONS.len()],
}

const COMPANIONS: [&str; 5] = ["fence", "queue", "holders", "meta", "ended"];

impl Keys {
    pub(crate) fn new(prefix: &str, name: &LockName) -> Result<Self> {
        Self::with(prefix, name, &COMPANIONS)
    }

    pub(crate) fn fast(prefix: &str, name: &LockName) -> Result<Self> {
        Self::with(prefix, name, &COMPANIONS[..1])
    }

    pub(crate) fn lock_alone(prefix: &str, name: &LockName) -> Result<Self> {
        Self::with(prefix, name, &[])
    }

    pub(crate) fn complete(&self) -> Self {
        Self::of_lock(self.lock().to_owned(), &COMPANIONS)
    }

    fn with(prefix: &str, name: &LockName, companions: &[&str]) -> Result<Self> {
        let name = name.as_str();
        let lock = prefix.len() + name.len();
        let mut text = String::with_capacity(lock + companions.len() * (2 * lock + 26));
        text.push_str(prefix);
        text.push_str(name);
        if text.starts_with(RESERVED) {
            return Err(Error::invalid_input(format!(
                "lock names that begin with {RESERVED:?} are kept for the companions of locks; \
                 choose another name"
            )));
        }
        Ok(Self::of_lock(text, companions))
    }

    fn of_lock(mut text: String, companions: &[&str]) -> Self {
        let lock = text.len();
        let tag = own_tag(&text).map(str::to_owned).or_else(|| {
            text.contains('}').then(|| number_in_slot(slot(text.as_bytes())).to_string())
        });
        let mut ends = [lock; 1 + COMPANIONS.len()];
        for (end, companion) in ends[1..].iter_mut().zip(companions) {
            text.push_str(RESERVED);
            match &tag {
                Some(tag) => text.push_str(tag),
                None => text.extend_from_within(..lock),
            }
            text.push_str("}:");
            text.push_str(companion);
            if tag.is_some() {
                text.push(':');
                text.extend_from_within(..lock);
            }
            *end = text.len();
        }
        Self { text, ends }
    }

    fn key(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    pub(crate) fn lock(&self) -> &str {
        self.key(0)
    }

    pub(crate) fn fence(&self) -> &str {
        self.key(1)
    }

    pub(crate) fn queue(&self) -> &str {
        self.key(2)
    }

    pub(crate) fn holders(&self) -> &str {
        self.key(3)
    }

    pub(crate) fn meta(&self) -> &str {
        self.key(4)
    }

    /// Contains the database's number, so no incarnation is found after `SWAPDB`.
    pub(crate) fn incarnation(prefix: &str, database: i64) -> String {
        let kind = if database == 0 { String::new() } else { format!("@{database}") };
        format!("{RESERVED}redlock}}:certificate{kind}:{prefix}")
    }

    pub(crate) fn described(&self) -> [&str; 5] {
        [self.lock(), self.fence(), self.queue(), self.holders(), self.meta()]
    }

    pub(crate) fn tombstone(&self, token: Token) -> String {
        let ended = self.key(5);
        let mut tombstone = String::with_capacity(ended.len() + 33);
        for part in [ended, ":", &token.to_string()] {
            tombstone.push_str(part);
        }
        tombstone
    }
}

pub(crate) const FENCE_PATTERN: &str = "lockwright:{*}:fence*";

pub(crate) fn lock_of_fence(key: &str) -> Option<&str> {
    let (tag, rest) = key.strip_prefix(RESERVED)?.split_once('}')?;
    match rest.strip_prefix(":fence")? {
        "" => Some(tag),
        lock => lock.strip_prefix(':'),
    }
}

pub(crate) fn slot_of(key: &str) -> u16 {
    slot(own_tag(key).unwrap_or(key).as_bytes())
}

pub(crate) fn by_slot<T>(items: impl Iterator<Item = (u16, T)>) -> Vec<Vec<T>> {
    let mut slots: BTreeMap<u16, Vec<T>> = BTreeMap::new();
    for (slot, item) in items {
        slots.entry(slot).or_default().push(item);
    }
    slots.into_values().collect()
}

fn own_tag(key: &str) -> Option<&str> {
    let (_, after) = key.split_once('{')?;
    let (tag, _) = after.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

fn slot(hashed: &[u8]) -> u16 {
    hashed.iter().fold(0, |crc, byte| hash_on(crc, *byte)) % SLOTS as u16
}

fn hash_on(crc: u16, byte: u8) -> u16 {
    (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
        crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
    })
}

fn number_in_slot(slot_wanted: u16) -> usize {
    static NUMBERS: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let (mut numbers, mut missing) = (vec![None; SLOTS], SLOTS);
        // A number's hash continues that of the number without its last digit.
        let mut hashes: Vec<u16> = Vec::new();
        while missing > 0 {
            let number = hashes.len();
            let leading = if number < 10 { 0 } else { hashes[number / 10] };
            let hash = hash_on(leading, b'0' + (number % 10) as u8);
            hashes.push(hash);
            let place = &mut numbers[usize::from(hash) % SLOTS];
            if place.is_none() {
                *place = Some(number);
                missing -= 1;
            }
        }
        numbers.into_iter().flatten().collect()
    });
    NUMBERS[usize::from(slot_wanted)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> impl Iterator<Item = &'static str> {
        "a|orders/42|{a}|a{b}c|a{b}c{d}e|{}|{}a|a{}b{c}|}|a}b|}{|}a{b|}a{b}c|{|a{b|{{a}}|{a|{a}}|\
         Zürich {x} 🔒|lockwright"
            .split('|')
    }

    fn keys(name: &str) -> Keys {
        Keys::new("", &LockName::new(name).unwrap()).unwrap()
    }

    #[test]
    fn the_hash_is_that_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot_of("foo"), 12_182);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        assert_eq!(slot_of("foo{}{bar}"), slot(b"foo{}{bar}"));
        assert_eq!(slot_of("foo{{bar}}zap"), slot(b"{bar"));
    }

    #[test]
    fn each_slot_has_its_number() {
        for wanted in 0..SLOTS as u16 {
            assert_eq!(slot(number_in_slot(wanted).to_string().as_bytes()), wanted);
        }
    }

    #[test]
    fn all_keys_of_a_lock_share_its_slot_and_no_other_lock_has_them() {
        let token = Token::random();
        for prefix in ["", "shop:", "{shop}", "sh}op{"] {
            let mut all = std::collections::HashSet::new();
            for name in names() {
                let keys = Keys::new(prefix, &LockName::new(name).unwrap()).unwrap();
                let tombstone = keys.tombstone(token);
                for key in keys.described().into_iter().chain([&*tombstone]) {
                    assert_eq!(slot_of(key), slot_of(keys.lock()), "{prefix}{name}: {key}");
                    assert!(all.insert(key.to_owned()), "{prefix}: {key}");
                }
            }
        }
    }

    #[test]
    fn the_lock_is_exactly_the_name() {
        assert_eq!(keys("a}b").fence(), "lockwright:{20658}:fence:a}b");
        assert_eq!(keys("orders/42").lock(), "orders/42");
        assert_eq!(keys("orders/42").fence(), "lockwright:{orders/42}:fence");
        let name = LockName::new("42").unwrap();
        assert_eq!(Keys::new("shop:", &name).unwrap().lock(), "shop:42");
    }

    #[test]
    fn a_companion_can_not_be_locked() {
        let name = LockName::new("lockwright:{a}:fence").unwrap();
        assert!(Keys::new("", &name).is_err());
        let rest = LockName::new("{a}:fence").unwrap();
        assert!(Keys::new("lockwright:", &rest).is_err());
    }
}
