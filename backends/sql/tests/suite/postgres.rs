mod factory;
mod on_postgres;
mod shelf;

use lockwright_conformance::Harm;
use lockwright_sql::Postgres as Backend;

pub(crate) use self::factory::main;
use self::on_postgres::*;

const LABEL: Option<&str> = None;
const HARMS: &[Harm] = &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut];
