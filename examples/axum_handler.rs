//! An HTTP handler that changes one account at a time, on all machines of the service.
#![forbid(unsafe_code)]

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Router, routing::post};
use lockwright::Locks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn deposit(State(locks): State<Locks>, Path(account): Path<u32>) -> (StatusCode, String) {
    let changed = locks.mutex(format!("account/{account}")).with(async move |guard| {
        // Store the fence with the change, and reject changes with a smaller one.
        format!("account {account} changed with fence {}\n", guard.fence())
    });
    match changed.await {
        Ok(text) => (StatusCode::OK, text),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = lockwright::connect("memory:").await?; // redis://HOST, for several machines
    let service = Router::new().route("/{account}/deposit", post(deposit)).with_state(locks);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut client = TcpStream::connect(listener.local_addr()?).await?;
    tokio::spawn(async move { axum::serve(listener, service).await });
    client.write_all(b"POST /42/deposit HTTP/1.0\r\ncontent-length: 0\r\n\r\n").await?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    println!("{answer}");
    Ok(())
}
