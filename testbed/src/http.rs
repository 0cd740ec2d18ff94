//! A single HTTP request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Returns the body of the answer to `GET path`, if it arrives within `limit`.
pub fn get(address: SocketAddr, path: &str, limit: Duration) -> Option<String> {
    let mut connection = TcpStream::connect_timeout(&address, limit).ok()?;
    connection.set_read_timeout(Some(limit)).ok()?;
    // In HTTP/1.0, the answer ends when the server closes the connection.
    write!(connection, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}
