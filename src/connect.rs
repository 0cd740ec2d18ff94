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

/// The backend that `url` names, for [`Locks::builder`]. The scheme may be in capitals too.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// May be dropped; nothing is left behind.
pub async fn backend(url: &str) -> Result<Arc<dyn DistributedLock>> {
    open(url, Purpose::Locking).await
}

/// The same for looking only: also a server on which no lock can live, a Redis replica for
/// example, so that [`Locks::doctor`] can say what is wrong with it. A lock that is asked for there
/// is refused by the server.
///
/// # Errors
/// As [`connect`], but for what [`Locks::doctor`] shows as a finding.
///
/// # Cancel safety
/// May be dropped; nothing is left behind.
pub async fn backend_for_diagnosis(url: &str) -> Result<Arc<dyn DistributedLock>> {
    open(url, Purpose::Diagnosis).await
}

/// What a backend is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Locking,
    Diagnosis,
}

/// The scheme of a URL in small letters, and the URL with it: the backends know no others.
pub(crate) fn scheme_of(url: &str) -> (String, String) {
    let (scheme, rest) = match url.find(':') {
        Some(colon) => (url[..colon].to_ascii_lowercase(), &url[colon..]),
        None => (String::new(), url),
    };
    let known = format!("{scheme}{rest}");
    (scheme, known)
}

async fn open(url: &str, purpose: Purpose) -> Result<Arc<dyn DistributedLock>> {
    let (scheme, known) = scheme_of(url);
    match scheme.as_str() {
        "memory" => memory(&known),
        "sqlite" => sqlite(&known).await,
        "postgres" | "postgresql" => postgres(&known, purpose).await,
        "redis" | "rediss" | "redis+unix" | "redis+sentinel" | "rediss+sentinel"
        | "redis+cluster" | "rediss+cluster" => redis(&known, purpose).await,
        "redlock" => redlock(&known, purpose).await,
        "mysql" | "mariadb" => mysql(&known, purpose).await,
        "etcd" | "zookeeper" => Err(Error::invalid_config(format!(
            "there is no backend for {scheme}: yet; a URL begins with one of {}",
            schemes()
        ))),
        _ => Err(Error::invalid_config(format!(
            "{:?} names no backend; a URL begins with one of {}",
            redact::url(url),
            schemes()
        ))),
    }
}

/// What a URL may begin with, and what of it this build lacks.
fn schemes() -> String {
    let all = [
        ("memory:", cfg!(feature = "memory")),
        ("sqlite:", cfg!(feature = "sqlite")),
        ("postgres:", cfg!(feature = "postgres")),
        ("mysql:", cfg!(feature = "mysql")),
        ("redis:", cfg!(feature = "redis")),
        ("rediss:", cfg!(all(feature = "redis", feature = "tls"))),
        ("redis+unix:", cfg!(feature = "redis")),
        ("redis+sentinel:", cfg!(feature = "redis")),
        ("redis+cluster:", cfg!(feature = "redis")),
        ("redlock:", cfg!(feature = "redlock")),
    ];
    let here = all.iter().filter(|(_, is_here)| *is_here).map(|(scheme, _)| (*scheme).to_owned());
    let missing = all.iter().filter(|(_, is_here)| !is_here);
    let missing = missing.map(|(scheme, _)| format!("{scheme} (not in this build)"));
    here.chain(missing).collect::<Vec<_>>().join(", ")
}

#[cfg(not(all(
    feature = "memory",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "sqlite"
)))]
fn not_compiled_in(feature: &str) -> Error {
    // The command has no memory backend, as that would lock nothing between commands.
    let or_of_the_command = if feature == "memory" { "" } else { " (or `lockwright-cli`)" };
    Error::invalid_config(format!(
        "this build has no {feature} backend; enable the feature `{feature}` of the crate \
         `lockwright`{or_of_the_command}"
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

#[cfg(feature = "postgres")]
async fn postgres(url: &str, purpose: Purpose) -> Result<Arc<dyn DistributedLock>> {
    let mut options = lockwright_sql::postgres::Options::from_url(url)?;
    if purpose == Purpose::Diagnosis {
        options = options.for_diagnosis();
    }
    Ok(Arc::new(options.connect().await?))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str, _: Purpose) -> Result<Arc<dyn DistributedLock>> {
    Err(not_compiled_in("postgres"))
}

#[cfg(feature = "mysql")]
async fn mysql(url: &str, purpose: Purpose) -> Result<Arc<dyn DistributedLock>> {
    let mut options = lockwright_sql::mysql::Options::from_url(url)?;
    if purpose == Purpose::Diagnosis {
        options = options.for_diagnosis();
    }
    Ok(Arc::new(options.connect().await?))
}

#[cfg(not(feature = "mysql"))]
async fn mysql(_: &str, _: Purpose) -> Result<Arc<dyn DistributedLock>> {
    Err(not_compiled_in("mysql"))
}

#[cfg(feature = "redis")]
async fn redis(url: &str, purpose: Purpose) -> Result<Arc<dyn DistributedLock>> {
    let mut config = lockwright_redis::Config::new(url)?;
    if purpose == Purpose::Diagnosis {
        config = config.for_diagnosis();
    }
    Ok(Arc::new(config.connect().await?))
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &str, _: Purpose) -> Result<Arc<dyn DistributedLock>> {
    Err(not_compiled_in("redis"))
}

#[cfg(feature = "redlock")]
async fn redlock(url: &str, purpose: Purpose) -> Result<Arc<dyn DistributedLock>> {
    let mut config = lockwright_redlock::Config::new(url)?;
    if purpose == Purpose::Diagnosis {
        config = config.for_diagnosis();
    }
    Ok(Arc::new(config.connect().await?))
}

#[cfg(not(feature = "redlock"))]
async fn redlock(_: &str, _: Purpose) -> Result<Arc<dyn DistributedLock>> {
    Err(not_compiled_in("redlock"))
}

/// The profiles of the backends that are compiled in, as far as they are known without a server.
pub(crate) fn profiles() -> Vec<Profile> {
    vec![
        #[cfg(feature = "memory")]
        lockwright_memory::profile(),
        #[cfg(all(feature = "sqlite", any(target_os = "linux", target_os = "android")))]
        lockwright_sql::sqlite::profile(),
        #[cfg(feature = "mysql")]
        lockwright_sql::mysql::profile(),
        #[cfg(feature = "postgres")]
        lockwright_sql::postgres::profile(),
        #[cfg(feature = "redis")]
        lockwright_redis::profile(),
        #[cfg(feature = "redlock")]
        lockwright_redlock::profile(&lockwright_redlock::Options::new()),
    ]
}
