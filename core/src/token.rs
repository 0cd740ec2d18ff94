//! Tokens, which name a hold for ever, and fences, which order the holds of a name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rand::TryRng;
use rand::rngs::SysRng;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// 128 random bits, made by the client before the request is sent. A token names one hold for
/// ever: every operation on a hold carries it, which makes each of them idempotent.
///
/// Written as 32 lower-case hexadecimal digits; that is also what stands on the servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token([u8; 16]);

impl Token {
    /// A token of these bytes. Only tests and backends that read one back need this.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A fresh one, straight from the operating system's random source.
    ///
    /// # Panics
    /// If the operating system has no random source.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        SysRng.try_fill_bytes(&mut bytes).expect("the operating system's random source answers");
        Self(bytes)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
                "a token is 32 lower-case hexadecimal digits, and this isn't one: {text:?}"
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

/// Where a client's tokens come from: the operating system, or what a test chose.
///
/// A client's own come from a generator in the process (ChaCha, by the `rand` crate), as a call to
/// the operating system for each would be felt. Two processes that were forked from one share that
/// generator's state, so each client adds random bits of its own to every token. A client itself
/// must not be used on both sides of a fork, as little as its connections.
#[derive(Clone)]
pub struct TokenSource(Source);

#[derive(Clone)]
enum Source {
    Random { salt: Token },
    Chosen(Arc<dyn Fn() -> Token + Send + Sync>),
}

impl Default for TokenSource {
    /// Random ones.
    fn default() -> Self {
        Self(Source::Random { salt: Token::random() })
    }
}

impl TokenSource {
    /// Tokens from the given function, so that a test can foresee them. Two holds with one token
    /// are one hold to a server: never repeat one outside of tests.
    pub fn from_fn(source: impl Fn() -> Token + Send + Sync + 'static) -> Self {
        Self(Source::Chosen(Arc::new(source)))
    }

    pub(crate) fn next(&self) -> Token {
        match &self.0 {
            Source::Random { salt } => {
                Token((rand::random::<u128>() ^ u128::from_ne_bytes(salt.0)).to_ne_bytes())
            }
            Source::Chosen(source) => source(),
        }
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the salt: it is nobody's business.
        f.write_str(match self.0 {
            Source::Random { .. } => "TokenSource(random)",
            Source::Chosen(_) => "TokenSource(chosen)",
        })
    }
}

/// A fencing token: larger for every later exclusive grant of the same name, for ever.
///
/// Send it with each write to what the lock protects, and let that refuse a fence below the
/// highest it has seen: then a holder that was paused past its TTL can't do harm
/// (Kleppmann, "How to do distributed locking", 2016; Chubby's sequencers, 2006).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(u64);

impl Fence {
    /// The largest fence: servers with script languages compare doubles.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// A fence of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The fence, if a lock can have given it. To be asked before what a writer sent is noted: one above
    /// [`MAX`](Self::MAX) would refuse every later holder for ever.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) above that.
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
    fn a_token_survives_its_text() {
        let token = Token::random();
        assert_eq!(token.to_string().len(), 32);
        assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        for bad in ["", "12", &"g".repeat(32), &"A".repeat(32)] {
            assert!(bad.parse::<Token>().is_err());
        }
    }

    #[test]
    fn clients_that_share_a_generator_have_tokens_of_their_own() {
        // After a fork both sides draw the same bits: the salt alone must keep them apart.
        let salt = |source: &TokenSource| match &source.0 {
            Source::Random { salt } => *salt,
            Source::Chosen(_) => unreachable!(),
        };
        assert_ne!(salt(&TokenSource::default()), salt(&TokenSource::default()));
    }

    #[test]
    fn tokens_differ() {
        let tokens: std::collections::HashSet<_> = (0..1_000).map(|_| Token::random()).collect();
        assert_eq!(tokens.len(), 1_000);
    }
}
