//! What sets of servers need: doing a thing to all of them at once, and waiting for them to agree.

use crate::{Error, Result, wait};

/// Does it for all of them at the same time.
pub(crate) fn all_at_once<T: Send, R: Send>(
    things: impl IntoIterator<Item = T>,
    job: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let job = &job;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            things.into_iter().map(|thing| scope.spawn(move || job(thing))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Asks a set until it is as it should be.
pub(crate) fn wait_until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> Result<T> {
    // A vote that was split is repeated, and the machine may be busy.
    let limit = 3 * wait::LIMIT;
    wait::until(limit, ask)
        .ok_or_else(|| Error::new(format!("{what} did not happen within {limit:?}")))
}
