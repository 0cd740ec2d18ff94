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
