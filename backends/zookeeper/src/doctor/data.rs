use lockwright_core::backend_util::finding;
use lockwright_core::{ErrorKind, Finding, Result};
use zookeeper_client as zk;

use crate::errors::Effect;
use crate::session::Session;
use crate::shared::Shared;

pub(super) async fn look(shared: &Shared, session: &Session) -> Result<Option<Finding>> {
    let (root, chroot) = (shared.paths.root(), &shared.config.contents.chroot);
    let options = zk::CreateMode::EphemeralSequential.with_acls(shared.acls());
    let probe = shared.paths.probe();
    let making = session.client.create(&probe, b"", &options);
    let zxid = match session.answer(making).await {
        Ok((stat, sequence)) => {
            let path = format!("{probe}{sequence}");
            let _ = session.answer(session.client.delete(&path, None)).await;
            stat.czxid.unsigned_abs()
        }
        Err(failure) if failure.is(&zk::Error::NoNode) => {
            if !session.has_chroot(&shared.config).await? {
                return Ok(Some(finding::error(
                    "zookeeper-no-chroot",
                    format!("the chroot of the URL, {chroot}, is not there"),
                    "nothing can be locked",
                    "see whether it is spelled right; if it is, make that node",
                )));
            }
            // The node is missing: all data are gone, or no client has ever locked here.
            0
        }
        Err(failure) => {
            let cause = failure.error(Effect::Reads);
            let (code, fix) = match cause.kind() {
                ErrorKind::Denied => {
                    ("zookeeper-denied", "use the login of the other clients, or another prefix")
                }
                ErrorKind::Unsupported => (
                    "zookeeper-local-sessions",
                    "localSessionsUpgradingEnabled=true, or localSessionsEnabled=false, on all \
                     servers",
                ),
                _ => return Err(cause),
            };
            let what = format!("no node can be made below {root}: {}", cause.message());
            return Ok(Some(finding::error(code, what, "nothing can be locked", fix)));
        }
    };
    let seen = shared.saw_zxid(zxid);
    let what = match zxid {
        0 => format!("{root} is gone"),
        _ => format!("the servers are at transaction {zxid:#x}"),
    };
    Ok((seen > zxid).then(|| {
        finding::error(
            "zookeeper-data-went-back",
            format!("{what}, and this client has seen {seen:#x}: older data were restored"),
            "two clients may hold the same lock, and fences decrease: resources written with later \
             fences reject the new ones",
            "restart all clients that use locks, and reset the stored fences of protected resources",
        )
    }))
}
