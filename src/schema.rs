use lockwright_core::{Error, Result, redact};

use crate::connect::scheme_of;

/// Returns the SQL of the backend's tables, without connecting, for clients that may not create
/// them.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for an invalid URL, or a backend that has no
/// tables or isn't compiled in.
pub fn schema(url: &str) -> Result<String> {
    let (scheme, known) = scheme_of(url);
    match scheme.as_str() {
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(lockwright_sql::mysql::Config::new(&known)?.schema()),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(lockwright_sql::postgres::Config::new(&known)?.schema()),
        #[cfg(all(
            feature = "sqlite",
            any(target_os = "linux", target_os = "android", target_os = "macos")
        ))]
        "sqlite" => Ok(lockwright_sql::sqlite::Config::new(&known)?.schema()),
        _ => Err(Error::invalid_config(format!(
            "{:?} names no database of this build that has tables",
            redact::url(&known)
        ))),
    }
}
