//! The faults, and each backend's promises under them. If no profile covers a fault, this module
//! defines the promise.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockwright::Profile;
use lockwright::profile::{Fault as Promised, Fencing};

use crate::configuration::{Configuration, Kind, named};

named! { Fault {
    ClientKilled,
    ClientStopped,
    ServerKilled,
    ServerFrozen,
    ServerRestarted,
    ServerDataLost,
    Failover,
    ConnectionsCut,
    ConnectionsHalfOpen,
    ConnectionsDelayed,
    Throttled,
    ConnectionsSilent,
    RowLocked,
    TableLocked,
    ConnectionLimit,
    DescriptorLimit,
    DiskFull,
    DiskSlow,
    ClockForward,
    ClockBack,
} }

use Configuration::*;
use Fault::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) exclusion: bool,
    pub(crate) fences: bool,
}

impl Promise {
    pub(crate) const KEPT: Self = Self { exclusion: true, fences: true };

    pub(crate) fn and(self, other: Self) -> Self {
        Self { exclusion: self.exclusion && other.exclusion, fences: self.fences && other.fences }
    }
}

impl Fault {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.to_string() == name)
    }

    pub(crate) fn is_a_clients(self) -> bool {
        matches!(self, ClientKilled | ClientStopped)
    }

    pub(crate) fn is_on_the_way(self) -> bool {
        matches!(
            self,
            ConnectionsCut
                | ConnectionsHalfOpen
                | ConnectionsDelayed
                | Throttled
                | ConnectionsSilent
        )
    }

    pub(crate) fn applies_to(self, configuration: Configuration) -> bool {
        let kind = configuration.kind();
        match self {
            ClientKilled | ClientStopped => true,
            _ if configuration == Sqlite => matches!(self, TableLocked | DiskFull),
            Failover => matches!(configuration, RedisSentinel | RedisCluster | Etcd | ZooKeeper),
            RowLocked => matches!(configuration, PostgresLease | MysqlLease),
            TableLocked => matches!(kind, Kind::Postgres | Kind::Mysql),
            // etcd has no connection limit, and a running ZooKeeper can't change its own.
            ConnectionLimit => matches!(kind, Kind::Postgres | Kind::Mysql | Kind::Redis),
            DescriptorLimit => !configuration.has_several_servers(),
            // PostgreSQL and MariaDB write to preallocated files.
            DiskFull => configuration == Redis,
            // etcd's clock can't be stepped. In Sentinel and Cluster, a step affects failovers.
            ClockForward | ClockBack => {
                !matches!(configuration, RedisSentinel | RedisCluster | Etcd)
            }
            _ => true,
        }
    }

    pub(crate) fn lasts(self, ttl: Duration) -> RangeInclusive<u64> {
        let ttl = ttl.as_millis() as u64;
        match self {
            ClientKilled => 50..=300,
            ClientStopped => ttl + 200..=ttl + 900,
            ServerKilled | ServerRestarted | ServerDataLost => 20..=400,
            Failover => 200..=500,
            ServerFrozen => 300..=1500,
            ConnectionsCut => 50..=ttl + 500,
            ConnectionsHalfOpen | ConnectionsSilent => 400..=1500,
            ConnectionsDelayed | Throttled => 600..=1500,
            RowLocked | TableLocked => 500..=ttl + 500,
            ConnectionLimit | DescriptorLimit | DiskFull | DiskSlow => 300..=1200,
            ClockForward | ClockBack => 500..=1500,
        }
    }

    pub(crate) fn promise(
        self,
        configuration: Configuration,
        profile: &Profile,
        leader: bool,
    ) -> Promise {
        let kept_if = |exclusion| Promise { exclusion, fences: true };
        let survives = |fault| kept_if(profile.survives.contains(fault));
        let by_connection = configuration.holds_by_connection();
        match self {
            ClientKilled => survives(Promised::ClientCrash),
            // A suspended or blocked client ends its holds by its own clock.
            ClientStopped | RowLocked | TableLocked => Promise::KEPT,
            // In Sentinel and Cluster, the others may replace a frozen master.
            ServerFrozen | DiskSlow => match configuration {
                RedisCluster => survives(Promised::Failover),
                RedisSentinel if leader => survives(Promised::Failover),
                // After a freeze, the old leader may revoke leases that clients renewed at the new
                // one.
                Etcd => kept_if(!leader),
                _ => kept_if(!by_connection),
            },
            ServerKilled | ServerRestarted | DiskFull | DescriptorLimit => match configuration {
                RedisSentinel | RedisCluster => survives(Promised::Failover),
                _ => survives(Promised::ServerRestart),
            },
            ServerDataLost => data_lost(configuration, profile),
            Failover => match configuration {
                // The new leader has all acknowledged writes, as after a minority's loss.
                Etcd => survives(Promised::MinorityLoss),
                _ => survives(Promised::Failover),
            },
            // At the limit, the master refuses the Sentinels, which may start a failover.
            ConnectionLimit if configuration == RedisSentinel => survives(Promised::Failover),
            ConnectionsCut | ConnectionsHalfOpen | ConnectionsDelayed | Throttled
            | ConnectionsSilent | ConnectionLimit => survives(Promised::Partition),
            ClockForward => survives(Promised::ServerClockStep),
            // A step back only prolongs holds that aren't renewed.
            ClockBack => Promise::KEPT,
        }
    }
}

fn data_lost(configuration: Configuration, profile: &Profile) -> Promise {
    let one_of_several = matches!(configuration, Etcd | ZooKeeper | Redlock);
    let fault = if one_of_several { Promised::MinorityLoss } else { Promised::ServerDataLoss };
    Promise {
        exclusion: profile.survives.contains(fault),
        fences: one_of_several || profile.fencing == Fencing::Clocked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own_and_applies_somewhere() {
        for fault in Fault::ALL {
            assert_eq!(Fault::named(&fault.to_string()), Some(fault));
            assert!(Configuration::ALL.iter().any(|one| fault.applies_to(*one)), "{fault}");
        }
    }

    #[test]
    fn stopped_clients_are_stopped_for_longer_than_the_ttl() {
        for configuration in Configuration::ALL {
            let ttl = configuration.ttl();
            let shortest = *ClientStopped.lasts(ttl).start();
            assert!(u128::from(shortest) > ttl.as_millis(), "{configuration}");
        }
    }
}
