use std::error::Error as _;

use lockwright_core::{Error, ErrorKind, Result};

use super::{Dialect, Effect, Pool, Sql};

pub(crate) const VERSION: i64 = 1;

pub(crate) fn text<D: Dialect>(dialect: &D) -> String {
    dialect.expand(D::TEXTS.schema)
}

/// Creates missing tables. If none is missing, the user needs no permission for that.
pub(crate) async fn make_sure<D: Dialect>(pool: &Pool<D>) -> Result<()> {
    let found = match version(pool).await {
        // Without transactional DDL, another client may still be creating the tables.
        Err(error)
            if is_missing(&error) || (!D::TABLES_APPEAR_AT_ONCE && is_unfinished(&error)) =>
        {
            match pool.fetch_text(D::patiently(text(pool.dialect())), Effect::Changes).await {
                Err(error) if error.kind() == ErrorKind::Denied => {
                    let message = format!(
                        "the tables {} don't exist and this user may not create them; have them \
                         created with the SQL that `lockwright schema` prints",
                        pool.dialect().tables().shown()
                    );
                    let cause = error.source().map(ToString::to_string).unwrap_or_default();
                    return Err(pool.error(ErrorKind::Denied, message).with_source(cause));
                }
                made => made?,
            };
            version(pool).await?
        }
        found => found?,
    };
    known(pool, found)
}

pub(crate) async fn look<D: Dialect>(pool: &Pool<D>) -> Result<()> {
    known(pool, version(pool).await?)
}

fn known<D: Dialect>(pool: &Pool<D>, found: i64) -> Result<()> {
    if found == VERSION {
        return Ok(());
    }
    let message = format!(
        "the tables {} are of version {found}, and this version of Lockwright supports version \
         {VERSION}; use the same version everywhere, or other tables",
        pool.dialect().tables().shown()
    );
    Err(pool.error(ErrorKind::InvalidConfig, message))
}

pub(crate) const MISSING: &str = "a table of Lockwright doesn't exist; create the tables with the SQL that `lockwright schema` \
     prints";

pub(crate) fn is_missing(error: &Error) -> bool {
    error.to_string().contains(MISSING)
}

const UNFINISHED: &str = "their one row of \"meta\"";

fn is_unfinished(error: &Error) -> bool {
    error.to_string().contains(UNFINISHED)
}

async fn version<D: Dialect>(pool: &Pool<D>) -> Result<i64> {
    let dialect = pool.dialect();
    let sql = Sql::new(&dialect.expand("SELECT version FROM {meta}"));
    let rows = pool.fetch(&sql, &[], Effect::Reads).await?;
    rows.first().and_then(|row| row.int(0).ok()).ok_or_else(|| {
        let tables = dialect.tables().shown();
        let message = format!("the tables {tables} lack {UNFINISHED}; they were changed by hand");
        pool.error(ErrorKind::InvalidConfig, message)
    })
}
