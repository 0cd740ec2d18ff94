//! One question over HTTP, of a server on this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What the server answers to `GET path`; none when it doesn't answer within `limit`.
pub fn get(address: SocketAddr, path: &str, limit: Duration) -> Option<String> {
    let mut connection = TcpStream::connect_timeout(&address, limit).ok()?;
    connection.set_read_timeout(Some(limit)).ok()?;
    // The old version, so that the end of the answer is the end of the connection.
    write!(connection, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}
