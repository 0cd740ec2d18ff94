use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant of this machine's boot clock. It is meaningless after a reboot.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BootInstant(u64);

impl BootInstant {
    /// The largest instant, used for "never".
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Creates an instant from nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(duration.subsec_nanos()))
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    /// Saturates at [`BootInstant::FAR_FUTURE`].
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for BootInstant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// A clock that runs while the machine is suspended, on Linux, Android, Windows and Apple's
/// systems. Elsewhere, it may stop, so the client may detect a loss too late.
#[derive(Clone, Default)]
pub struct Clock(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Boot,
    Tokio(Arc<TokioClock>),
}

struct TokioClock {
    base: tokio::time::Instant,
    jumped: AtomicU64,
}

/// The longest timer of a sleep. tokio's timers stop during a suspend, so the clock is checked
/// after each.
const SLICE: Duration = Duration::from_secs(1);

impl Clock {
    /// Creates the boot clock.
    pub const fn boot() -> Self {
        Self(Kind::Boot)
    }

    /// Creates a clock on tokio's time, for tests.
    pub fn tokio() -> Self {
        Self(Kind::Tokio(Arc::new(TokioClock {
            base: tokio::time::Instant::now(),
            jumped: AtomicU64::new(0),
        })))
    }

    /// Returns the present instant.
    #[inline]
    pub fn now(&self) -> BootInstant {
        match &self.0 {
            Kind::Boot => boot_now(),
            Kind::Tokio(clock) => {
                // The clock starts at one hour, so that a test can use earlier instants.
                BootInstant::from_nanos(3_600_000_000_000)
                    + clock.base.elapsed()
                    + Duration::from_nanos(clock.jumped.load(Ordering::SeqCst))
            }
        }
    }

    /// Simulates a suspend: moves a [`Clock::tokio`] ahead without firing its timers.
    pub fn jump(&self, by: Duration) {
        if let Kind::Tokio(clock) = &self.0 {
            clock.jumped.fetch_add(nanos(by), Ordering::SeqCst);
        }
    }

    /// Sleeps until `instant`. May be dropped.
    pub async fn sleep_until(&self, instant: BootInstant) {
        loop {
            let left = instant.saturating_since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(SLICE)).await;
        }
    }

    /// Sleeps for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now() + duration).await;
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Boot => "Clock(boot)",
            Kind::Tokio(_) => "Clock(tokio)",
        })
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
#[inline]
fn boot_now() -> BootInstant {
    use rustix::time::{ClockId, clock_gettime};

    // On Apple's systems, CLOCK_MONOTONIC counts during a sleep (see clock_gettime(3)), but Rust's
    // `Instant` doesn't.
    #[cfg(target_vendor = "apple")]
    const CLOCK: ClockId = ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    const CLOCK: ClockId = ClockId::Boottime;

    let now = clock_gettime(CLOCK);
    BootInstant(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

// On Windows, `Instant` is QueryPerformanceCounter, which counts during a sleep.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn boot_now() -> BootInstant {
    use std::sync::LazyLock;
    use std::time::Instant;

    static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);
    BootInstant::from_nanos(3_600_000_000_000) + BASE.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let far = BootInstant::FAR_FUTURE;
        assert_eq!(far + Duration::MAX, far);
        assert_eq!(BootInstant::from_nanos(1) - Duration::MAX, BootInstant::from_nanos(0));
        assert_eq!(BootInstant::from_nanos(1).saturating_since(far), Duration::ZERO);
    }
}
