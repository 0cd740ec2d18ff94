//! What is looked at on a live server.

use lockwright_core::{Finding, Result};

use super::dialect::Postgresql;
use crate::server::pool::Pool;

pub(super) async fn examine(_pool: &Pool<Postgresql>) -> Result<Vec<Finding>> {
    Ok(Vec::new())
}
