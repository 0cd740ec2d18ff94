use std::sync::Arc;

use lockwright_core::{CredentialProvider, DistributedLock, Error, Locks, Profile, Result, redact};

/// Connects a client with default settings.
///
/// # Errors
/// - [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for an invalid URL, or a backend that isn't
///   compiled in.
/// - [`Unavailable`](crate::ErrorKind::Unavailable) if the server can't be reached,
///   [`Denied`](crate::ErrorKind::Denied) if it denies access.
/// - [`Unsupported`](crate::ErrorKind::Unsupported) if the server is a replica or too old, or a
///   pooler or proxy prevents the mode.
///
/// # Cancel safety
/// May be dropped. This can leave behind new tables (PostgreSQL, MySQL), a new file (SQLite) or new
/// incarnations (Redlock).
pub async fn connect(url: &str) -> Result<Locks> {
    Locks::new(open(url).await?)
}

/// Connects a backend. The scheme is case-insensitive.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn open(url: &str) -> Result<Arc<dyn DistributedLock>> {
    open_for(url, Purpose::Locking, None).await
}

/// Connects a backend for [`Locks::doctor`], even on a server that can't hold locks, such as a
/// Redis replica.
///
/// # Errors
/// As [`connect`], except for problems that [`Locks::doctor`] reports.
///
/// # Cancel safety
/// As [`connect`].
pub async fn open_for_diagnosis(url: &str) -> Result<Arc<dyn DistributedLock>> {
    open_for(url, Purpose::Diagnosis, None).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Locking,
    Diagnosis,
}

pub(crate) fn scheme_of(url: &str) -> (String, String) {
    let (scheme, rest) = match url.find(':') {
        Some(colon) => (url[..colon].to_ascii_lowercase(), &url[colon..]),
        None => (String::new(), url),
    };
    let known = format!("{scheme}{rest}");
    (scheme, known)
}

macro_rules! backends {
    ($(
        feature $feature:literal {
            schemes: [$($scheme:literal),+],
            // Schemes that need the feature `$by` in addition to `$feature`.
            $(schemes_with_tls: [$($tls:literal),+] by $by:literal of $all:expr,)?
            $(#[$only:meta])?
            // The profile by URL, which may be empty.
            profile: $profile:expr,
            // A constructor of the configuration, or a function that connects.
            $(config: $config:expr, $(credentials: $credentials:expr,)?)?
            $(open: $open:expr,)?
            $(parse: $parse:expr,)?
        }
    )+) => {
        const SCHEMES: &[Scheme] = &[$(
            $(Scheme { name: $scheme, features: &[$feature], here: cfg!(feature = $feature) },)+
            $($(Scheme {
                name: $tls,
                features: &$all,
                here: cfg!(all(feature = $feature, feature = $by)),
            },)+)?
        )+];

        pub(crate) fn profiles() -> Vec<Profile> {
            vec![$(
                #[cfg(feature = $feature)]
                $(#[$only])?
                ($profile as fn(&str) -> Profile)(""),
            )+]
        }

        /// Parses a URL, and returns the profile that its server has at most.
        pub(crate) fn profile_for(url: &str) -> Result<Profile> {
            let (scheme, known) = scheme_of(url);
            match scheme.as_str() {
                $(
                    #[cfg(feature = $feature)]
                    $(#[$only])?
                    $($scheme)|+ $($(| $tls)+)? => {
                        $(let _ = $config(&known)?;)?
                        $(let _ = $parse(&known)?;)?
                        Ok(($profile as fn(&str) -> Profile)(&known))
                    }
                )+
                _ => {
                    let _ = known; // unused in a build without backends
                    Err(not_here(url, &scheme))
                }
            }
        }

        #[allow(unused_mut, reason = "a build may have no backend with credentials")]
        pub(crate) async fn open_for(
            url: &str,
            purpose: Purpose,
            mut provider: Option<CredentialProvider>,
        ) -> Result<Arc<dyn DistributedLock>> {
            let (scheme, known) = scheme_of(url);
            match scheme.as_str() {
                $(
                    #[cfg(feature = $feature)]
                    $($scheme)|+ $($(| $tls)+)? => {
                        $(
                            let mut config = $config(&known)?;
                            if purpose == Purpose::Diagnosis {
                                config = config.for_diagnosis();
                            }
                            $(if let Some(provider) = provider.take() {
                                config = $credentials(config, provider);
                            })?
                            no_provider(provider, &scheme)?;
                            // Boxed, so that programs' futures don't exceed rustc's default
                            // recursion limit.
                            let connecting: std::pin::Pin<Box<dyn Future<Output = _> + Send>> =
                                Box::pin(config.connect());
                            Ok(Arc::new(connecting.await?))
                        )?
                        $(
                            no_provider(provider, &scheme)?;
                            $open(&known).await
                        )?
                    }
                )+
                _ => {
                    let _ = (known, purpose, provider); // unused in a build without backends
                    Err(not_here(url, &scheme))
                }
            }
        }
    };
}

#[allow(dead_code, reason = "unused in a build without backends")]
fn no_provider(provider: Option<CredentialProvider>, scheme: &str) -> Result<()> {
    match provider {
        None => Ok(()),
        Some(_) => Err(Error::invalid_config(format!(
            "the setting `credentials` isn't supported for {scheme}: URLs; remove it"
        ))),
    }
}

struct Scheme {
    name: &'static str,
    features: &'static [&'static str],
    here: bool,
}

fn not_here(url: &str, scheme: &str) -> Error {
    if let Some(known) = SCHEMES.iter().find(|known| known.name == scheme) {
        return not_compiled_in(known);
    }
    let (here, missing): (Vec<&Scheme>, Vec<&Scheme>) = SCHEMES.iter().partition(|one| one.here);
    let here = here.iter().map(|one| format!("{}:", one.name));
    let missing = missing.iter().map(|one| format!("{}: (not in this build)", one.name));
    Error::invalid_config(format!(
        "{:?} names no backend; a URL begins with one of {}",
        redact::url(url),
        here.chain(missing).collect::<Vec<_>>().join(", ")
    ))
}

fn not_compiled_in(scheme: &Scheme) -> Error {
    let name = scheme.name;
    let (s, features) = match scheme.features {
        [one] => ("", format!("`{one}`")),
        several => ("s", format!("`{}`", several.join("` and `"))),
    };
    let of_the_command = match name {
        // The command-line tool rejects `memory:`: its processes share no memory.
        "memory" => String::new(),
        _ => {
            let features = scheme.features.join(",lockwright/");
            format!(
                " (of the command: `cargo install --path cli --features lockwright/{features}`)"
            )
        }
    };
    Error::invalid_config(format!(
        "this build has no backend for {name}: URLs; enable the feature{s} {features} of the crate \
         `lockwright`{of_the_command}"
    ))
}

backends! {
    feature "memory" {
        schemes: ["memory"],
        profile: |_: &str| lockwright_memory::profile(),
        open: memory,
    }
    feature "sqlite" {
        schemes: ["sqlite"],
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
        profile: |_: &str| lockwright_sql::sqlite::profile(),
        open: sqlite,
        parse: lockwright_sql::sqlite::Config::new,
    }
    feature "postgres" {
        schemes: ["postgres", "postgresql"],
        profile: |url: &str| {
            lockwright_sql::postgres::Config::new(url)
                .map_or_else(|_| lockwright_sql::postgres::profile(), |config| config.profile())
        },
        config: lockwright_sql::postgres::Config::new,
        credentials: lockwright_sql::postgres::Config::credentials,
    }
    feature "mysql" {
        schemes: ["mysql", "mariadb"],
        profile: |url: &str| {
            lockwright_sql::mysql::Config::new(url)
                .map_or_else(|_| lockwright_sql::mysql::profile(), |config| config.profile())
        },
        config: lockwright_sql::mysql::Config::new,
        credentials: lockwright_sql::mysql::Config::credentials,
    }
    feature "redis" {
        schemes: [
            "redis", "redis+unix", "redis+sentinel", "redis+cluster",
            "valkey", "valkey+unix", "valkey+sentinel", "valkey+cluster"
        ],
        schemes_with_tls: [
            "rediss", "rediss+sentinel", "rediss+cluster",
            "valkeys", "valkeys+sentinel", "valkeys+cluster"
        ] by "tls" of ["redis", "tls"],
        profile: redis_profile,
        config: lockwright_redis::Config::new,
        credentials: lockwright_redis::Config::credentials,
    }
    feature "redlock" {
        schemes: ["redlock"],
        profile: |_: &str| lockwright_redlock::profile(&lockwright_redlock::Options::new()),
        config: lockwright_redlock::Config::new,
        credentials: lockwright_redlock::Config::credentials,
    }
    feature "etcd" {
        schemes: ["etcd"],
        profile: |_: &str| lockwright_etcd::profile(),
        config: lockwright_etcd::Config::new,
        credentials: lockwright_etcd::Config::credentials,
    }
    feature "zookeeper" {
        schemes: ["zookeeper"],
        schemes_with_tls: ["zookeeper+tls"] by "zookeeper-tls" of ["zookeeper-tls"],
        profile: |_: &str| lockwright_zookeeper::profile(),
        config: lockwright_zookeeper::Config::new,
    }
}

#[cfg(feature = "redis")]
fn redis_profile(url: &str) -> Profile {
    match url.split(':').next().and_then(|scheme| scheme.split_once('+')) {
        Some((_, "sentinel")) => lockwright_redis::sentinel_profile(),
        Some((_, "cluster")) => lockwright_redis::cluster_profile(),
        _ => lockwright_redis::profile(),
    }
}

#[cfg(feature = "memory")]
async fn memory(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let name = url.strip_prefix("memory:").unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match name {
        "" => Ok(Arc::new(lockwright_memory::Memory::new())),
        _ if name.chars().all(is_plain) => Ok(Arc::new(lockwright_memory::Memory::named(name))),
        _ => Err(Error::invalid_config(
            "memory: takes no path; write memory: for a new store, or memory:NAME for a shared one, \
             with letters, digits, '-', '_' and '.'",
        )),
    }
}

#[cfg(all(
    feature = "sqlite",
    any(target_os = "linux", target_os = "android", target_os = "macos")
))]
async fn sqlite(url: &str) -> Result<Arc<dyn DistributedLock>> {
    Ok(Arc::new(lockwright_sql::Sqlite::connect(url).await?))
}

#[cfg(all(
    feature = "sqlite",
    not(any(target_os = "linux", target_os = "android", target_os = "macos"))
))]
async fn sqlite(_: &str) -> Result<Arc<dyn DistributedLock>> {
    Err(Error::invalid_config(
        "locks in a SQLite file need a boot clock that all processes share, and are on Linux, \
         Android and macOS only; use redis: here",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_backend_is_reported_with_the_feature_to_enable() {
        for (url, features, typed) in [
            ("sqlite:x.db", "feature `sqlite`", "sqlite"),
            ("etcd:http://a", "feature `etcd`", "etcd"),
            ("zookeeper:a", "feature `zookeeper`", "zookeeper"),
            ("zookeeper+tls:a:1", "feature `zookeeper-tls`", "zookeeper-tls"),
            ("rediss+cluster://a", "features `redis` and `tls`", "redis,lockwright/tls"),
            ("valkeys://a", "features `redis` and `tls`", "redis,lockwright/tls"),
        ] {
            let said = not_here(url, &scheme_of(url).0).to_string();
            assert!(said.contains(&format!("the {features} of")), "{said}");
            assert!(said.contains(&format!("--features lockwright/{typed}`")), "{said}");
        }
        let said = not_here("nonsense", "").to_string();
        for known in SCHEMES {
            let missing = format!("{}: (not in this build)", known.name);
            assert_eq!(said.contains(&missing), !known.here, "{said}");
        }
        assert!(!not_here("memory:", "memory").to_string().contains("cargo install"));
    }
}
