use lockwright_conformance::{Fragile, Harm, Step, connector_to, problem};
use lockwright_core::Result;
use lockwright_testbed::{self as testbed, Proxy};

use super::{Cluster, connect};

/// Returns a cluster that the conformance suite may harm.
pub(crate) async fn fragile(cluster: testbed::Result<Cluster>) -> Result<Fragile> {
    let mut cluster = cluster.map_err(problem)?;
    let proxies = cluster.members.iter().map(|member| Proxy::start(member.address()));
    let proxies = proxies.collect::<testbed::Result<Vec<_>>>().map_err(problem)?;
    let direct = connector_to(cluster.url(), connect);
    let cut_off = connector_to(cluster.url_through(proxies.iter().map(Proxy::port)), connect);
    Ok(Fragile::new(direct, cut_off, move |step| {
        match step {
            Step::Begin(Harm::Freeze) => cluster.members.iter().for_each(|one| one.freeze()),
            Step::End(Harm::Freeze) => cluster.members.iter().for_each(|one| one.thaw()),
            Step::Begin(Harm::Restart) => cluster.restart(true)?,
            Step::Begin(Harm::Forget) => cluster.restart(false)?,
            Step::Begin(Harm::Cut) => proxies.iter().for_each(Proxy::cut),
            Step::End(Harm::Cut) => proxies.iter().for_each(Proxy::mend),
            Step::Begin(_) | Step::End(_) => {}
        }
        Ok(())
    }))
}
