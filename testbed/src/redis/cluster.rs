use std::time::Duration;

use super::topology::{self, Node, owner};
use super::{Options, Redis};
use crate::ensemble::{all_at_once, wait_until};
use crate::{Error, Result, methods};

const MASTERS: usize = 3;
const NODES: usize = 2 * MASTERS;
const SLOTS: usize = 16_384;

#[derive(Debug, Clone)]
pub struct ClusterOptions {
    server: Options,
    node_timeout: Duration,
}

methods::setters! { ClusterOptions {
    pub fn servers(options: Options) sets server to options;
    /// How long a node may be silent before it counts as down; 2 s by default.
    pub fn node_timeout(limit: Duration) sets node_timeout to limit;
} }

impl ClusterOptions {
    pub fn start(self) -> Result<Cluster> {
        let mut server = self.server.in_a_set()?;
        server.cluster = Some(self.node_timeout);
        let nodes = all_at_once(0..NODES, |_| server.clone().start())?;
        let ids = nodes.iter().map(|node| node.command(&["CLUSTER", "MYID"]));
        let ids = ids.collect::<Result<_>>()?;
        let this = Cluster { nodes, ids };
        this.join()?;
        this.wait_until_whole()?;
        Ok(this)
    }
}

/// A node that [restarts](Redis::restart) keeps its identity and its view of the Cluster, even
/// without its data.
#[derive(Debug)]
pub struct Cluster {
    /// Three masters, then their replicas in the same order.
    pub nodes: Vec<Redis>,
    ids: Vec<String>,
}

#[derive(Debug)]
#[must_use = "until it's finished, both masters serve a part of the slot's keys"]
pub struct SlotMove {
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

impl Cluster {
    pub fn start() -> Result<Self> {
        Self::options().start()
    }

    pub fn options() -> ClusterOptions {
        ClusterOptions { server: Redis::options(), node_timeout: Duration::from_secs(2) }
    }

    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let options = &self.nodes[0].options;
        format!("{}+cluster://{}{}", options.scheme(), options.in_url(), hosts.join(","))
    }

    pub fn slot_of(&self, key: &str) -> Result<u16> {
        let mut answers =
            self.nodes.iter().map(|node| node.admin.ask(&["CLUSTER", "KEYSLOT", key]));
        answers.find(Result::is_ok).unwrap_or_else(|| Err(Error::new("no node answers")))
    }

    /// Returns a key's master in the nodes' newest view: maybe a dead node, until a replica takes
    /// over.
    pub fn master_of(&self, key: &str) -> Result<usize> {
        let slot = self.slot_of(key)?;
        self.views()
            .iter()
            .filter_map(|(_, view)| owner(view, slot))
            .max_by_key(|owner| owner.epoch)
            .and_then(|owner| self.index(&owner.id))
            .ok_or_else(|| Error::new(format!("nobody serves slot {slot}")))
    }

    pub fn replica_of(&self, master: usize) -> Result<usize> {
        let id = Some(&self.ids[master]);
        let views = self.views();
        let nodes = views.iter().flat_map(|(_, view)| view);
        let mut replicas = nodes.filter(|node| node.is_well && node.master.as_ref() == id);
        replicas
            .find_map(|replica| self.index(&replica.id))
            .ok_or_else(|| Error::new(format!("node {master} has no replica")))
    }

    /// Waits until all answering nodes but `old` agree on another master of the key.
    pub fn wait_for_failover(&self, key: &str, old: usize) -> Result<usize> {
        let slot = self.slot_of(key)?;
        wait_until("the failover", || {
            let mut views = self.views();
            views.retain(|(index, _)| *index != old);
            let master = self.agreed_owner(&views, slot).filter(|master| *master != old)?;
            let answers = views.iter().any(|(index, _)| *index == master);
            let is_well = |(index, _): &(usize, Vec<Node>)| self.is_well(*index);
            (answers && views.iter().all(is_well)).then_some(master)
        })
    }

    pub fn wait_until_whole(&self) -> Result<()> {
        wait_until("that all nodes agree", || {
            let views = self.views();
            let (_, first) = views.first()?;
            let agree = views.len() == NODES && views.iter().all(|(_, view)| view == first);
            let all_well = first.len() == NODES && first.iter().all(|n| n.is_well);
            let masters = first.iter().filter(|node| node.master.is_none()).count();
            (agree && all_well && masters == MASTERS).then_some(())?;
            let follows =
                |node: &Redis| node.info("master_link_status").is_none_or(|status| status == "up");
            let whole = (0..NODES).all(|node| self.is_well(node) && follows(&self.nodes[node]));
            whole.then_some(())
        })
    }

    pub fn move_slot(&self, key: &str) -> Result<usize> {
        let from = self.master_of(key)?;
        let views = self.views();
        let (_, view) = views.first().ok_or_else(|| Error::new("no node answers"))?;
        let mut masters = view.iter().filter(|node| node.is_well && node.master.is_none());
        let to = masters
            .find_map(|node| self.index(&node.id).filter(|index| *index != from))
            .ok_or_else(|| Error::new("there is no other master"))?;
        let started = self.begin_move(key, to)?;
        self.finish_move(started)?;
        Ok(to)
    }

    /// The old master answers `ASK` for missing keys.
    pub fn begin_move(&self, key: &str, to: usize) -> Result<SlotMove> {
        let (slot, from) = (self.slot_of(key)?, self.master_of(key)?);
        self.set_slot(to, slot, &["IMPORTING", &self.ids[from]])?;
        self.set_slot(from, slot, &["MIGRATING", &self.ids[to]])?;
        Ok(SlotMove { slot, from, to })
    }

    pub fn move_keys(&self, slot: &SlotMove) -> Result<usize> {
        let (from, to) = (&self.nodes[slot.from], &self.nodes[slot.to]);
        let port = to.port.to_string();
        let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
        let login = to.options.login();
        if let Some(login) = &login {
            let user = login.user.as_deref().unwrap_or("default");
            migrate.extend(["AUTH2", user, &login.password]);
        }
        migrate.push("KEYS");
        let number = slot.slot.to_string();
        let mut moved = 0;
        loop {
            let keys: Vec<String> = from.command(&["CLUSTER", "GETKEYSINSLOT", &number, "100"])?;
            if keys.is_empty() {
                return Ok(moved);
            }
            let mut migrate = migrate.clone();
            migrate.extend(keys.iter().map(String::as_str));
            from.command::<()>(&migrate)?;
            moved += keys.len();
        }
    }

    pub fn finish_move(&self, slot: SlotMove) -> Result<()> {
        self.move_keys(&slot)?;
        self.hand_over(&slot)?;
        let SlotMove { slot, to, .. } = slot;
        wait_until("that all nodes know who has the slot", || {
            (self.agreed_owner(&self.views(), slot) == Some(to)).then_some(())
        })
    }

    /// Assigns the slot to the new master on both masters, which notify the others later.
    pub fn hand_over(&self, slot: &SlotMove) -> Result<()> {
        for node in [slot.to, slot.from] {
            self.set_slot(node, slot.slot, &["NODE", &self.ids[slot.to]])?;
        }
        Ok(())
    }

    fn set_slot(&self, node: usize, slot: u16, what: &[&str]) -> Result<()> {
        let slot = slot.to_string();
        let command = [&["CLUSTER", "SETSLOT", &slot], what].concat();
        self.nodes[node].command(&command)
    }

    fn join(&self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            // Nodes need time to resolve equal epochs.
            let epoch = (index + 1).to_string();
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
            if index < MASTERS {
                let first = (index * SLOTS / MASTERS).to_string();
                let last = ((index + 1) * SLOTS / MASTERS - 1).to_string();
                node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            }
            for other in &self.nodes[..index] {
                let (port, bus) = (other.port, other.bus_port.expect("it is in a Cluster"));
                let (port, bus) = (port.to_string(), bus.to_string());
                node.command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
            }
        }
        wait_until("that all nodes meet", || {
            let views = self.views();
            let met = |(_, view): &(usize, Vec<Node>)| {
                view.len() == NODES && view.iter().all(|node| node.is_well)
            };
            (views.len() == NODES && views.iter().all(met)).then_some(())
        })?;
        for (replica, master) in self.nodes[MASTERS..].iter().zip(&self.ids) {
            replica.command::<()>(&["CLUSTER", "REPLICATE", master])?;
        }
        Ok(())
    }

    fn views(&self) -> Vec<(usize, Vec<Node>)> {
        let view = |(index, node): (usize, &Redis)| {
            let answer: String = node.admin.ask(&["CLUSTER", "NODES"]).ok()?;
            Some((index, topology::read(&answer)?))
        };
        self.nodes.iter().enumerate().filter_map(view).collect()
    }

    fn agreed_owner(&self, views: &[(usize, Vec<Node>)], slot: u16) -> Option<usize> {
        let mut owners = views.iter().map(|(_, view)| owner(view, slot).map(|node| &node.id));
        let first = owners.next()??;
        owners.all(|owner| owner == Some(first)).then(|| self.index(first))?
    }

    fn index(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|known| known == id)
    }

    fn is_well(&self, node: usize) -> bool {
        let info: Result<String> = self.nodes[node].admin.ask(&["CLUSTER", "INFO"]);
        info.is_ok_and(|info| info.contains("cluster_state:ok"))
    }
}
