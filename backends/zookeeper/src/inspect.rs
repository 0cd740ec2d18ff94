use std::sync::Arc;

use lockwright_core::backend_util::queue_admission;
use lockwright_core::{Cursor, ErrorKind, Holder, Inspection, LockName, Mode, Page, Result};
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

#[derive(Default)]
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
    let mut inspected = inspect_all(shared, &session, std::slice::from_ref(name)).await;
    inspected.pop().unwrap_or_else(|| Ok(Inspection::free(name.clone())))
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
                 login; add it to the URL, or use another prefix"
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
    let inspected = inspect_all(shared, &session, &names).await.into_iter();
    let readable = inspected
        .filter(|found| !found.as_ref().is_err_and(|cause| cause.kind() == ErrorKind::Denied));
    let mut names = readable.collect::<Result<Vec<_>>>()?;
    names.retain(|found| !found.holders.is_empty());
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

async fn inspect_all(
    shared: &Shared,
    session: &Session,
    names: &[LockName],
) -> Vec<Result<Inspection>> {
    let paths: Vec<String> = names.iter().map(|name| shared.paths.queue(name)).collect();
    let client = &session.client;
    let looks: Vec<_> = paths.iter().map(|path| client.list_children(path)).collect();
    let mut queues = Vec::with_capacity(names.len());
    for look in looks {
        queues.push(read(session, look).await.map(|found| queue(found.unwrap_or_default())));
    }
    let asked: Vec<_> = paths
        .iter()
        .zip(&queues)
        .map(|(path, queue)| {
            let queue = queue.as_deref().unwrap_or_default();
            let ask = |held: &Contender| client.get_data(&format!("{path}/{}", held.node));
            holding(queue).iter().map(ask).collect::<Vec<_>>()
        })
        .collect();
    let mut inspected = Vec::with_capacity(names.len());
    for ((name, path), (queue, asked)) in
        names.iter().zip(&paths).zip(queues.into_iter().zip(asked))
    {
        let inspect = async {
            let found = match Queue::of(session, path, &queue?, asked).await? {
                Some(found) => found,
                None => holders(session, path).await?,
            };
            let mut inspection = Inspection::free(name.clone());
            inspection.waiters = Some(found.waiters as u64);
            for held in found.holders {
                inspection.holders.push(held.holder()?);
            }
            let shared = inspection.holders.iter().filter_map(|holder| holder.fence).min();
            for reader in inspection.holders.iter_mut().filter(|one| one.mode == Mode::Shared) {
                reader.fence = shared;
            }
            Ok(inspection)
        };
        inspected.push(inspect.await);
    }
    inspected
}

fn holding(queue: &[Contender]) -> &[Contender] {
    &queue[..queue_admission::holders(&modes(queue))]
}

pub(crate) async fn holders(session: &Session, path: &str) -> Result<Queue> {
    loop {
        let children = read(session, session.client.list_children(path)).await?;
        let queue = queue(children.unwrap_or_default());
        let ask = |held: &Contender| session.client.get_data(&format!("{path}/{}", held.node));
        let asked: Vec<_> = holding(&queue).iter().map(ask).collect();
        if let Some(found) = Queue::of(session, path, &queue, asked).await? {
            return Ok(found);
        }
    }
}

impl Queue {
    /// Returns the queue's holders, or `None` if a holder's node no longer exists.
    async fn of<A>(
        session: &Session,
        path: &str,
        queue: &[Contender],
        asked: Vec<A>,
    ) -> Result<Option<Self>>
    where
        A: Future<Output = Result<(Vec<u8>, zk::Stat), zk::Error>>,
    {
        let mut found = Self { holders: Vec::new(), waiters: queue.len() - asked.len() };
        for (held, asked) in queue.iter().zip(asked) {
            let Some((data, stat)) = read(session, asked).await? else { return Ok(None) };
            let (path, value) = (format!("{path}/{}", held.node), Value::read(&data));
            found.holders.push(Held { path, stat, value, mode: held.mode });
        }
        Ok(Some(found))
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
