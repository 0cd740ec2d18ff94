//! The first message of election connections. A member sends its address to a member with a larger
//! number, which then dials that address, and would bypass the proxy. So this module replaces the
//! address by a host name, which the receiver's hosts file maps to a proxy.

use std::io::{self, Read};
use std::net::TcpStream;

const LONGEST: usize = 1024;

pub(super) fn name(member: usize) -> String {
    format!("member-{member}")
}

pub(super) fn nothing(_: &mut TcpStream, _: usize) -> io::Result<Vec<u8>> {
    Ok(Vec::new())
}

/// Reads a version, the member's number, the address's length and the address, in network byte
/// order. Returns them with the member's name as the address's host.
pub(super) fn name_instead_of_address(
    connection: &mut TcpStream,
    from: usize,
) -> io::Result<Vec<u8>> {
    let mut greeting = vec![0; 20];
    connection.read_exact(&mut greeting)?;
    let length = greeting.split_off(16);
    let length = u32::from_be_bytes(length.try_into().expect("it is four bytes")) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut address = vec![0; length];
    connection.read_exact(&mut address)?;
    let address = String::from_utf8_lossy(&address);
    let (_, port) = address.rsplit_once(':').ok_or(io::ErrorKind::InvalidData)?;
    let address = format!("{}:{port}", name(from));
    greeting.extend((address.len() as u32).to_be_bytes());
    greeting.extend(address.bytes());
    Ok(greeting)
}
