use std::sync::Mutex;

use lockwright_core::{CredentialProvider, Credentials};
use lockwright_sql::postgres::Mode as HoldMode;
use sqlx::Row;

use super::server::*;
use super::{CHANGE_PASSWORD, SETTING, missing_databases};
use crate::support::*;

#[test]
fn bad_urls_say_what_would_be_right() {
    let other = if SCHEME == "mysql" { "postgres" } else { "mysql" };
    let begins = format!("begins with {SCHEME}://");
    for (url, says) in [
        (format!("{other}://db/x"), &*begins),
        (format!("{SCHEME}:db"), &begins),
        (format!("{SCHEME}://db/x?mode=quick"), "lease, session and row"),
        (format!("{SCHEME}://db/x?tables=y"), "\"tables\""),
        (format!("{SCHEME}://db/x?connections=0"), "at least 2"),
        (format!("{SCHEME}://db/x?{TLS}=maybe"), "mistake"),
        (format!("{SCHEME}://db:port/x"), "mistake"),
        (format!("{SCHEME}://db/x?table=a;b"), "small letters"),
    ] {
        refused(Config::new(&url), ErrorKind::InvalidConfig, says);
    }
}

#[test]
fn no_secret_is_shown() {
    for parameters in ["password=hush&user=me", "sslpassword=hush", "sslmode=hush&password=hush"] {
        match Config::new(&format!("{SCHEME}://me:hush@db/x?{parameters}")) {
            Ok(config) => assert!(!format!("{config:?}").contains("hush"), "{config:?}"),
            Err(error) => {
                assert!(!format!("{error:?}").contains("me:hush"), "{error:?}");
                assert!(!format!("{error:?}").contains("password=hush"), "{error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_has_its_reason() {
    let server = Server::start().unwrap();
    let address = server.address();
    let mut cases = missing_databases(&server.url());
    cases.extend([
        (format!("{SCHEME}://lockwright:wr0ng@{address}/lockwright"), ErrorKind::Denied),
        (format!("{SCHEME}://nobody:wr0ng@{address}/lockwright"), ErrorKind::Denied),
        (format!("{SCHEME}://lockwright:wr0ng@127.0.0.1:1/x"), ErrorKind::Unavailable),
    ]);
    for (url, kind) in cases {
        let error = patient(&url).connect().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error:?}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("wr0ng") && !shown.contains(server.password()), "{shown}");
    }
}

#[tokio::test]
async fn time_limits_may_be_of_any_length() {
    let server = Server::start().unwrap();
    let config = Config::new(&server.url()).unwrap();
    let config = config.response_timeout(Duration::MAX).connect_timeout(Duration::MAX);
    acquire_and_release(&config.connect().await.unwrap(), "x").await;
}

async fn outcome(backend: &Backend, claim: &Claim) -> Result<AcquireOutcome, ErrorKind> {
    backend.try_acquire(claim).await.map_err(|error| error.kind())
}

#[tokio::test]
async fn provider_is_asked_for_each_connection() {
    for mode in ALL_MODES {
        let server = plain();
        let password = Arc::new(Mutex::new(server.password().to_owned()));
        let current = Arc::clone(&password);
        let provider = CredentialProvider::new(move || {
            let password = current.lock().unwrap().clone();
            async { Ok::<_, Error>(Credentials { username: Some("lockwright".into()), password }) }
        });
        let url = in_mode(&format!("{SCHEME}://{}/lockwright", server.address()), mode);
        let rotating = Config::new(&url).unwrap().credentials(provider).connect().await.unwrap();
        let fixed = backend(&server, mode).await;
        acquire_and_release(&rotating, "x").await;
        acquire_and_release(&fixed, "x").await;
        server.sql(CHANGE_PASSWORD).unwrap();
        *password.lock().unwrap() = "changed".to_owned();
        server.terminate_sessions().unwrap();
        let (claim, late) = (claim("x"), claim("x"));
        within(LIMIT, "a grant", async || {
            matches!(outcome(&rotating, &claim).await, Ok(AcquireOutcome::Granted(_)))
        })
        .await;
        within(LIMIT, "a refusal", async || {
            matches!(outcome(&fixed, &late).await, Err(ErrorKind::Denied))
        })
        .await;
    }
}

#[tokio::test]
async fn failing_provider_is_reported() {
    let provider = CredentialProvider::new(|| async { Err("no vault") });
    let config = patient(&format!("{SCHEME}://127.0.0.1:1/x")).credentials(provider);
    let error = config.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(format!("{error:?}").contains("no vault"), "{error:?}");
}

/// The pool's only connection is in use, so Lockwright can't use it.
#[tokio::test]
async fn application_keeps_its_pool() {
    let server = plain();
    let pool = PoolOptions::new().max_connections(1).connect(&server.url()).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    run(&mut connection, SETTING[0]).await;
    for mode in [HoldMode::Lease, HoldMode::Session, HoldMode::Row] {
        let config = Config::from_options(&pool.connect_options()).mode(mode);
        let backend = config.connect().await.unwrap();
        acquire_and_release(&backend, "x").await;
    }
    drop(connection);
    let row = pool.fetch_one(SETTING[1]).await.unwrap();
    assert_eq!(row.get::<String, _>(0), SETTING[2]);
}
