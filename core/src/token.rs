use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rand::TryRng;
use rand::rngs::SysRng;
use serde::{Deserialize, Serialize};

use crate::{BootInstant, Error, Result};

/// The id of one hold: 128 random bits, written as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token([u8; 16]);

impl Token {
    /// Creates a token from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns a token of random bits from the operating system.
    ///
    /// # Panics
    /// If the operating system has no random source.
    pub fn random() -> Self {
        Self::try_random().expect("the operating system's random source answers")
    }

    fn try_random() -> std::result::Result<Self, <SysRng as TryRng>::Error> {
        let mut bytes = [0; 16];
        SysRng.try_fill_bytes(&mut bytes)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each request formats its token. As a number, this would take twice as long.
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(
                &[byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[digit as usize]),
            );
        }
        f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.as_bytes();
        let mut token = [0; 16];
        if digits.len() != 32 || !digits.iter().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(Error::invalid_input(format!(
                "{text:?} is not a token; a token is 32 lower-case hexadecimal digits"
            )));
        }
        for (byte, pair) in token.iter_mut().zip(digits.chunks_exact(2)) {
            let value = |digit: u8| (digit as char).to_digit(16).unwrap_or_default() as u8;
            *byte = value(pair[0]) << 4 | value(pair[1]);
        }
        Ok(Self(token))
    }
}

impl TryFrom<String> for Token {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.to_string()
    }
}

/// A client's source of tokens: random, or chosen by a test.
///
/// Random tokens come from a generator in the process (ChaCha, in the `rand` crate). Forked
/// processes share its state, so each client adds a random salt. A client must not be used on both
/// sides of a fork.
///
/// A virtual machine that is resumed twice from a snapshot repeats both. Tokens therefore also mix
/// in the boot clock's nanosecond, system random bits at most 100 ms old, and the counters of
/// `/dev/vmclock0`.
#[derive(Clone)]
pub struct TokenSource(Source);

#[derive(Clone)]
enum Source {
    Random { salt: Token },
    Chosen(Arc<dyn Fn() -> Token + Send + Sync>),
}

impl Default for TokenSource {
    fn default() -> Self {
        Self(Source::Random { salt: Token::random() })
    }
}

impl TokenSource {
    /// Creates a source that calls a function, for tests. Each token must be unique: a server
    /// treats two holds with one token as one.
    pub fn from_fn(source: impl Fn() -> Token + Send + Sync + 'static) -> Self {
        Self(Source::Chosen(Arc::new(source)))
    }

    pub(crate) fn next(&self, now: BootInstant) -> Token {
        match &self.0 {
            Source::Random { salt } => {
                let own = u128::from_ne_bytes(salt.0);
                let present = present_bits(now) ^ spread(now.as_nanos());
                Token((rand::random::<u128>() ^ own ^ present).to_ne_bytes())
            }
            Source::Chosen(source) => source(),
        }
    }
}

const PRESENT: Duration = Duration::from_millis(100);

/// Returns bits that are at most [`PRESENT`] old. If the random source fails, the previous bits
/// (initially zero) are reused.
#[inline]
fn present_bits(now: BootInstant) -> u128 {
    thread_local! {
        static BITS: Cell<(u128, u128, BootInstant)> =
            const { Cell::new((0, 0, BootInstant::from_nanos(0))) };
    }

    BITS.with(|kept| {
        let (random, generation, until) = kept.get();
        // `left` exceeds `PRESENT` only if the clock went back, or the caller uses another clock.
        let left = until.saturating_since(now);
        if !left.is_zero() && left <= PRESENT {
            return random ^ generation;
        }
        let random = Token::try_random().map_or(random, |fresh| u128::from_ne_bytes(fresh.0));
        let generation = vmclock::generation();
        kept.set((random, generation, now + PRESENT));
        random ^ generation
    })
}

fn spread(number: u64) -> u128 {
    u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

mod vmclock {
    /// Returns the counters of `/dev/vmclock0`, which change when a snapshot is resumed; zero
    /// without the device.
    #[cfg(target_os = "linux")]
    pub(super) fn generation() -> u128 {
        use std::fs::File;
        use std::sync::LazyLock;

        static DEVICE: LazyLock<Option<File>> = LazyLock::new(|| File::open("/dev/vmclock0").ok());
        DEVICE.as_ref().map_or(0, read)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn generation() -> u128 {
        0
    }

    /// Combines the device's disruption counter (byte 16) and, on newer devices, its generation
    /// counter (byte 104).
    #[cfg(target_os = "linux")]
    pub(super) fn read(device: &std::fs::File) -> u128 {
        use std::os::unix::fs::FileExt;

        let mut page = [0; 112];
        let Ok(length) = device.read_at(&mut page, 0) else { return 0 };
        let counter = |at: usize| {
            let bytes = page[..length].get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u128::from(u64::from_le_bytes(bytes.unwrap_or_default()))
        };
        counter(16) << 64 | counter(104)
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Random { .. } => "TokenSource(random)",
            Source::Chosen(_) => "TokenSource(chosen)",
        })
    }
}

/// A fencing token: larger for every later exclusive grant of a name. See
/// [`fencing`](crate::fencing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(u64);

impl Fence {
    /// The largest fence: 2⁵³ − 1, because some servers' scripts compare fences as doubles.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Creates a fence from its number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the fence if it is at most [`MAX`](Self::MAX). After accepting a larger one, a
    /// resource would reject every later holder.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) above `MAX`.
    pub fn checked(self) -> Result<Self> {
        if self <= Self::MAX {
            return Ok(self);
        }
        let message = format!("a fence is at most {}, and this one is {self}", Self::MAX);
        Err(Error::invalid_input(message))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_share_a_generator_have_tokens_of_their_own() {
        let salt = |source: &TokenSource| match &source.0 {
            Source::Random { salt } => *salt,
            Source::Chosen(_) => unreachable!(),
        };
        assert_ne!(salt(&TokenSource::default()), salt(&TokenSource::default()));
    }

    #[test]
    fn random_bits_are_refreshed() {
        let now = BootInstant::from_nanos(5_000_000_000);
        let bits = present_bits(now);
        assert_eq!(present_bits(now + PRESENT / 2), bits);
        let next = present_bits(now + PRESENT);
        assert_ne!(next, bits);
        assert_ne!(present_bits(now), next, "the clock went back");
    }

    #[test]
    fn nanosecond_alone_keeps_tokens_apart() {
        let spreads: std::collections::HashSet<_> = (0..1_000).map(spread).collect();
        assert_eq!(spreads.len(), 1_000);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn each_counter_of_vmclock_changes_the_bits() {
        let file = std::env::temp_dir().join(format!("vmclock-{}", Token::random()));
        let read = |page: &[u8]| {
            std::fs::write(&file, page).unwrap();
            vmclock::read(&std::fs::File::open(&file).unwrap())
        };
        let mut page = [0; 4_096];
        let first = read(&page);
        page[16] = 1;
        let disrupted = read(&page);
        page[104] = 1;
        let cloned = read(&page);
        assert!(first != disrupted && disrupted != cloned && cloned != first);
        assert_eq!(read(&page[..104]), disrupted, "an older device has no generation counter");
        std::fs::remove_file(&file).unwrap();
    }
}
