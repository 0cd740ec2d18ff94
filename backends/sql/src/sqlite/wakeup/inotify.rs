use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

use super::{Change, TIDY};

#[derive(Debug)]
pub(super) struct Inotify(AsyncFd<OwnedFd>);

impl Inotify {
    pub(super) fn watch(log: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let what = WatchFlags::CLOSE_NOWRITE | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        inotify::add_watch(&fd, log, what)?;
        #[expect(deprecated, reason = "its successor is unsafe, and this crate forbids that")]
        AsyncFd::new(fd).map(Self)
    }

    pub(super) async fn next(&self) -> Change {
        match tokio::time::timeout(TIDY, self.0.readable()).await {
            Err(_) => Change::Nothing,
            // The I/O driver has ended with its runtime, so the watch must end.
            Ok(Err(_)) => Change::FileGone,
            Ok(Ok(mut ready)) => {
                let change = drain(ready.get_inner());
                ready.clear_ready();
                change
            }
        }
    }
}

fn drain(fd: &OwnedFd) -> Change {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(fd, &mut buffer);
    let mut change = Change::Nothing;
    while let Ok(event) = events.next() {
        let flags = event.events();
        if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED) {
            return Change::FileGone;
        }
        change = Change::Wakeup;
    }
    change
}
