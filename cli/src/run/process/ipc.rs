//! The protocol between `lockwright run` and its supervisor. A lost frame never extends a deadline.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lockwright::BootInstant;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};

use super::Exit;

pub(crate) const FRAME: usize = 17;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    /// The supervisor begins to end CMD at this instant, unless it has received a newer term.
    pub lost_at: BootInstant,
    /// All processes of CMD must have ended before this instant.
    pub deadline: BootInstant,
}

impl Term {
    pub(crate) fn kill_at(self) -> BootInstant {
        self.lost_at + self.deadline.saturating_since(self.lost_at) / 2
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// A term that the server confirmed. The first starts CMD and carries its standard input.
    Confirmed(Term),
    /// A signal for CMD's process group.
    Forward(i32),
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    Started(u32),
    /// Starting CMD failed with this OS error.
    NotStarted(i32),
    TooLate,
    /// CMD was suspended, and the supervisor continued it.
    NotSuspended,
    /// CMD ended. The supervisor is ending processes that CMD left behind.
    Leftovers,
    /// This many processes belong to another user and can't be ended.
    OutOfReach(u32),
    Done {
        exit: Exit,
        lost: bool,
    },
}

fn frame(tag: u8, a: u64, b: u64) -> [u8; FRAME] {
    let mut bytes = [0; FRAME];
    bytes[0] = tag;
    bytes[1..9].copy_from_slice(&a.to_le_bytes());
    bytes[9..].copy_from_slice(&b.to_le_bytes());
    bytes
}

fn parts(bytes: &[u8; FRAME]) -> (u8, u64, u64) {
    let number = |range: std::ops::Range<usize>| {
        bytes[range].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
    };
    (bytes[0], number(1..9), number(9..FRAME))
}

impl Order {
    pub(crate) fn encode(self) -> [u8; FRAME] {
        match self {
            Self::Confirmed(Term { lost_at, deadline }) => {
                frame(b'C', lost_at.as_nanos(), deadline.as_nanos())
            }
            Self::Forward(signal) => frame(b'F', signal as u64, 0),
            Self::Lost => frame(b'L', 0, 0),
        }
    }

    pub(crate) fn decode(bytes: &[u8; FRAME]) -> Option<Self> {
        Some(match parts(bytes) {
            (b'C', lost_at, deadline) => Self::Confirmed(Term {
                lost_at: BootInstant::from_nanos(lost_at),
                deadline: BootInstant::from_nanos(deadline),
            }),
            (b'F', signal, _) => Self::Forward(i32::try_from(signal).ok()?),
            (b'L', ..) => Self::Lost,
            _ => return None,
        })
    }
}

impl Report {
    pub(crate) fn encode(self) -> [u8; FRAME] {
        match self {
            Self::Started(pid) => frame(b'P', u64::from(pid), 0),
            Self::NotStarted(errno) => frame(b'N', errno as u64, 0),
            Self::TooLate => frame(b'X', 0, 0),
            Self::NotSuspended => frame(b'T', 0, 0),
            Self::Leftovers => frame(b'O', 0, 0),
            Self::OutOfReach(count) => frame(b'R', u64::from(count), 0),
            Self::Done { exit: Exit::Code(code), lost } => frame(b'E', code.into(), lost.into()),
            Self::Done { exit: Exit::Signal(signal), lost } => {
                frame(b'K', signal as u64, lost.into())
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8; FRAME]) -> Option<Self> {
        let (tag, number, lost) = parts(bytes);
        let lost = lost != 0;
        Some(match tag {
            b'P' => Self::Started(number.try_into().ok()?),
            b'N' => Self::NotStarted(number.try_into().ok()?),
            b'X' => Self::TooLate,
            b'T' => Self::NotSuspended,
            b'O' => Self::Leftovers,
            b'R' => Self::OutOfReach(number.try_into().ok()?),
            b'E' => Self::Done { exit: Exit::Code(number.try_into().ok()?), lost },
            b'K' => Self::Done { exit: Exit::Signal(number.try_into().ok()?), lost },
            _ => return None,
        })
    }
}

/// Sends without blocking, because a blocked sender couldn't keep a deadline. The socket buffers
/// thousands of frames.
pub(crate) fn post(socket: impl AsFd, bytes: &[u8; FRAME]) -> io::Result<()> {
    send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn post_start(socket: impl AsFd, term: Term, stdin: BorrowedFd<'_>) -> io::Result<()> {
    let bytes = Order::Confirmed(term).encode();
    let fds = [stdin];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[io::IoSlice::new(&bytes)], &mut ancillary, flags)?;
    Ok(())
}

pub(crate) fn receive_start(socket: impl AsFd) -> io::Result<Option<(Term, OwnedFd)>> {
    let mut bytes = [0; FRAME];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [io::IoSliceMut::new(&mut bytes)];
    let message = recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let stdin = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(match (message.bytes == FRAME).then(|| Order::decode(&bytes)).flatten() {
        Some(Order::Confirmed(term)) => stdin.map(|stdin| (term, stdin)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_decoded_as_they_were_encoded() {
        let term = Term {
            lost_at: BootInstant::from_nanos(u64::MAX - 1),
            deadline: BootInstant::from_nanos(u64::MAX),
        };
        for order in [Order::Confirmed(term), Order::Forward(15), Order::Lost] {
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        for report in [
            Report::Started(4_000_000),
            Report::NotStarted(2),
            Report::TooLate,
            Report::NotSuspended,
            Report::Leftovers,
            Report::OutOfReach(3),
            Report::Done { exit: Exit::Code(255), lost: false },
            Report::Done { exit: Exit::Signal(9), lost: true },
        ] {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
        assert_eq!(Order::decode(&[0; FRAME]), None);
        assert_eq!(Report::decode(&[0; FRAME]), None);
    }

    #[test]
    fn kill_is_halfway_between_loss_and_deadline() {
        let at = BootInstant::from_nanos;
        assert_eq!(Term { lost_at: at(100), deadline: at(200) }.kill_at(), at(150));
        assert_eq!(Term { lost_at: at(200), deadline: at(200) }.kill_at(), at(200));
    }
}
