use super::server::*;
use crate::support::meddler::{Fate, meddle};
use crate::support::*;

/// The proxy answers `SELECT CONNECTION_ID()` with its own id of the connection, as ProxySQL does.
/// ProxySQL also applies a `KILL` to its own connections.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_with_its_own_connection_ids_is_found() {
    let server = Server::start().unwrap();
    let fate = |connection, request: &[u8]| match request {
        [_, _, _, 0, body @ ..] if body == b"\x03SELECT CONNECTION_ID()" => {
            Fate::Answered(rows_with(1_000 + connection))
        }
        _ => Fate::Forwarded,
    };
    let port = meddle(server.port(), fate).await;
    assert!(findings(&connect(&server.url_through(port)).await).await.contains(&"proxy"));
    for mode in MODES {
        let answer = Backend::connect(&in_mode(&server.url_through(port), mode)).await;
        refused(answer, ErrorKind::Unsupported, "");
    }
}

/// Returns a result set with one number.
fn rows_with(id: u32) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let names = ["def", "", "", "", "CONNECTION_ID()", ""].map(text).concat();
    let kind = [0x0c, 63, 0, 21, 0, 0, 0, 8, 129, 0, 0, 0, 0];
    let end = vec![0xfe, 0, 0, 2, 0, 0, 0];
    let packets = [vec![1], [&names[..], &kind].concat(), text(&id.to_string()), end];
    let numbered = packets.into_iter().zip(1_u8..);
    numbered
        .flat_map(|(body, number)| [vec![body.len() as u8, 0, 0, number], body].concat())
        .collect()
}
