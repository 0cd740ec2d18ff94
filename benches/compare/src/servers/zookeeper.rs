use std::collections::BTreeMap;
use std::time::Duration;

use lockwright_testbed::ZooKeeper;

use super::{Counts, Result, Servers};

/// ZooKeeper's default tick. The testbed's is shorter.
const TICK: Duration = Duration::from_secs(2);

pub(super) fn three() -> Result<Servers> {
    let options = ZooKeeper::options().durable().full_size().tick(TICK);
    let ensemble = options.set("maxClientCnxns", "0").start()?;
    let addresses = ensemble.members.iter().map(|member| member.address().to_string()).collect();
    let answer = ensemble.four_letter(0, "srvr")?;
    let line = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
    let version = line.and_then(|line| line.split(['-', ',']).next()).unwrap_or("unknown");
    let version = ("ZooKeeper", format!("{version}, three members"));
    Ok(Servers::new(ensemble.url(), addresses, version, ensemble))
}

impl Counts for ZooKeeper {
    fn served(&self) -> Result<Option<u64>> {
        let mut sum = 0;
        for member in &self.members {
            let received = member.monitor("zk_packets_received");
            let received = received.and_then(|count| count.trim().parse::<f64>().ok());
            sum += received.ok_or_else(|| format!("{} doesn't tell", member.address()))? as u64;
        }
        Ok(Some(sum))
    }

    /// Counts pings: a connection's packets minus its last request number. Clients number all
    /// requests except pings.
    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        let mut pings = BTreeMap::new();
        for member in 0..self.members.len() {
            pings.extend(self.four_letter(member, "cons")?.lines().filter_map(pings_of));
        }
        Ok(pings)
    }
}

/// Parses a line of `cons`: ` /127.0.0.1:41386[1](queued=0,recved=3,…,sid=0x1,…,lcxid=0x2,…)`.
/// Returns the connection's address, and how many of its packets have no request number.
fn pings_of(line: &str) -> Option<(String, u64)> {
    let (address, fields) = line.trim().split_once('[')?;
    let (_, fields) = fields.split_once('(')?;
    let field = |name: &str| {
        let mut fields = fields.trim_end_matches(')').split(',');
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    // Connections of four-letter commands have no session.
    field("sid")?;
    let received: u64 = field("recved")?.parse().ok()?;
    let last = field("lcxid").and_then(|last| u64::from_str_radix(&last[2..], 16).ok());
    Some((address.to_owned(), received.saturating_sub(last.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::pings_of;

    #[test]
    fn packets_without_a_request_number_are_pings() {
        let line = " /127.0.0.1:41386[1](queued=0,recved=9,sent=9,sid=0x100,lop=PING,est=17,\
                    to=15000,lcxid=0x5,lzxid=0x1,lresp=7,llat=0,minlat=0,avglat=0,maxlat=1)";
        assert_eq!(pings_of(line), Some(("/127.0.0.1:41386".to_owned(), 4)));
        let idle = line.replace("lcxid=0x5,", "");
        assert_eq!(pings_of(&idle).unwrap().1, 9, "no request was answered yet");
        assert_eq!(pings_of(" /127.0.0.1:5[0](queued=0,recved=1,sent=0)"), None);
    }
}
