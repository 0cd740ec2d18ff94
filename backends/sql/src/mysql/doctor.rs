//! What is looked at on a live server.

use lockwright_core::{Finding, Result};

use super::dialect::MySql;
use crate::server::pool::Pool;

pub(super) async fn examine(_pool: &Pool<MySql>) -> Result<Vec<Finding>> {
    Ok(Vec::new())
}
