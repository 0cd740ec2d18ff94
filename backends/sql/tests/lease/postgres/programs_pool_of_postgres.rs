use super::programs_pool::pool_of;
use super::server::*;
use crate::support::*;

/// sqlx leaves a part of the answer to a failed `COPY` unread.
#[tokio::test(flavor = "multi_thread")]
async fn answer_to_another_request_is_not_used() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let (held, never) = (hold(&backend, "x").await, claim("never"));
    let copies = ["COPY missing TO STDOUT", "COPY (SELECT 1 / 0) TO STDOUT"];
    for (copy, queries) in copies.into_iter().flat_map(|copy| [(copy, 0), (copy, 2)]) {
        let mut connection = pool.acquire().await.unwrap();
        for _ in 0..3 {
            assert!(connection.copy_out_raw(copy).await.is_err());
        }
        for _ in 0..queries {
            // Fails with an error of an earlier copy, and leaves its row.
            sqlx::raw_sql("SELECT 'x'").execute(&mut *connection).await.ok();
        }
        drop(connection);
        if queries > 0
            && let Ok(inspection) = backend.inspect(&held.name).await
        {
            assert_eq!(inspection.holders.len(), 1, "{copy}, {queries}");
        }
        for renewed in [&held, &never] {
            match backend.renew(&[Renew::of(renewed)]).await {
                Ok(answers) => {
                    let is_renewed = answers[0] == Renewal::RENEWED;
                    assert_eq!(is_renewed, renewed.token == held.token, "{answers:?}");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}"),
            }
        }
        assert_eq!(backend.inspect(&held.name).await.unwrap().holders.len(), 1);
    }
}

/// An error of the program's request must not look as if Lockwright's had no effect.
#[tokio::test(flavor = "multi_thread")]
async fn error_of_another_request_is_not_used() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    for _ in 0..3 {
        let held = hold(&backend, "x").await;
        let mut connection = pool.acquire().await.unwrap();
        for _ in 0..3 {
            connection.copy_out_raw("COPY (SELECT 1 / 0) TO STDOUT").await.err().unwrap();
        }
        drop(connection);
        match backend.release(&held, ReleaseMode::Plain).await {
            Ok(outcome) => assert_eq!(outcome, ReleaseOutcome::Released),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}"),
        }
        backend.release(&held, ReleaseMode::Reconcile).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_settings_of_the_program_change_no_request() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let held = hold(&backend, "é").await;
    server
        .sql(
            "CREATE SCHEMA mock; GRANT USAGE ON SCHEMA mock TO lockwright;
             CREATE FUNCTION mock.clock_timestamp() RETURNS timestamptz LANGUAGE sql
                 AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 day' $$;
             CREATE TABLE mock.seen AS SELECT '' AS commits;
             CREATE FUNCTION mock.see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
                 UPDATE mock.seen SET commits = current_setting('synchronous_commit');
                 RETURN NULL;
             END $$;
             CREATE TRIGGER see AFTER UPDATE ON lockwright_lease EXECUTE FUNCTION mock.see()",
        )
        .unwrap();
    sqlx::raw_sql("SET search_path = mock, pg_catalog, public; SET synchronous_commit = off")
        .execute(&pool)
        .await
        .unwrap();
    busy(&backend, &claim("é"), FOR_EVER).await;
    assert_eq!(renew(&backend, &held).await, Renewal::RENEWED);
    assert_eq!(server.sql("SELECT commits FROM mock.seen").unwrap(), "on");
    let set: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&pool).await.unwrap();
    assert_eq!(set, "off");
    sqlx::raw_sql("SET client_encoding = 'LATIN1'").execute(&pool).await.unwrap();
    // The connection is closed, and the next has the default.
    busy(&backend, &claim("é"), FOR_EVER).await;
}

/// The tables stay in one schema, although the sessions' search paths differ.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_with_other_search_paths_use_the_same_tables() {
    let server = Server::start().unwrap();
    server.sql("CREATE SCHEMA other; GRANT ALL ON SCHEMA other TO lockwright").unwrap();
    server.sql("CREATE SCHEMA \"My App\"; GRANT ALL ON SCHEMA \"My App\" TO lockwright").unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let _held = hold(&backend, "x").await;
    sqlx::raw_sql("SET search_path = other").execute(&pool).await.unwrap();
    busy(&backend, &claim("x"), FOR_EVER).await;
    sqlx::raw_sql("SET search_path = other, public").execute(&pool).await.unwrap();
    let second = Config::from_pool(&pool).connect().await.unwrap();
    busy(&second, &claim("x"), FOR_EVER).await;
    sqlx::raw_sql("SET search_path = \"My App\"").execute(&pool).await.unwrap();
    let third = Config::from_pool(&pool).connect().await.unwrap();
    hold(&third, "x").await;
    sqlx::raw_sql("SET search_path = ''").execute(&pool).await.unwrap();
    refused(Config::from_pool(&pool).connect().await, ErrorKind::InvalidConfig, "`schema_name`");
}
