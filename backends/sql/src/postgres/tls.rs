use lockwright_core::{Finding, Result};
use sqlx::postgres::PgSslMode;

use super::dialect::Postgresql;
use crate::server::dialect::{BadRow, Dialect};
use crate::server::errors::{Effect, bad_row};
use crate::server::pool::Pool;
use crate::server::{doctor, tls};

/// Behind a pooler, this tests the pooler's own connection to the server.
const IS_ENCRYPTED: &str =
    "SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)";

pub(super) async fn look(pool: &Pool<Postgresql>) -> Result<Option<Finding>> {
    let server = &pool.dialect().server;
    let is_demanded = matches!(
        server.get_ssl_mode(),
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
    );
    let stays_here = pool.dialect().is_by_file() || tls::is_on_this_machine(server.get_host());
    if is_demanded || stays_here {
        return Ok(None);
    }
    let rows = pool.fetch_text(IS_ENCRYPTED.to_owned(), Effect::Reads).await?;
    let is_encrypted = rows.first().ok_or(BadRow).and_then(|row| row.bool(0));
    let is_encrypted = is_encrypted.map_err(|bad| bad_row(bad, pool.dialect().backend()))?;
    Ok((!is_encrypted).then(|| {
        doctor::not_encrypted("ssl = on in the server, and sslmode=verify-full in the URL")
    }))
}
