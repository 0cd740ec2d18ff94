//! A key is `PREFIX NAME / LEASE` without the spaces, as in Go's `concurrency.NewMutex(session,
//! PREFIX + NAME)`. The lease's id is in hex. Unless names are raw, their slashes are
//! percent-encoded, so that the keys of `a/b` are not among those of `a`.
//!
//! Keys of readers and permit holders end in ` . MARK . TOKEN`. The mark is `r` for a reader, and
//! `p2of3` for two of three permits. A key without a mark is exclusive, even another program's.
//!
//! `PREFIX ended: TOKEN /` is the tombstone of a token. Nothing follows the last slash, so
//! Lockwright ignores tombstones in queues. A Go lock waits for all keys that begin with its name
//! and a slash: for a tombstone only if the lock's name is `PREFIX ended: TOKEN`, or the part of
//! `PREFIX` before a slash.

use lockwright_core::backend_util::{percent, queue_admission};
use lockwright_core::{Claim, LockName, Mode, Token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) prefix: String,
    pub(crate) raw: bool,
}

impl Keys {
    pub(crate) fn queue(&self, name: &LockName) -> Vec<u8> {
        format!("{}{}/", self.prefix, self.encoded(name.as_str())).into_bytes()
    }

    pub(crate) fn own(&self, claim: &Claim, lease: i64) -> Vec<u8> {
        let mut key = self.exclusive(&claim.name, lease);
        if let Some(mark) = queue_admission::mark(claim.mode) {
            key.extend(format!(".{mark}.{}", claim.token).into_bytes());
        }
        key
    }

    fn exclusive(&self, name: &LockName, lease: i64) -> Vec<u8> {
        let mut key = self.queue(name);
        key.extend(format!("{lease:x}").into_bytes());
        key
    }

    pub(crate) fn is_own(&self, name: &LockName, lease: i64, key: &[u8]) -> bool {
        let rest = key.strip_prefix(self.exclusive(name, lease).as_slice());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    }

    pub(crate) fn tombstone(&self, token: Token) -> Vec<u8> {
        format!("{}ended:{token}/", self.prefix).into_bytes()
    }

    /// Returns a key that never exists, and that every user who may lock may read.
    pub(crate) fn probe_key(&self) -> Vec<u8> {
        format!("{}/", self.prefix).into_bytes()
    }

    pub(crate) fn beginning(&self, prefix: &str) -> Vec<u8> {
        format!("{}{}", self.prefix, self.encoded(prefix)).into_bytes()
    }

    fn encoded(&self, name: &str) -> String {
        if self.raw { name.to_owned() } else { percent::encode(name, |c| c == '/') }
    }

    pub(crate) fn name(&self, key: &[u8]) -> Option<LockName> {
        let key = std::str::from_utf8(key).ok()?.strip_prefix(self.prefix.as_str())?;
        let (encoded, last) = key.rsplit_once('/')?;
        if last.is_empty() {
            return None;
        }
        let name = if self.raw { encoded.to_owned() } else { percent::decode(encoded)? };
        // A key that another program encoded differently is in no lock's queue.
        (self.encoded(&name) == encoded).then_some(())?;
        LockName::new(name).ok()
    }
}

pub(crate) fn mode(key: &[u8]) -> Mode {
    let signed = || {
        let (_, last) = std::str::from_utf8(key).ok()?.rsplit_once('/')?;
        let (lease, signature) = last.split_once('.')?;
        i64::from_str_radix(lease, 16).ok()?;
        queue_admission::signed(signature)
    };
    signed().map_or(Mode::Exclusive, |(mode, _)| mode)
}

pub(crate) fn is_in_queue(queue: &[u8], key: &[u8]) -> bool {
    key.strip_prefix(queue).is_some_and(|rest| !rest.is_empty() && !rest.contains(&b'/'))
}

pub(crate) fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(raw: bool) -> Keys {
        Keys { prefix: "lockwright/".to_owned(), raw }
    }

    fn name(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    #[test]
    fn key_without_a_valid_mode_is_exclusive() {
        let token = Token::random().to_string();
        for other in ["1.r", "1.r.x", "x.r.TOKEN", "1.q.TOKEN", "TOKEN", "1.p9of3.TOKEN"] {
            let key = format!("lockwright/a/{}", other.replace("TOKEN", &token));
            assert_eq!(mode(key.as_bytes()), Mode::Exclusive, "{other}");
        }
    }

    #[test]
    fn nested_name_is_in_no_other_queue() {
        let encoded = keys(false);
        let nested = encoded.exclusive(&name("a/b"), 1);
        assert!(!nested.starts_with(&encoded.queue(&name("a"))));
        let raw = keys(true);
        let nested = raw.exclusive(&name("a/b"), 1);
        assert!(nested.starts_with(&raw.queue(&name("a"))));
        assert!(!is_in_queue(&raw.queue(&name("a")), &nested));
        assert_eq!(String::from_utf8(raw.exclusive(&name("a"), 255)).unwrap(), "lockwright/a/ff");
        for (keys, other) in
            [(&encoded, "lockwright/a/b/1"), (&raw, "elsewhere/a/1"), (&raw, "lockwright/a/")]
        {
            assert_eq!(keys.name(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn tombstone_is_in_no_queue_of_any_prefix() {
        for prefix in ["", "a", "a/", "a//", "/"] {
            let tombstone =
                Keys { prefix: prefix.to_owned(), raw: false }.tombstone(Token::random());
            let text = String::from_utf8(tombstone.clone()).unwrap();
            for (end, _) in text.match_indices('/') {
                assert!(!is_in_queue(&tombstone[..=end], &tombstone), "{text}");
            }
            for raw in [false, true] {
                let elsewhere = Keys { prefix: String::new(), raw };
                assert_eq!(elsewhere.name(&tombstone), None, "{text}");
            }
            let slashes = prefix.matches('/').count();
            assert_eq!(text.matches('/').count(), slashes + 1, "{text}");
        }
    }

    #[test]
    fn end_of_a_range_is_after_all_its_keys() {
        assert_eq!(after(b"a/"), b"a0");
        assert_eq!(after(b"a\xff"), b"b");
        assert_eq!(after(b""), b"\0");
        assert_eq!(after(b"\xff"), b"\0");
    }
}
