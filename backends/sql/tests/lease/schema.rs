use super::server::*;
use super::{CREATE_SCHEMA, NO_SCHEMA, QUOTED_SCHEMA, REVOKE_DELETE};
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn several_make_them_at_once() {
    let server = Server::start().unwrap();
    for round in 0..5 {
        let mut connecting = JoinSet::new();
        for _ in 0..8 {
            let url = server.url();
            connecting.spawn(async move {
                let table = format!("t{round}");
                is_free(&connect(&format!("{url}?table={table}")).await, "x").await;
                // On MySQL, the table of fences is created last, so it shows that all tables exist.
                let mut connection = Connection::connect(&url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                let ours = InTransaction::new().table(&table).unwrap();
                ours.check_fence(&mut tx, &fenced("a", 5)).await.unwrap();
                tx.commit().await.unwrap();
            });
        }
        connecting.join_all().await;
    }
    let floors = server.sql("SELECT count(*) FROM t0_meta").unwrap();
    assert_eq!(floors, "1");
}

#[tokio::test]
async fn a_user_who_may_not_create_tables_can_use_them() {
    let server = Server::start().unwrap();
    add_user(&server, "guest", "guest-4711");
    let url = format!("{SCHEME}://guest:guest-4711@{}/lockwright", server.address());
    let error = refused(patient(&url).connect().await, ErrorKind::Denied, "lockwright schema");
    assert!(!format!("{error:?}").contains("guest-4711"), "{error:?}");

    server.sql(&Config::new(&url).unwrap().schema()).unwrap();
    if SCHEME == "postgres" {
        refused(patient(&url).connect().await, ErrorKind::Denied, "");
    }
    // Adds the user again, with access to the present tables.
    add_user(&server, "guest", "guest-4711");
    let backend = connect(&url).await;
    let held = hold(&backend, "x").await;
    backend.release(&held, ReleaseMode::Reconcile).await.unwrap();
}

#[tokio::test]
async fn a_user_chooses_their_names() {
    let (server, usual) = start().await;
    server.sql(CREATE_SCHEMA).unwrap();
    let url = format!("{}?table=from&schema=select", server.url());
    let other = connect(&url).await;
    hold(&usual, "x").await;
    grant(&other, &claim("x")).await;
    let count = format!("SELECT count(*) FROM {QUOTED_SCHEMA}.from_lease");
    assert_eq!(server.sql(&count).unwrap(), "1");

    let nowhere = patient(&format!("{}?schema=nowhere", server.url()));
    refused(nowhere.connect().await, NO_SCHEMA.0, NO_SCHEMA.1);
}

#[tokio::test]
async fn damaged_tables_are_refused_and_found() {
    let (server, backend) = start().await;
    server.sql("DROP TABLE lockwright_reader").unwrap();
    assert!(findings(&backend).await.contains(&"tables"));
    server.sql(&Config::new(&server.url()).unwrap().schema()).unwrap();
    server.sql(REVOKE_DELETE).unwrap();
    assert!(findings(&connect(&server.url()).await).await.contains(&"tables-not-writable"));
    for damage in [
        "UPDATE lockwright_meta SET version = 7",
        "DELETE FROM lockwright_meta",
        "DROP TABLE lockwright_hold, lockwright_meta",
    ] {
        server.sql(damage).unwrap();
        if damage.starts_with("UPDATE") {
            refused(patient(&server.url()).connect().await, ErrorKind::InvalidConfig, "version 7");
        } else if damage.starts_with("DELETE") && SCHEME == "postgres" {
            refused(patient(&server.url()).connect().await, ErrorKind::InvalidConfig, "meta");
        }
        let backend = patient(&server.url()).for_diagnosis().connect().await.unwrap();
        assert!(findings(&backend).await.contains(&"tables"), "{damage}");
    }
}
