//! A proxy that answers `SELECT CONNECTION_ID()` by its own number of the connection, as ProxySQL
//! does. ProxySQL also applies a `KILL` to its own connections.

use std::io;
use std::sync::Arc;

use lockwright_core::ErrorKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::server::{Backend, Server, connect};
use crate::support::{findings, refused};

#[tokio::test(flavor = "multi_thread")]
async fn proxy_with_its_own_connection_ids_is_found() {
    let server = Server::start().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (direct, proxied) = (format!(":{}/", server.port()), format!(":{port}/"));
    let url = server.url().replace(&direct, &proxied);
    tokio::spawn(accept(listener, server.port()));
    assert!(findings(&connect(&url).await).await.contains(&"proxy"));
    for mode in ["session", "row"] {
        let answer = Backend::connect(&format!("{url}?mode={mode}")).await;
        refused(answer, ErrorKind::Unsupported, "");
    }
}

async fn accept(listener: TcpListener, port: u16) {
    for id in 1_000_u32.. {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let to_client = Arc::new(Mutex::new(to_client));
        tokio::spawn(pass_answers(from_server, Arc::clone(&to_client)));
        tokio::spawn(pass_requests(from_client, to_server, to_client, id));
    }
}

async fn pass_answers(mut from: OwnedReadHalf, to: Arc<Mutex<OwnedWriteHalf>>) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.lock().await.shutdown().await,
            read => to.lock().await.write_all(&buffer[..read]).await?,
        }
    }
}

async fn pass_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    answers: Arc<Mutex<OwnedWriteHalf>>,
    id: u32,
) -> io::Result<()> {
    loop {
        let mut header = [0; 4];
        from.read_exact(&mut header).await?;
        let [low, middle, high, number] = header;
        let mut body = vec![0; u32::from_le_bytes([low, middle, high, 0]) as usize];
        from.read_exact(&mut body).await?;
        if number == 0 && body == b"\x03SELECT CONNECTION_ID()" {
            answers.lock().await.write_all(&rows_with(id)).await?;
        } else {
            to.write_all(&[&header[..], &body].concat()).await?;
        }
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
