//! The Sentinels' notifications of failovers. The client then disconnects from the old master,
//! which may grant locks after a freeze or a partition until it is demoted.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{
    AsyncConnectionConfig, ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisResult,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::{Link, command, dial};
use crate::topology::Topology;

const PAUSE: Duration = Duration::from_secs(1);

const SILENCE: Duration = Duration::from_secs(3);

const CHANNEL: &str = "+switch-master";

pub(crate) fn listen(link: &Arc<Link>) -> JoinSet<()> {
    let mut listening = JoinSet::new();
    if let Topology::Sentinel { sentinels, .. } = &link.shared.config.topology {
        for sentinel in sentinels {
            listening.spawn(listen_to(sentinel.clone(), Arc::downgrade(link)));
        }
    }
    listening
}

async fn listen_to(sentinel: ConnectionInfo, link: Weak<Link>) {
    // The client library receives pushes only with RESP3.
    let settings = sentinel.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let sentinel = sentinel.set_redis_settings(settings);
    loop {
        let limit = link.upgrade().map(|link| link.shared.config.connect_timeout);
        let Some(limit) = limit else { return };
        match timeout(limit, subscribe(sentinel.clone())).await {
            Ok(Ok((mut connection, mut pushes))) => {
                // A failover may have happened before the subscription.
                check(&link).await;
                loop {
                    match timeout(SILENCE, pushes.recv()).await {
                        Ok(Some(push)) => match push.kind {
                            PushKind::Message => check(&link).await,
                            PushKind::Disconnection => break,
                            _ => {}
                        },
                        Ok(None) => break,
                        // A broken connection may be silent, so send a request.
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

async fn answers(connection: &mut redis::aio::MultiplexedConnection, link: &Weak<Link>) -> bool {
    let topology = link.upgrade().map(|link| link.shared.config.topology.clone());
    let Some(Topology::Sentinel { master, .. }) = topology else { return false };
    let answer = command(&["SENTINEL", "MASTER", &master]).exec_async(connection).await;
    // Even an error reply shows that the connection works.
    answer.map_or_else(|cause| cause.code().is_some(), |()| true)
}

async fn subscribe(
    sentinel: ConnectionInfo,
) -> RedisResult<(redis::aio::MultiplexedConnection, UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = unbounded_channel();
    let settings = AsyncConnectionConfig::new().set_push_sender(sender);
    let mut connection = dial(sentinel, settings).await?;
    connection.subscribe(CHANNEL).await?;
    Ok((connection, pushes))
}

/// Disconnects from a replaced master. A majority of the Sentinels must name the new master.
async fn check(link: &Weak<Link>) {
    let Some(link) = link.upgrade() else { return };
    let Some(sentinels) = link.sentinels() else { return };
    if let Ok(master) = sentinels.master().await {
        link.leave_unless_at(&master.at.to_string());
    }
}
