use super::{
    LONG, SHORT, elected, hold_at, hold_is_lost_in_time, locks, participants, url_without, whole,
};
use crate::common::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_a_leader_that_dies_or_freezes_for_longer_than_the_ttl() {
    for dies in [true, false] {
        let mut ensemble = Cluster::start().unwrap();
        let all = participants(LONG);
        let old = ensemble.leader().unwrap();
        let (_ours, holder) = hold_at(old, &ensemble, &all).await;
        let others = locks(&url_without(&ensemble, old)).await;
        let waiter = all.wait("waiter", &others).await;
        match dies {
            true => ensemble.members[old].kill(),
            false => ensemble.members[old].freeze(),
        }
        elected(&ensemble, old);
        holder.goes_on().await;
        if !dies {
            ensemble.members[old].thaw();
            whole(&ensemble);
        }
        all.survives(holder, waiter).await;
    }
}

/// The holder's URL has only the frozen leader, so the client can't move.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_frozen_leader_alone_loses_its_hold_in_time() {
    let ensemble = Cluster::start().unwrap();
    let old = ensemble.leader().unwrap();
    let harm = || {
        ensemble.members[old].freeze();
        elected(&ensemble, old);
    };
    let mend = async || ensemble.members[old].thaw();
    hold_is_lost_in_time(&ensemble, old, (SHORT, SHORT * 2), harm, mend).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_leader_that_is_cut_off_loses_its_hold_in_time() {
    // The cut-off leader acts as leader for 6 s, which is the hold's TTL.
    let ensemble = Cluster::options().sync_limit(30).start().unwrap();
    let old = ensemble.leader().unwrap();
    let harm = || {
        ensemble.isolate(old);
        elected(&ensemble, old);
    };
    // The new leader restarts the sessions' timeouts, so the loss may take two TTLs.
    let times = (SHORT, SHORT * 2);
    hold_is_lost_in_time(&ensemble, old, times, harm, async || ensemble.heal(old)).await;
}
