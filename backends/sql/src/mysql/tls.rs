use lockwright_core::{Finding, Result};
use sqlx::mysql::MySqlSslMode;

use super::dialect::MySql;
use crate::server::dialect::Dialect;
use crate::server::errors::Effect;
use crate::server::pool::Pool;
use crate::server::{doctor, tls};

/// Behind a proxy, this shows the cipher between the proxy and the server.
const CIPHER: &str = "SHOW SESSION STATUS LIKE 'Ssl_cipher'";

pub(super) async fn look(pool: &Pool<MySql>) -> Result<Option<Finding>> {
    let server = &pool.dialect().server;
    let is_demanded = matches!(
        server.get_ssl_mode(),
        MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
    );
    let stays_here = pool.dialect().is_by_file() || tls::is_on_this_machine(server.get_host());
    if is_demanded || stays_here {
        return Ok(None);
    }
    let rows = pool.fetch_text(CIPHER.to_owned(), Effect::Reads).await?;
    let cipher = rows.first().and_then(|row| row.text(1).ok()).flatten();
    Ok(cipher.unwrap_or_default().is_empty().then(|| {
        doctor::not_encrypted(
            "ssl_cert and ssl_key in the server, ssl-mode=VERIFY_IDENTITY in the URL",
        )
    }))
}
