//! The tables of a database, for those who may not make them at run time.

use lockwright_core::{Error, Result, redact};

use crate::connect::scheme_of;

/// The SQL that makes the tables which the backend that `url` names needs. Nothing is connected to:
/// it is for where the user that locks may not make tables. They are named as the URL says
/// (`?table=`, `?schema=`).
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a URL that can't be right, or of a backend
/// that has no tables or isn't compiled in.
pub fn schema(url: &str) -> Result<String> {
    let (scheme, known) = scheme_of(url);
    match scheme.as_str() {
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(lockwright_sql::mysql::Options::from_url(&known)?.schema()),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            Ok(lockwright_sql::postgres::Options::from_url(&known)?.schema())
        }
        #[cfg(all(feature = "sqlite", any(target_os = "linux", target_os = "android")))]
        "sqlite" => Ok(lockwright_sql::sqlite::Options::from_url(&known)?.schema()),
        _ => Err(Error::invalid_config(format!(
            "{:?} names no database of this build that has tables",
            redact::url(&known)
        ))),
    }
}
