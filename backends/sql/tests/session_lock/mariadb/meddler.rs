//! A proxy that disturbs one request of a client.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// The way in which the proxy disturbs a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The proxy drops the request silently.
    Dropped,
    /// The server carries out the request, but the proxy has closed the client's connection. The
    /// server doesn't notice the close.
    Unanswered,
}

/// The texts that mark the next request to disturb, and the way to disturb it.
type Plan = Arc<Mutex<Option<(&'static [&'static str], Harm)>>>;

#[derive(Debug)]
pub(crate) struct Meddler {
    port: u16,
    plan: Plan,
}

impl Meddler {
    pub(crate) async fn before(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let here = listener.local_addr().unwrap().port();
        let plan = Plan::default();
        tokio::spawn({
            let plan = Arc::clone(&plan);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    tokio::spawn(serve(client, server, Arc::clone(&plan)));
                }
            }
        });
        Self { port: here, plan }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn harm(&self, texts: &'static [&'static str], harm: Harm) {
        *self.plan.lock().unwrap() = Some((texts, harm));
    }

    pub(crate) fn has_harmed(&self) -> bool {
        self.plan.lock().unwrap().is_none()
    }
}

async fn serve(client: TcpStream, server: TcpStream, plan: Plan) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let pass = async move { tokio::io::copy(&mut from_server, &mut to_client).await };
    let answers = tokio::spawn(pass);
    let Some((harm, request)) = requests(&mut from_client, &mut to_server, &plan).await else {
        return;
    };
    if harm == Harm::Unanswered {
        // The proxy first stops forwarding answers, so that none reaches the client.
        answers.abort();
        let _ = answers.await;
        let _ = to_server.write_all(&request).await;
        drop(from_client);
        std::future::pending().await
    } else {
        let _ = answers.await;
    }
}

/// Forwards requests until one must be disturbed, and returns that one.
async fn requests(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    plan: &Plan,
) -> Option<(Harm, Vec<u8>)> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        let request = &buffer[..read];
        if let Some(harm) = harm_to(request, plan) {
            return Some((harm, request.to_vec()));
        }
        to.write_all(request).await.ok()?;
    }
}

fn harm_to(request: &[u8], plan: &Plan) -> Option<Harm> {
    let mut plan = plan.lock().unwrap();
    let (texts, harm) = (*plan)?;
    let has = |text: &str| request.windows(text.len()).any(|part| part == text.as_bytes());
    texts.iter().any(|text| has(text)).then(|| {
        *plan = None;
        harm
    })
}
