//! Hearing of a failover from the Sentinels.
//!
//! A connection to a master that was replaced while it was frozen, or cut off from everything but
//! its clients, stays open, and the server behind it goes on granting until it is told what it is
//! now. So a client listens to each Sentinel and gives such a connection up. It is a hint: a failover
//! whose message is lost is noticed as the end of a server is, by its silence or its refusal.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{
    AsyncConnectionConfig, ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisResult,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::Link;
use crate::topology::Topology;

/// How long a Sentinel that can't be listened to is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// After so long without a word a Sentinel is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(3);

const CHANNEL: &str = "+switch-master";

/// Listens to each Sentinel, until the set is dropped.
pub(crate) fn listen(link: &Arc<Link>) -> JoinSet<()> {
    let mut listening = JoinSet::new();
    if let Topology::Sentinel { sentinels, .. } = &link.config().topology {
        for sentinel in sentinels {
            listening.spawn(listen_to(sentinel.clone(), Arc::downgrade(link)));
        }
    }
    listening
}

async fn listen_to(sentinel: ConnectionInfo, link: Weak<Link>) {
    // The library knows pushes of RESP3 only.
    let settings = sentinel.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let sentinel = sentinel.set_redis_settings(settings);
    loop {
        let Some(limit) = link.upgrade().map(|link| link.config().connect_timeout) else { return };
        match timeout(limit, subscribe(sentinel.clone())).await {
            Ok(Ok((mut connection, mut pushes))) => {
                // Something may have happened before.
                check(&link).await;
                loop {
                    match timeout(SILENCE, pushes.recv()).await {
                        Ok(Some(push)) => match push.kind {
                            PushKind::Message => check(&link).await,
                            PushKind::Disconnection => break,
                            _ => {}
                        },
                        Ok(None) => break,
                        // A connection that a network forgot is silent, too.
                        Err(_) => match timeout(limit, answers(&mut connection, &link)).await {
                            Ok(true) => {}
                            _ => break,
                        },
                    }
                }
            }
            Ok(Err(cause)) => tracing::debug!(%cause, "redis: can't listen to a Sentinel"),
            Err(_) => tracing::debug!("redis: a Sentinel is silent"),
        }
        sleep(PAUSE).await;
    }
}

/// Whether the Sentinel is still there: asked what its user may ask anyway.
async fn answers(connection: &mut redis::aio::MultiplexedConnection, link: &Weak<Link>) -> bool {
    let mut question = redis::cmd("SENTINEL");
    match link.upgrade().map(|link| link.config().topology.clone()) {
        Some(Topology::Sentinel { master, .. }) => question.arg("MASTER").arg(master),
        _ => return false,
    };
    match question.exec_async(connection).await {
        Ok(()) => true,
        // A refusal is an answer, too.
        Err(cause) => cause.code().is_some(),
    }
}

async fn subscribe(
    sentinel: ConnectionInfo,
) -> RedisResult<(redis::aio::MultiplexedConnection, UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = unbounded_channel();
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(sender);
    let client = redis::Client::open(sentinel)?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&settings).await?;
    connection.subscribe(CHANNEL).await?;
    Ok((connection, pushes))
}

/// Gives the connection up if the Sentinels name another master: most of them, as the one that told
/// may be the first to know, or the last.
async fn check(link: &Weak<Link>) {
    let Some(link) = link.upgrade() else { return };
    let Some(sentinels) = link.sentinels() else { return };
    if let Ok(master) = sentinels.master().await {
        link.leave_unless_at(&master.to_string());
    }
}
