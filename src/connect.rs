//! From a URL to a backend: one `match` on the scheme, each arm behind its feature.

use std::sync::Arc;

use lockwright_core::{DistributedLock, Error, Locks, Profile, Result, redact};

/// A client with the default settings on the backend that `url` names.
///
/// # Errors
/// - [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a URL that can't be right, or whose
///   backend isn't compiled in: the error names the feature.
/// - [`Unavailable`](crate::ErrorKind::Unavailable) or [`Denied`](crate::ErrorKind::Denied) when
///   the server doesn't answer, or refuses.
///
/// # Cancel safety
/// May be dropped; nothing is left behind.
pub async fn connect(url: &str) -> Result<Locks> {
    Locks::new(backend(url).await?)
}

/// The backend that `url` names, for [`Locks::builder`].
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// May be dropped; nothing is left behind.
pub async fn backend(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let scheme = url.split(':').next().filter(|scheme| scheme.len() < url.len()).unwrap_or("");
    match scheme {
        "memory" => memory(url),
        "sqlite" => sqlite(url).await,
        "redis" | "rediss" => redis(url).await,
        _ => Err(Error::invalid_config(format!(
            "{:?} names no backend; a URL begins with one of {}",
            redact::url(url),
            SCHEMES.map(|(scheme, _)| scheme).join(", ")
        ))),
    }
}

/// Each scheme with the feature that it needs.
const SCHEMES: [(&str, &str); 3] =
    [("memory:", "memory"), ("sqlite:", "sqlite"), ("redis:", "redis")];

#[cfg(not(all(feature = "memory", feature = "sqlite", feature = "redis")))]
fn not_compiled_in(feature: &str) -> Error {
    Error::invalid_config(format!(
        "this build has no {feature} backend; enable the feature `{feature}` of the crate \
         `lockwright` (or `lockwright-cli`)"
    ))
}

#[cfg(feature = "memory")]
fn memory(url: &str) -> Result<Arc<dyn DistributedLock>> {
    match url {
        "memory:" => Ok(Arc::new(lockwright_memory::Memory::new())),
        _ => Err(Error::invalid_config("memory: takes no path; write just memory:")),
    }
}

#[cfg(not(feature = "memory"))]
fn memory(_: &str) -> Result<Arc<dyn DistributedLock>> {
    Err(not_compiled_in("memory"))
}

#[cfg(all(feature = "sqlite", any(target_os = "linux", target_os = "android")))]
async fn sqlite(url: &str) -> Result<Arc<dyn DistributedLock>> {
    Ok(Arc::new(lockwright_sql::Sqlite::connect(url).await?))
}

#[cfg(all(feature = "sqlite", not(any(target_os = "linux", target_os = "android"))))]
async fn sqlite(_: &str) -> Result<Arc<dyn DistributedLock>> {
    Err(Error::invalid_config(
        "locks in a SQLite file need a boot clock that all processes share, and are on Linux and \
         Android only; use redis: here",
    ))
}

#[cfg(not(feature = "sqlite"))]
async fn sqlite(_: &str) -> Result<Arc<dyn DistributedLock>> {
    Err(not_compiled_in("sqlite"))
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Result<Arc<dyn DistributedLock>> {
    Ok(Arc::new(lockwright_redis::Redis::connect(url).await?))
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &str) -> Result<Arc<dyn DistributedLock>> {
    Err(not_compiled_in("redis"))
}

/// The profiles of the backends that are compiled in, as far as they are known without a server.
pub(crate) fn profiles() -> Vec<Profile> {
    vec![
        #[cfg(feature = "memory")]
        lockwright_memory::profile(),
        #[cfg(all(feature = "sqlite", any(target_os = "linux", target_os = "android")))]
        lockwright_sql::sqlite::profile(),
        #[cfg(feature = "redis")]
        lockwright_redis::profile(),
    ]
}
