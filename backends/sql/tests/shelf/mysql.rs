//! Protected data in MariaDB.

#[macro_use]
mod shared;

shelf!(
    lockwright_testbed::MariaDb,
    sqlx::mysql::MySqlPoolOptions,
    sqlx::mysql::MySqlPool,
    lockwright_sql::mysql::check_fence,
    put: "REPLACE INTO shelf (name, value) VALUES (?, ?)",
    get: "SELECT value FROM shelf WHERE name = ?"
);
