//! Writes to standard error without blocking: a blocked process can't keep a deadline.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{self, Errno};
use rustix::net::{SendFlags, send};

use crate::escape;

/// How long a full pipe may delay a message, and so a lock's release.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// A ready pipe or terminal accepts this many bytes.
const MAX_READY_WRITE: usize = 4096;

/// True if the last line was written only in part.
static CUT: AtomicBool = AtomicBool::new(false);

pub(crate) fn write_message(sentence: &str, patience: Duration) {
    write_within(&format!("lockwright: {}\n", escape(sentence)), patience);
}

/// Drops what can't be written within `patience`.
pub(crate) fn write_within(text: &str, patience: Duration) {
    write_by(write_some, &CUT, text, patience);
}

fn write_by(
    mut write_some: impl FnMut(&[u8]) -> io::Result<usize>,
    cut: &AtomicBool,
    text: &str,
    patience: Duration,
) {
    let until = Instant::now() + patience;
    let was_cut = cut.swap(false, Ordering::Relaxed);
    let text = if was_cut { format!("\n{text}") } else { text.to_owned() };
    let mut left = text.as_bytes();
    while !left.is_empty() {
        match write_some(left) {
            Ok(0) => return,
            Ok(written) => left = &left[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let patience = until.saturating_duration_since(Instant::now());
                if patience.is_zero() || !is_ready(patience) {
                    cut.store(was_cut || left.len() < text.len(), Ordering::Relaxed);
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

fn write_some(bytes: &[u8]) -> io::Result<usize> {
    match method() {
        Method::File => io::write(stderr(), bytes),
        Method::Socket => send(stderr(), bytes, SendFlags::DONTWAIT),
        Method::Own(own) => io::write(own, bytes),
        // Accepted risk: if another process fills the pipe now, the write blocks.
        Method::Poll if is_ready(Duration::ZERO) => {
            io::write(stderr(), &bytes[..bytes.len().min(MAX_READY_WRITE)])
        }
        Method::Poll => Err(Errno::AGAIN),
    }
}

fn is_ready(patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    let mut fds = [PollFd::from_borrowed_fd(stderr(), PollFlags::OUT)];
    poll(&mut fds, patience.as_ref()).is_ok_and(|ready| ready > 0)
}

fn stderr() -> BorrowedFd<'static> {
    rustix::stdio::stderr()
}

#[derive(Debug)]
enum Method {
    File,
    Socket,
    /// A second, nonblocking open file description. CMD shares the first, and expects blocking
    /// writes.
    Own(OwnedFd),
    /// Another user's terminal can't be opened again, so writes need `poll`.
    Poll,
}

fn method() -> &'static Method {
    static METHOD: OnceLock<Method> = OnceLock::new();
    METHOD.get_or_init(|| {
        let kind = fstat(stderr()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Socket) => Method::Socket,
            Ok(FileType::Fifo | FileType::CharacterDevice) => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                open("/proc/self/fd/2", flags, Mode::empty()).map_or(Method::Poll, Method::Own)
            }
            _ => Method::File,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_line_is_ended_before_the_next_one() {
        let cut = AtomicBool::new(false);
        let mut out = Vec::new();
        let mut write = |text, room| {
            let end = out.len() + room;
            let some = |bytes: &[u8]| match bytes.len().min(end - out.len()) {
                0 => Err(Errno::AGAIN),
                n => {
                    out.extend_from_slice(&bytes[..n]);
                    Ok(n)
                }
            };
            write_by(some, &cut, text, Duration::ZERO);
        };
        write("first\n", 3);
        write("second\n", 0);
        write("third\n", 100);
        write("fourth\n", 0);
        write("fifth\n", 100);
        assert_eq!(String::from_utf8(out).unwrap(), "fir\nthird\nfifth\n");
    }
}
