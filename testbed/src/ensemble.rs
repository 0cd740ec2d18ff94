use crate::{Error, Result, wait};

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

pub(crate) fn wait_until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> Result<T> {
    let limit = 3 * wait::LIMIT;
    wait::until(limit, ask)
        .ok_or_else(|| Error::new(format!("{what} did not happen within {limit:?}")))
}
