use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use lockwright::BootInstant;
use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// A timer that counts even while the machine is suspended. With `poll`'s timeout, which doesn't,
/// CMD could outlive its hold.
pub(crate) struct Timer(OwnedFd);

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    pub(crate) fn set(&self, instant: BootInstant) {
        // Zero would disarm the timer.
        let at = Duration::from_nanos(instant.as_nanos().max(1));
        let Ok(it_value) = Timespec::try_from(at) else { return };
        let at = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        // Errors are harmless, because the supervisor reads the clock once a second.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &at);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use lockwright::Clock;
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn the_timer_wakes_at_an_instant_of_the_boot_clock() {
        let timer = Timer::new().unwrap();
        let is_due = |within: Timespec| {
            let mut fds = [PollFd::from_borrowed_fd(timer.as_fd(), PollFlags::IN)];
            poll(&mut fds, Some(&within)).unwrap() == 1
        };
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        let at = Clock::boot().now() + Duration::from_millis(50);
        timer.set(at);
        assert!(is_due(minute));
        assert!(Clock::boot().now() >= at);
        timer.set(at + Duration::from_secs(3600));
        assert!(!is_due(Timespec { tv_sec: 0, tv_nsec: 0 }), "set again, and not yet due");
        timer.set(BootInstant::from_nanos(0));
        assert!(is_due(minute), "long past");
    }
}
