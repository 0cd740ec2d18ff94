use std::fmt::Write as _;

use lockwright_core::backend_util::{percent, queue_admission};
use lockwright_core::{Claim, LockName, Token};

pub(crate) const LOCK: &str = "-lock-";

#[derive(Debug, Clone)]
pub(crate) struct Paths {
    prefix: String,
}

impl Paths {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.trim_end_matches('/').to_owned() }
    }

    pub(crate) fn root(&self) -> &str {
        if self.prefix.is_empty() { "/" } else { &self.prefix }
    }

    pub(crate) fn queue(&self, name: &LockName) -> String {
        format!("{}/{}", self.prefix, encode(name.as_str()))
    }

    /// Returns a path that never exists, because no name is encoded like this. Its parent never
    /// exists either: its ACL would let a server reject the probe without a majority.
    pub(crate) fn probe_path(&self) -> String {
        format!("{}/%nobody/%nobody", self.prefix)
    }

    pub(crate) fn probe(&self) -> String {
        format!("{}/%probe-", self.prefix)
    }

    pub(crate) fn name_of(child: &str) -> Option<LockName> {
        let name = LockName::new(percent::decode(child)?).ok()?;
        // Another program's node may decode to a name but be encoded otherwise.
        (encode(name.as_str()) == child).then_some(name)
    }
}

/// Encodes the characters that ZooKeeper forbids. It checks UTF-16 units, so it forbids surrogate
/// pairs: characters outside the basic plane.
fn encode(name: &str) -> String {
    let dots = name == "." || name == "..";
    let reserved = name == "zookeeper";
    percent::encode(name, |c| {
        c == '/'
            || c.is_control()
            || c >= '\u{fff0}'
            || ('\u{e000}'..='\u{f8ff}').contains(&c)
            || (dots && c == '.')
            || (reserved && c == 'z')
    })
}

/// Returns the claim's node without the sequence number. As in Curator, it contains the token, to
/// find the node after a lost response. A [mark](queue_admission::mark) follows.
pub(crate) fn node(claim: &Claim) -> String {
    let mut node = named(claim.token);
    if let Some(mark) = queue_admission::mark(claim.mode) {
        node.push('-');
        node.push_str(&mark);
    }
    node.push_str(LOCK);
    node
}

pub(crate) fn named(token: Token) -> String {
    let mut node = String::with_capacity(67);
    node.push_str("_c_");
    for (at, byte) in token.as_bytes().iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            node.push('-');
        }
        write!(node, "{byte:02x}").expect("a string takes everything");
    }
    node
}
