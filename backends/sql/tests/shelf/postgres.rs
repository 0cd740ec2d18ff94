//! Protected data in PostgreSQL.

#[macro_use]
mod shared;

shelf!(
    lockwright_testbed::Postgres,
    sqlx::postgres::PgPoolOptions,
    sqlx::postgres::PgPool,
    lockwright_sql::postgres::check_fence,
    put: "INSERT INTO shelf (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2",
    get: "SELECT value FROM shelf WHERE name = $1"
);
