#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) master: Option<String>,
    /// If two nodes claim a slot, the one with the higher epoch owns it.
    pub(super) epoch: u64,
    slots: Vec<(u16, u16)>,
    /// True if the node is connected and has no flag of a failure or handshake.
    pub(super) is_well: bool,
}

pub(super) fn read(answer: &str) -> Option<Vec<Node>> {
    let mut nodes = answer.lines().map(Node::read).collect::<Option<Vec<_>>>()?;
    nodes.sort();
    Some(nodes)
}

pub(super) fn owner(nodes: &[Node], slot: u16) -> Option<&Node> {
    let owns = |node: &Node| node.slots.iter().any(|(from, to)| (*from..=*to).contains(&slot));
    nodes.iter().find(|node| owns(node))
}

impl Node {
    /// Parses a line of `CLUSTER NODES`: id, address, flags, master, ping, pong, epoch, link,
    /// slots.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let id = fields.next()?.to_owned();
        let mut flags = fields.nth(1)?.split(',');
        let master = fields.next().filter(|id| *id != "-").map(str::to_owned);
        let epoch = fields.nth(2)?.parse().ok()?;
        let is_connected = fields.next()? == "connected";
        let slots = fields.filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            // Skips moving slots, such as `[7->-…]`.
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        let slots = slots.collect();
        let is_well =
            is_connected && flags.all(|flag| ["myself", "master", "slave"].contains(&flag));
        Some(Self { id, master, epoch, slots, is_well })
    }
}
