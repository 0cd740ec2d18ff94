use super::server::*;
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_store_every_name_is_refused() {
    let server = Server::start().unwrap();
    let url = server.url();
    let (address, _) = url.rsplit_once('/').unwrap();
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let create = format!(
            "CREATE DATABASE in_{encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        );
        server.sql(&create).unwrap();
        for mode in ALL_MODES {
            let url = format!("{address}/in_{}?mode={mode}", encoding.to_lowercase());
            let answer = patient(&url).connect().await;
            refused(answer, ErrorKind::Unsupported, "ENCODING 'UTF8'");
        }
    }
}
