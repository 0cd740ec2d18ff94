use lockwright_core::backend_util::finding;
use lockwright_core::{Error, ErrorKind, Finding, Result};
use zookeeper_client as zk;

use crate::errors::Effect;
use crate::session::Session;
use crate::shared::Shared;

pub(super) async fn look(shared: &Shared, session: &Session) -> Result<Vec<Finding>> {
    let root = shared.paths.root();
    let options = zk::CreateMode::EphemeralSequential.with_acls(shared.acls());
    let probe = shared.paths.probe();
    let making = session.client().create(&probe, b"", &options);
    let zxid = match session.answer(making).await {
        Ok((stat, sequence)) => {
            let path = format!("{probe}{sequence}");
            let _ = session.answer(session.client().delete(&path, None)).await;
            stat.czxid
        }
        Err(failure) if failure.is(&zk::Error::NoNode) => {
            if !session.has_chroot(&shared.config).await? {
                return Ok(vec![no_chroot(&shared.config.contents.chroot)]);
            }
            // All data are gone, or no client has ever locked here.
            0
        }
        Err(failure) if failure.is(&zk::Error::NoAuth) => return Ok(vec![denied(root)]),
        Err(failure) => {
            let cause = failure.error(Effect::Reads);
            if cause.kind() == ErrorKind::Unsupported {
                return Ok(vec![unsupported(&cause)]);
            }
            return Err(cause);
        }
    };
    let seen = shared.zxid_watermark.went_back(zxid);
    Ok(seen.map(|seen| went_back(root, zxid, seen)).into_iter().collect())
}

fn no_chroot(chroot: &str) -> Finding {
    finding::error(
        "zookeeper-no-chroot",
        format!("the chroot of the URL, {chroot}, is not there"),
        "nothing can be locked",
        "see whether it is spelled right; if it is, make that node",
    )
}

fn denied(root: &str) -> Finding {
    finding::error(
        "zookeeper-denied",
        format!("nothing may be made below {root}: it belongs to another login"),
        "nothing can be locked",
        "add that login to the URL, or use another prefix",
    )
}

fn unsupported(cause: &Error) -> Finding {
    finding::error(
        "zookeeper-local-sessions",
        format!("no lock's node can be made: {}", cause.message()),
        "nothing can be locked",
        "localSessionsUpgradingEnabled=true, or localSessionsEnabled=false, on all servers",
    )
}

fn went_back(root: &str, zxid: i64, seen: i64) -> Finding {
    let what = match zxid {
        0 => format!("{root} is gone"),
        _ => format!("the servers are at transaction {zxid:#x}"),
    };
    finding::error(
        "zookeeper-data-went-back",
        format!("{what}, and this client has seen {seen:#x}: older data were restored"),
        "two clients may hold the same lock, and fences decrease: resources written with later \
         fences reject the new ones",
        "restart all clients that use locks, and reset the stored fences of protected resources",
    )
}
