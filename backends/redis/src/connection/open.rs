use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{Error, Result};
use redis::aio::{MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, ConnectionInfo, PushInfo, PushKind, RedisResult};
use tokio::time::timeout;

use super::{Link, Live, Shared};
use crate::config::Config;
use crate::failure;
use crate::fast_path::CounterBound;
use crate::sentinel;
use crate::topology::{Topology, Whereabouts};
use crate::tracking;

const BUFFERED_REQUESTS: usize = 1_000;

/// The caller must set a time limit.
pub(crate) async fn dial(
    server: ConnectionInfo,
    settings: AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    let settings = settings.set_connection_timeout(None).set_response_timeout(None);
    redis::Client::open(server)?.get_multiplexed_async_connection_with_config(&settings).await
}

impl Link {
    pub(super) async fn open(self: &Arc<Self>) -> Result<Arc<Live>> {
        drop(lock(&self.current).take_if(|live| !live.alive.load(Ordering::Acquire)));
        let (live, elected) = match &self.to {
            Whereabouts::At(server) => {
                let limit = self.shared.config.connect_timeout;
                match timeout(limit, self.connect_to(server.as_ref().clone())).await {
                    Ok(end) => (end?, None),
                    Err(_) => return Err(failure::silence(&self.shown(server), limit)),
                }
            }
            Whereabouts::Master => match self.sentinels() {
                Some(sentinels) => {
                    let (live, epoch) = sentinels.reach(|server| self.connect_to(server)).await?;
                    (live, Some(epoch))
                }
                None => return Err(Error::unavailable("there are no Sentinels to ask")),
            },
        };
        let live = Arc::new(live);
        *lock(&self.current) = Some(Arc::clone(&live));
        // Sentinels may have reported a failover while there was no connection to close.
        if elected.is_some_and(|epoch| self.election.load(Ordering::Acquire) > epoch) {
            self.mark_broken(&live.alive);
            let message = format!("{} isn't the master any more", live.server);
            return Err(Error::unavailable(message));
        }
        // Wake-ups since the end of the last connection were lost. Another task wakes the waiters,
        // because this one has locked `connecting`, which they may need.
        if !self.is_waiting {
            let link = Arc::clone(self);
            self.shared.runtime.spawn(async move { link.shared.wakeups.subscribers.wake_all() });
        }
        Ok(live)
    }

    async fn connect_to(self: &Arc<Self>, server: ConnectionInfo) -> Result<Live> {
        let server = self.shared.config.logged_in(server).await?;
        let (shown, address) = (self.shown(&server), server.addr().to_string());
        let user = server.redis_settings().username().map(str::to_owned);
        let alive = Arc::new(AtomicBool::new(true));
        let settings = AsyncConnectionConfig::new()
            .set_pipeline_buffer_size(BUFFERED_REQUESTS)
            .set_push_sender(self.push_sender(&alive));
        let opening = async {
            let mut connection = dial(server, settings).await?;
            if self.is_waiting {
                // Fails if the user may not run `WAIT`.
                redis::cmd("WAIT").arg(0).arg(1).exec_async(&mut connection).await?;
            } else {
                connection.subscribe(&self.shared.wakeups.channels()).await?;
                let tracks = tracking::turn_on().exec_async(&mut connection).await;
                if let Err(cause) = &tracks
                    && cause.is_unrecoverable_error()
                {
                    tracks?;
                } else {
                    self.shared.wakeups.tracked.note(tracks.is_ok());
                }
            }
            let Config { topology, replicas, .. } = &self.shared.config;
            let time = match topology {
                Topology::One(_) if replicas.is_none() => {
                    redis::cmd("TIME").query_async::<(u64, u32)>(&mut connection).await.ok()
                }
                _ => None,
            };
            let time = time.map(|(seconds, micros)| Duration::new(seconds, 1_000 * micros));
            Ok((connection, CounterBound::new(time)))
        };
        let (mut connection, counter_bound) =
            opening.await.map_err(|cause| failure::of(&cause, &shown))?;
        if matches!(self.to, Whereabouts::Master) {
            sentinel::master::must_be_master(&mut connection, &shown).await?;
        }
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let probed = Arc::default();
        Ok(Live { connection, counter_bound, alive, probed, server: address, user, number })
    }

    fn push_sender(
        self: &Arc<Self>,
        alive: &Arc<AtomicBool>,
    ) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + 'static {
        let (link, alive) = (Arc::downgrade(self), Arc::clone(alive));
        move |push| {
            let link = link.upgrade().ok_or(SendError)?;
            let Shared { wakeups, runtime, .. } = &*link.shared;
            match push.kind {
                PushKind::Message => wakeups.receive(&push.data, &link.to, runtime),
                PushKind::Invalidate => wakeups.receive_changes(&push.data),
                PushKind::Disconnection => link.mark_broken(&alive),
                _ => {}
            }
            Ok(())
        }
    }

    fn shown(&self, server: &ConnectionInfo) -> String {
        let Config { topology, shown, .. } = &self.shared.config;
        match topology {
            Topology::One(_) => shown.clone(),
            Topology::Sentinel { .. } => format!("{}, the master of {shown},", server.addr()),
            Topology::Cluster { .. } => format!("{}, a node of {shown},", server.addr()),
        }
    }
}
