use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use redis::{ConnectionAddr, FromRedisValue, Value};

use crate::keys::SLOTS;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    pub(crate) fn of(address: &ConnectionAddr) -> Option<Self> {
        match address {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Self { host: host.clone(), port: *port })
            }
            _ => None,
        }
    }

    /// Parses `host:port`. An empty host means that of `asked`.
    pub(crate) fn redirected(named: &str, asked: &Self) -> Option<Self> {
        let (host, port) = named.rsplit_once(':')?;
        Some(asked.address_of(host, port.parse().ok()?))
    }

    fn address_of(&self, host: &str, port: u16) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if matches!(host, "" | "?") { &self.host } else { host };
        Self { host: host.to_owned(), port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Each slot's master, and all replicas. Nodes may disagree on the replicas' health, so equality
/// ignores them.
#[derive(Clone)]
pub(crate) struct SlotMap {
    owners: Vec<Option<Arc<Address>>>,
    replicas: BTreeSet<Address>,
}

impl SlotMap {
    pub(crate) fn empty() -> Self {
        Self { owners: vec![None; SLOTS], replicas: BTreeSet::new() }
    }

    /// Parses `CLUSTER SLOTS`: per range the first and last slot, master, replicas.
    pub(crate) fn read(answer: Value, asked: &Address) -> Option<Self> {
        let Value::Array(entries) = answer else { return None };
        let mut map = Self::empty();
        for entry in entries {
            let Value::Array(parts) = entry else { return None };
            let mut parts = parts.into_iter();
            let mut slot = || usize::from_redis_value(parts.next()?).ok().filter(|at| *at < SLOTS);
            let (first, last) = (slot()?, slot()?);
            let mut nodes = parts.map(|node| read_node(node, asked));
            let master = Arc::new(nodes.next()??);
            map.owners.get_mut(first..=last)?.fill(Some(master));
            map.replicas.extend(nodes.flatten());
        }
        map.owners.iter().any(Option::is_some).then_some(map)
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        self.owners.get(usize::from(slot))?.as_deref()
    }

    pub(crate) fn masters(&self) -> BTreeSet<&Address> {
        self.owners.iter().flatten().map(|master| &**master).collect()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Address> {
        self.masters().into_iter().chain(&self.replicas)
    }

    pub(crate) fn uncovered(&self) -> usize {
        self.owners.iter().filter(|owner| owner.is_none()).count()
    }

    pub(crate) fn moved(&mut self, slot: u16, to: &Address) {
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(Arc::new(to.clone()));
        }
    }
}

impl PartialEq for SlotMap {
    fn eq(&self, other: &Self) -> bool {
        self.owners == other.owners
    }
}

impl Eq for SlotMap {}

fn read_node(node: Value, asked: &Address) -> Option<Address> {
    let Value::Array(parts) = node else { return None };
    let mut parts = parts.into_iter();
    let host: Option<String> = FromRedisValue::from_redis_value(parts.next()?).ok()?;
    let port = u16::from_redis_value(parts.next()?).ok()?;
    Some(asked.address_of(host.as_deref().unwrap_or_default(), port))
}

impl fmt::Debug for SlotMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotMap")
            .field("masters", &self.masters())
            .field("uncovered", &self.uncovered())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
    }

    fn host(host: &str) -> Value {
        Value::BulkString(host.as_bytes().to_vec())
    }

    #[test]
    fn a_map_is_read_whatever_the_nodes_call_themselves() {
        let answer = Value::Array(vec![
            range(5_000, 16_383, vec![node(Value::Nil, 7_002), node(host("b"), 7_005)]),
            range(0, 4_000, vec![node(host(""), 7_001), node(host("?"), 7_004)]),
        ]);
        let asked = address("a", 9);
        let map = SlotMap::read(answer, &asked).unwrap();
        let masters = [address("a", 7_001), address("a", 7_002)];
        assert!(map.masters().into_iter().eq(&masters), "{map:?}");
        assert_eq!(map.owner(0), Some(&address("a", 7_001)));
        assert_eq!(map.owner(4_000), Some(&address("a", 7_001)));
        assert_eq!(map.owner(4_001), None);
        assert_eq!(map.owner(16_383), Some(&address("a", 7_002)));
        assert_eq!(map.uncovered(), 999);
        assert_eq!(map.nodes().count(), 4);
    }

    #[test]
    fn nonsense_is_no_map() {
        let asked = address("a", 1);
        for answer in [
            Value::Array(Vec::new()),
            Value::Nil,
            Value::Array(vec![range(0, 16_384, vec![node(host("b"), 1)])]),
            Value::Array(vec![range(10, 5, vec![node(host("b"), 1)])]),
            Value::Array(vec![range(0, 5, vec![])]),
            Value::Array(vec![range(-1, 5, vec![node(host("b"), 1)])]),
        ] {
            assert_eq!(SlotMap::read(answer.clone(), &asked), None, "{answer:?}");
        }
    }

    #[test]
    fn redirections_are_read() {
        let asked = address("a", 1);
        let to = |named| Address::redirected(named, &asked);
        assert_eq!(to("b:2"), Some(address("b", 2)));
        assert_eq!(to(":2"), Some(address("a", 2)));
        assert_eq!(to("::1:2"), Some(address("::1", 2)));
        assert_eq!(to("b"), None);
    }
}
