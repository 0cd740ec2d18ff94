//! How two members greet each other before they elect a leader.
//!
//! Who dials one with a larger number says where it listens itself, is thrown out, and is dialled
//! there. It says the address that it sees itself by, where the other would reach it past the line of
//! the two. So it has to say its name, which each of them has another address for.

use std::io::{self, Read};
use std::net::TcpStream;

use super::name;

/// Longer than any greeting.
const LONGEST: usize = 1024;

/// On other connections, nothing is said that would have to be changed.
pub(super) fn nothing(_: &mut TcpStream, _: usize) -> io::Result<Vec<u8>> {
    Ok(Vec::new())
}

/// Reads a version, the number of the member, and the length of its address with the address, all in
/// network order; writes its name instead of the host.
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
