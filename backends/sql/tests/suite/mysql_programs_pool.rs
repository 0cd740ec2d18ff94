mod factory;
mod on_mysql;
mod programs_pool;
mod shelf;

use lockwright_sql::Mysql as OfServer;
use lockwright_sql::mysql::Config;

pub(crate) use self::factory::main;
use self::on_mysql::*;
use self::programs_pool::Backend;

const LABEL: Option<&str> = Some("mysql-lease with a program's pool");
const SETTINGS: &str = "SET NAMES latin1, time_zone = '+05:30', sql_mode = 'ANSI_QUOTES', \
                        autocommit = 0, completion_type = 'CHAIN', sql_select_limit = 1, \
                        sql_safe_updates = 1; \
                        SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY";
