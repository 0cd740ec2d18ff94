//! The number (inode) of the socket at a local connection's other end, found in `/proc/PID/fd` of
//! its process. Members of an incomplete ensemble dial constantly, so this module queries
//! `sock_diag(7)`. The fallback, `/proc/net/tcp`, takes milliseconds.

use std::fs;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::sync::OnceLock;

pub(crate) fn number_of_other_end(connection: &TcpStream) -> Option<u32> {
    let SocketAddr::V4(here) = connection.local_addr().ok()? else { return None };
    let SocketAddr::V4(there) = connection.peer_addr().ok()? else { return None };
    static ANSWERS: OnceLock<bool> = OnceLock::new();
    // This end's socket exists, so a query for it shows whether the kernel answers queries.
    if *ANSWERS.get_or_init(|| asked(here, there).is_some()) {
        asked(there, here)
    } else {
        in_table(there, here)
    }
}

#[cfg(target_os = "linux")]
fn asked(own: SocketAddrV4, other: SocketAddrV4) -> Option<u32> {
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket,
    };

    let kernel =
        socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG)).ok()?;
    send(&kernel, &question(own, other), SendFlags::empty()).ok()?;
    let mut answer = [0; 512];
    let (length, _) = recv(&kernel, &mut answer, RecvFlags::empty()).ok()?;
    number(&answer[..length.min(512)])
}

#[cfg(not(target_os = "linux"))]
fn asked(_: SocketAddrV4, _: SocketAddrV4) -> Option<u32> {
    None
}

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
#[cfg(target_os = "linux")]
const BY_FAMILY: u16 = 20;

/// Returns a query: a `struct nlmsghdr` and a `struct inet_diag_req_v2` (`linux/inet_diag.h`).
#[cfg(target_os = "linux")]
fn question(own: SocketAddrV4, other: SocketAddrV4) -> Vec<u8> {
    const TCP: u8 = 6;
    const INET: u8 = 2;
    const REQUEST: u16 = 1;
    const LENGTH: u32 = 16 + 56;
    let mut message = Vec::with_capacity(LENGTH as usize);
    message.extend(LENGTH.to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]); // sequence number, port id
    message.extend([INET, TCP, 0, 0]);
    message.extend(u32::MAX.to_ne_bytes()); // any state
    message.extend(own.port().to_be_bytes());
    message.extend(other.port().to_be_bytes());
    for address in [own, other] {
        message.extend(address.ip().octets());
        message.extend([0; 12]);
    }
    message.extend([0; 4]); // any interface
    message.extend([0xff; 8]); // any cookie
    message
}

/// Returns the field `idiag_inode` of a `struct inet_diag_msg`. A closing socket has none.
#[cfg(target_os = "linux")]
fn number(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let number = u32::from_ne_bytes(answer.get(16 + 68..16 + 72)?.try_into().ok()?);
    (kind == BY_FAMILY && number != 0).then_some(number)
}

fn in_table(own: SocketAddrV4, other: SocketAddrV4) -> Option<u32> {
    let (own, other) = (as_in_proc(own), as_in_proc(other));
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let line = table.lines().find(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&own) && fields.next() == Some(&other)
    })?;
    line.split_whitespace().nth(9)?.parse().ok().filter(|number| *number != 0)
}

fn as_in_proc(address: SocketAddrV4) -> String {
    let number = u32::from_ne_bytes(address.ip().octets());
    format!("{number:08X}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_other_end_is_found_in_both_ways_until_it_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialler = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let file = fs::read_link(format!("/proc/self/fd/{}", dialler.as_raw_fd())).unwrap();
        let number = number_of_other_end(&accepted);
        assert_eq!(file.to_str(), number.map(|number| format!("socket:[{number}]")).as_deref());

        let [SocketAddr::V4(own), SocketAddr::V4(other)] =
            [dialler.local_addr().unwrap(), dialler.peer_addr().unwrap()]
        else {
            panic!("not of version 4")
        };
        assert_eq!(in_table(own, other), number);
        drop((dialler, accepted));
        assert_eq!([asked(own, other), in_table(own, other)], [None, None]);
    }
}
