use std::sync::Arc;

use lockwright_core::backend_util::queue_admission;
use lockwright_core::{Cursor, ErrorKind, Holder, Inspection, LockName, Mode, Page, Result};
use tokio::task::JoinSet;
use zookeeper_client as zk;

use crate::acquire::fence;
use crate::config::Config;
use crate::errors::{Effect, error, if_present, no_chroot};
use crate::paths::Paths;
use crate::queue::{Contender, modes, queue};
use crate::session::Session;
use crate::shared::Shared;
use crate::value::Value;

const PAGE: usize = 100;

pub(crate) struct Queue {
    pub(crate) holders: Vec<Held>,
    waiters: usize,
}

pub(crate) struct Held {
    pub(crate) path: String,
    pub(crate) stat: zk::Stat,
    pub(crate) value: Option<Value>,
    mode: Mode,
}

pub(crate) async fn inspect(shared: &Arc<Shared>, name: &LockName) -> Result<Inspection> {
    let session = up_to_date(shared).await?;
    look(session, shared.paths.queue(name), name.clone()).await
}

pub(crate) async fn page(shared: &Arc<Shared>, prefix: &str, from: Option<Cursor>) -> Result<Page> {
    let session = up_to_date(shared).await?;
    let root = shared.paths.root();
    let children = read(&session, session.client.list_children(root)).await;
    let children = children.map_err(|cause| match cause.kind() {
        ErrorKind::Denied => error(
            ErrorKind::Denied,
            format!(
                "the servers deny access: {root}, with all locks below it, belongs to another \
                 login; use it, or another prefix"
            ),
        ),
        _ => cause,
    })?;
    let after = from.map(|Cursor(after)| after);
    let is_wanted = |name: &LockName| {
        name.as_str().starts_with(prefix)
            && after.as_deref().is_none_or(|after| name.as_str() > after)
    };
    let children = children.unwrap_or_default();
    let names = children.iter().filter_map(|child| Paths::name_of(child));
    let mut names: Vec<LockName> = names.filter(is_wanted).collect();
    names.sort_unstable();
    let is_last = names.len() <= PAGE;
    names.truncate(PAGE);
    let next = names.last().filter(|_| !is_last).map(|last| Cursor(last.as_str().to_owned()));
    let looks = names
        .into_iter()
        .map(|name| look(Arc::clone(&session), shared.paths.queue(&name), name))
        .collect::<JoinSet<_>>();
    let readable = looks
        .join_all()
        .await
        .into_iter()
        .filter(|found| !found.as_ref().is_err_and(|cause| cause.kind() == ErrorKind::Denied));
    let mut names = readable.collect::<Result<Vec<_>>>()?;
    names.retain(|found| !found.holders.is_empty());
    names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(Page { names, next })
}

pub(crate) async fn up_to_date(shared: &Arc<Shared>) -> Result<Arc<Session>> {
    let session = shared.sessions.for_reads(shared).await?;
    refresh(&session, &shared.config).await?;
    Ok(session)
}

/// Brings the session's server up to date. A missing chroot is an error.
pub(crate) async fn refresh(session: &Session, config: &Config) -> Result<()> {
    session.sync().await?;
    if session.has_chroot(config).await? { Ok(()) } else { Err(no_chroot(&config.contents.chroot)) }
}

async fn look(session: Arc<Session>, path: String, name: LockName) -> Result<Inspection> {
    let found = holders(&session, &path).await?;
    let mut inspection = Inspection::free(name);
    inspection.waiters = Some(found.waiters as u64);
    for held in found.holders {
        inspection.holders.push(held.holder()?);
    }
    let lowest_fence = inspection.holders.iter().filter_map(|holder| holder.fence).min();
    for reader in inspection.holders.iter_mut().filter(|one| one.mode == Mode::Shared) {
        reader.fence = lowest_fence;
    }
    Ok(inspection)
}

pub(crate) async fn holders(session: &Session, path: &str) -> Result<Queue> {
    'queue: loop {
        let children = read(session, session.client.list_children(path)).await?;
        let queue = queue(children.unwrap_or_default());
        let count = queue_admission::holders(&modes(&queue));
        let mut found = Queue { holders: Vec::new(), waiters: queue.len() - count };
        let ask = |held: &Contender| {
            let path = format!("{path}/{}", held.node);
            (session.client.get_data(&path), path, held.mode)
        };
        let asked: Vec<_> = queue[..count].iter().map(ask).collect();
        for (asked, path, mode) in asked {
            let Some((data, stat)) = read(session, asked).await? else { continue 'queue };
            found.holders.push(Held { path, stat, value: Value::read(&data), mode });
        }
        return Ok(found);
    }
}

impl Held {
    fn holder(self) -> Result<Holder> {
        Ok(Value::holder(self.value, self.mode, fence(&self.stat)?))
    }
}

async fn read<T>(
    session: &Session,
    asked: impl Future<Output = Result<T, zk::Error>>,
) -> Result<Option<T>> {
    if_present(session.answer(asked).await, Effect::Reads)
}
