//! The ports of a member.

use std::net::{Ipv4Addr, SocketAddr};

use crate::port;

#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) clients: u16,
    pub(super) secure: u16,
    pub(super) quorum: u16,
    pub(super) election: u16,
}

impl Ports {
    pub(super) fn find() -> Self {
        let (clients, secure) = (port::free(), port::free());
        Self { clients, secure, quorum: port::free(), election: port::free() }
    }
}

pub(super) fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
