mod factory;
mod on_postgres;
mod programs_pool;
mod shelf;

use lockwright_conformance::Harm;
use lockwright_sql::Postgres as OfServer;
use lockwright_sql::postgres::Config;

pub(crate) use self::factory::main;
use self::on_postgres::*;
use self::programs_pool::Backend;

const LABEL: Option<&str> = Some("postgres-lease with a program's pool");
const HARMS: &[Harm] = &[Harm::Freeze, Harm::Restart, Harm::Cut];
const SETTINGS: &str = "SET default_transaction_isolation = 'serializable'";
