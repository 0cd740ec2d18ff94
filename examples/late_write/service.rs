//! The service that the lock protects, with minimal HTTP.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use lockwright::fencing::{Fenced, Gate, HEADER};
use lockwright::{ErrorKind as Kind, LockName};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

pub(crate) struct Service {
    address: SocketAddr,
    text: Arc<Mutex<String>>,
}

impl Service {
    pub(crate) async fn start(lock: LockName) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let service = Self { address: listener.local_addr()?, text: Arc::default() };
        let (gate, text) = (Gate::new(), Arc::clone(&service.text));
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (gate, lock, text) = (gate.clone(), lock.clone(), Arc::clone(&text));
                tokio::spawn(async move {
                    let _ = serve(connection, &gate, &lock, &text).await;
                });
            }
        });
        Ok(service)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(
    connection: tokio::net::TcpStream,
    gate: &Gate,
    lock: &LockName,
    text: &Mutex<String>,
) -> Result<()> {
    let mut connection = BufReader::new(connection);
    let (mut fenced, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            continue; // the request line
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            HEADER => fenced = Some(value.parse::<Fenced>()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await?;
    let answer = match fenced {
        None => format!("428 Precondition Required: send the header {HEADER}"),
        Some(Err(bad)) => format!("400 Bad Request: {bad}"),
        // The service, not the client, decides which lock protects the text.
        Some(Ok(fenced)) => match gate.enter(lock, &fenced).await {
            Err(other) if other.kind() == Kind::InvalidInput => format!("400 Bad Request: {other}"),
            Err(late) => format!("412 Precondition Failed: {late}"),
            Ok(_inside) => {
                // A service with its text on disk must store the fence together with the text.
                let body = String::from_utf8_lossy(&body).into_owned();
                *text.lock().unwrap_or_else(PoisonError::into_inner) = body;
                "204 No Content".to_owned()
            }
        },
    };
    let (status, why) = answer.split_once(": ").unwrap_or((&answer, ""));
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{why}", why.len());
    connection.write_all(head.as_bytes()).await
}

pub(crate) fn put(service: &str, fenced: &Fenced, text: &str) -> Result<String> {
    let mut connection = TcpStream::connect(service)?;
    let length = text.len();
    write!(
        connection,
        "PUT /report HTTP/1.1\r\nhost: {service}\r\n{HEADER}: {fenced}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{text}"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, why) = answer.split_once("\r\n\r\n").ok_or(ErrorKind::UnexpectedEof)?;
    let status = head.lines().next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
    let status = status.ok_or_else(|| Error::other("that is no answer of HTTP"))?;
    Ok(if why.is_empty() { status.to_owned() } else { format!("{status}: {why}") })
}
