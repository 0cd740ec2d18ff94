use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub fn get(address: SocketAddr, path: &str, limit: Duration) -> Option<String> {
    // With HTTP/1.0, the server closes the connection after its answer.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let answer = exchange(address, &request, limit).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

pub(crate) fn exchange(address: SocketAddr, request: &str, limit: Duration) -> io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&address, limit)?;
    connection.set_read_timeout(Some(limit))?;
    connection.write_all(request.as_bytes())?;
    io::read_to_string(connection)
}
