//! The protocol between `lockwright run` and its supervisor. A lost frame never extends a deadline.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lockwright::BootInstant;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Exit;

/// The length of a frame: a message as JSON, padded with spaces.
pub(crate) const FRAME: usize = 96;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// A term that the server confirmed. The first order starts CMD and carries CMD's stdin.
    Confirmed(Term),
    /// A signal for CMD's process group.
    Forward(i32),
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

fn encode(message: &impl Serialize) -> [u8; FRAME] {
    let mut frame = [b' '; FRAME];
    serde_json::to_writer(&mut frame[..], message).expect("a message fits in a frame");
    frame
}

pub(crate) fn decode<T: DeserializeOwned>(frame: &[u8; FRAME]) -> Option<T> {
    serde_json::from_slice(frame).ok()
}

/// Sends without blocking: a blocked sender couldn't keep a deadline. The socket buffers thousands
/// of frames.
pub(crate) fn post(socket: impl AsFd, message: &impl Serialize) -> io::Result<()> {
    send(socket, &encode(message), SendFlags::DONTWAIT)?;
    Ok(())
}

pub(crate) fn post_start(socket: impl AsFd, term: Term, stdin: BorrowedFd<'_>) -> io::Result<()> {
    let bytes = encode(&Order::Confirmed(term));
    let fds = [stdin];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[io::IoSlice::new(&bytes)], &mut ancillary, SendFlags::DONTWAIT)?;
    Ok(())
}

pub(crate) fn receive_start(socket: impl AsFd) -> io::Result<Option<(Term, OwnedFd)>> {
    let mut bytes = [0; FRAME];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [io::IoSliceMut::new(&mut bytes)];
    let message = recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::empty())?;
    let stdin = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    // macOS has no `MSG_CMSG_CLOEXEC`.
    stdin.iter().try_for_each(|stdin| fcntl_setfd(stdin, FdFlags::CLOEXEC))?;
    Ok(match (message.bytes == FRAME).then(|| decode(&bytes)).flatten() {
        Some(Order::Confirmed(term)) => stdin.map(|stdin| (term, stdin)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_message_fits_in_a_frame() {
        let never = BootInstant::FAR_FUTURE;
        let order = Order::Confirmed(Term { lost_at: never, deadline: never });
        assert_eq!(decode(&encode(&order)), Some(order));
        let report = Report::Done { exit: Exit::Signal(i32::MIN), lost: false };
        assert_eq!(decode(&encode(&report)), Some(report));
        assert_eq!(decode::<Order>(&encode(&report)), None);
    }

    #[test]
    fn kill_is_halfway_between_loss_and_deadline() {
        let at = BootInstant::from_nanos;
        assert_eq!(Term { lost_at: at(100), deadline: at(200) }.kill_at(), at(150));
        assert_eq!(Term { lost_at: at(200), deadline: at(200) }.kill_at(), at(200));
    }
}
