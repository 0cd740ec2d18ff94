//! A proxy that disturbs requests of a client.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) enum Fate {
    Forwarded,
    Dropped,
    /// The server carries out the request, and doesn't notice that the proxy has closed the
    /// client's connection.
    Unanswered,
    /// The proxy answers instead of the server.
    Answered(Vec<u8>),
}

/// Starts a proxy of the server's port, and returns the proxy's port. `fate` gets the number of a
/// connection and the request.
pub(crate) async fn meddle(
    port: u16,
    fate: impl Fn(u32, &[u8]) -> Fate + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let here = listener.local_addr().unwrap().port();
    let fate = Arc::new(fate);
    tokio::spawn(async move {
        for number in 0.. {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let fate = Arc::clone(&fate);
            tokio::spawn(serve(client, server, move |request| fate(number, request)));
        }
    });
    here
}

async fn serve(
    mut client: TcpStream,
    mut server: TcpStream,
    fate: impl Fn(&[u8]) -> Fate,
) -> io::Result<()> {
    let (mut requests, mut answers) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let request = tokio::select! {
            read = client.read(&mut requests) => &requests[..read?],
            read = server.read(&mut answers) => match read? {
                0 => return Ok(()),
                read => {
                    client.write_all(&answers[..read]).await?;
                    continue;
                }
            },
        };
        if request.is_empty() {
            return Ok(());
        }
        match fate(request) {
            Fate::Forwarded => server.write_all(request).await?,
            Fate::Dropped => {}
            Fate::Unanswered => {
                server.write_all(request).await?;
                drop(client);
                return std::future::pending().await;
            }
            Fate::Answered(answer) => client.write_all(&answer).await?,
        }
    }
}
