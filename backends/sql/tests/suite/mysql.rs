mod factory;
mod on_mysql;
mod shelf;

use lockwright_sql::Mysql as Backend;

pub(crate) use self::factory::main;
use self::on_mysql::*;

const LABEL: Option<&str> = None;
