//! Fencing for data in ZooKeeper: [`commit`] keeps a holder that was paused for longer than its TTL
//! from overwriting a later holder's changes.
//!
//! ```no_run
//! # async fn example(locks: lockwright_core::Locks) -> Result<(), Box<dyn std::error::Error>> {
//! use lockwright_zookeeper::fencing;
//! use lockwright_zookeeper::zookeeper_client::Client;
//!
//! let guard = locks.mutex("orders/42").acquire().await?;
//! let client = Client::connect("a:2181").await?;
//! // Returns `Lost` if a later holder has written.
//! fencing::commit(&client, "/orders/42/fence", &guard.fenced(), |write| {
//!     write.add_set_data("/orders/42", b"paid", None)
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`commit`] stores the highest fence in a node of the caller's choice, in decimal. All writers of
//! the same data must use the same node. If it is missing, [`commit`] creates it with permissions
//! for all. For other permissions, create the node with the content `0`. Its parent must exist.
//!
//! Each call reads the node, and then sends one `multi` on condition that the node is unchanged.
//! The fences may come from any backend, and the data may be in any ZooKeeper.

use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, ErrorKind, Fence, Result};
use zookeeper_client as zk;

use crate::errors::{BACKEND, Effect, Failure, error};

const TRIES: usize = 20;

/// Carries out the operations that `write` adds, all or none, if no later holder has written.
///
/// Stores the fence in the node at `path`, and returns the results of the operations.
///
/// Concurrent readers share a fence, so each of them may write. `write` is called again after a
/// concurrent write, and must not change the fence's node.
///
/// # Errors
/// Nothing was done, unless the error is `Indeterminate`.
///
/// - [`Lost`](ErrorKind::Lost) with [`Superseded`](lockwright_core::Reason::Superseded): a later
///   holder has written.
/// - [`Conflict`](ErrorKind::Conflict): the node at `path` contains no fence, or an operation
///   failed, with a [`MultiWriteError`](zk::MultiWriteError) as the source.
/// - [`InvalidInput`](ErrorKind::InvalidInput): the fence is above [`Fence::MAX`], the node's
///   parent is missing, or a path is malformed.
/// - [`Denied`](ErrorKind::Denied), [`Unavailable`](ErrorKind::Unavailable): the servers deny
///   access, or can't serve the request now.
/// - [`Indeterminate`](ErrorKind::Indeterminate): the outcome is unknown. If carrying out the
///   operations twice is harmless, retry with the same fence.
///
/// # Cancel safety
/// If the future is dropped, the operations may have been carried out, or may still be.
pub async fn commit<W>(
    client: &zk::Client,
    path: &str,
    fenced: &Fenced,
    write: W,
) -> Result<Vec<zk::MultiWriteResult>>
where
    W: Fn(&mut zk::MultiWriter<'_>) -> Result<(), zk::Error>,
{
    let name = |failure: Error| failure.with_name(&fenced.name).with_backend(BACKEND);
    fenced.fence.checked().map_err(name)?;
    for _ in 0..TRIES {
        match attempt(client, path, fenced, &write).await.map_err(name)? {
            Some(results) => return Ok(results),
            // The server that answered the read may lag behind: sync it, and try again.
            None => client.sync(path).await.map_err(|cause| name(failed(cause, Effect::Reads)))?,
        }
    }
    let message =
        "other clients kept changing the fence's node, so no operation was done; try again";
    Err(name(error(ErrorKind::Unavailable, message)))
}

async fn attempt(
    client: &zk::Client,
    path: &str,
    fenced: &Fenced,
    write: impl Fn(&mut zk::MultiWriter<'_>) -> Result<(), zk::Error>,
) -> Result<Option<Vec<zk::MultiWriteResult>>> {
    let version = match client.get_data(path).await {
        Ok((data, stat)) => {
            // Fences only increase, so even a lagging server's higher fence rejects the write.
            let highest = read(&data).ok_or_else(|| {
                let message = "the data of the fence's node isn't a fence; use a node that no \
                               other program writes to";
                error(ErrorKind::Conflict, message)
            })?;
            if highest > fenced.fence {
                return Err(fenced.superseded(highest));
            }
            Some(stat.version)
        }
        Err(zk::Error::NoNode) => None,
        Err(cause) => return Err(failed(cause, Effect::Reads)),
    };
    let text = fenced.fence.to_string();
    let mut all = client.new_multi_writer();
    let noting = match version {
        Some(_) => all.add_set_data(path, text.as_bytes(), version),
        None => {
            let options = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
            all.add_create(path, text.as_bytes(), &options)
        }
    };
    noting.and_then(|()| write(&mut all)).map_err(|cause| failed(cause, Effect::Reads))?;
    match all.commit().await {
        Ok(results) => Ok(Some(results.into_iter().skip(1).collect())),
        Err(zk::MultiWriteError::OperationFailed { index: 0, source }) => match (source, version) {
            (zk::Error::BadVersion | zk::Error::NodeExists, _) => Ok(None),
            (zk::Error::NoNode, Some(_)) => Ok(None),
            (zk::Error::NoNode, None) => Err(error(
                ErrorKind::InvalidInput,
                "the parent of the fence's node doesn't exist; create it first",
            )),
            (cause, _) => Err(failed(cause, Effect::Changes)),
        },
        Err(zk::MultiWriteError::OperationFailed { index, source }) => {
            let message =
                format!("the caller's operation {index} failed, so none was done: {source}");
            let cause = zk::MultiWriteError::OperationFailed { index: index - 1, source };
            Err(error(ErrorKind::Conflict, message).with_source(cause))
        }
        Err(zk::MultiWriteError::RequestFailed { source }) => Err(failed(source, Effect::Changes)),
    }
}

fn read(data: &[u8]) -> Option<Fence> {
    let text = std::str::from_utf8(data).ok()?;
    let number = text.parse().ok().filter(|number: &u64| number.to_string() == text)?;
    Some(Fence::new(number))
}

fn failed(cause: zk::Error, effect: Effect) -> Error {
    match cause {
        zk::Error::BadArguments(_) => {
            let message = "the path of the fence's node or of an operation is invalid; a path is \
                           absolute, such as /orders/fence";
            error(ErrorKind::InvalidInput, message).with_source(cause)
        }
        zk::Error::NoAuth => {
            let message = "the servers deny access: the client's login must be allowed to read \
                           and change the fence's node and the operations' nodes";
            error(ErrorKind::Denied, message)
        }
        cause => Failure::Response(cause).error(effect),
    }
}
