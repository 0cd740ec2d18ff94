use tokio::runtime::Builder;

use crate::Failure;

/// Runs a future, and returns without waiting for a DNS lookup in a blocking thread.
pub(crate) fn block_on<T>(
    runtime: &mut Builder,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime =
        runtime.enable_all().build().map_err(|error| Failure::os("cannot start", error))?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    result
}
