//! Rejection of late writes at the protected resource.
//!
//! A paused holder may write after its TTL. Each write therefore carries the holder's fence, as a
//! [`Fenced`]; over HTTP, in the header [`HEADER`]. A [`Gate`] rejects a fence below the highest
//! accepted one (Kleppmann, *How to do distributed locking*, 2016; Burrows, *The Chubby lock
//! service*, 2006).
//!
//! A database must store the highest fence in the transaction of the write: see `check_fence` of
//! the SQL backends, and the modules `fencing` of etcd, ZooKeeper and Redis.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use tokio::sync::OwnedMutexGuard;

use crate::backend_util::{lock, percent};
use crate::{Error, ErrorKind, Fence, LockName, NameMap, Reason, Result};

/// The HTTP header that carries a [`Fenced`], in lower case for HTTP/2.
pub const HEADER: &str = "lockwright-fence";

/// A lock's name and its holder's fence, sent with a request to the protected resource.
///
/// The text form is an item of [RFC 9651](https://www.rfc-editor.org/rfc/rfc9651). The fence is a
/// string, because it may have 16 digits, and that format's integers at most 15. In the name, `%`,
/// `"`, `\` and non-ASCII bytes are percent-encoded.
///
/// ```
/// use lockwright_core::fencing::Fenced;
/// use lockwright_core::{Fence, LockName};
///
/// let fenced = Fenced { name: LockName::new("orders/42")?, fence: Fence::new(7) };
/// assert_eq!(fenced.to_string(), r#""7";name="orders/42""#);
/// assert_eq!(r#""7";name="orders/42""#.parse::<Fenced>()?, fenced);
/// # Ok::<(), lockwright_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fenced {
    /// The full name, with the namespace.
    pub name: LockName,
    /// The fence.
    pub fence: Fence,
}

impl Fenced {
    /// Returns the error for a fence below `highest`: [`Lost`](ErrorKind::Lost) with
    /// [`Superseded`](Reason::Superseded).
    pub fn superseded(&self, highest: Fence) -> Error {
        let message = format!(
            "the fence {} is out of date: a request with the fence {highest} was accepted before; the \
             sender has lost the lock",
            self.fence
        );
        Error::new(ErrorKind::Lost(Reason::Superseded), message).with_name(&self.name)
    }
}

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = percent::encode(self.name.as_str(), must_be_encoded);
        write!(f, "\"{}\";name=\"{name}\"", self.fence)
    }
}

impl FromStr for Fenced {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid_input(format!(
                "{text:?} is not a lock's fence; write it as \"7\";name=\"orders/42\""
            ))
        };
        let (fence, name) = parts(text).ok_or_else(bad)?;
        let fence = Fence::new(fence.parse().map_err(|_| bad())?).checked()?;
        Ok(Self { name: LockName::new(decoded(name).ok_or_else(bad)?)?, fence })
    }
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let (fence, rest) = text.trim_matches(' ').strip_prefix('"')?.split_once('"')?;
    let name = rest.strip_prefix(';')?.trim_start_matches(' ').strip_prefix("name=\"")?;
    let is_number = !fence.is_empty() && fence.bytes().all(|digit| digit.is_ascii_digit());
    Some((fence, name.strip_suffix('"')?)).filter(|_| is_number)
}

fn must_be_encoded(c: char) -> bool {
    !matches!(c, ' '..='~') || matches!(c, '"' | '\\')
}

fn decoded(text: &str) -> Option<String> {
    if text.contains(must_be_encoded) { None } else { percent::decode(text) }
}

/// A check that rejects fences below the highest accepted one. Clones share their fences.
///
/// A gate keeps the highest fences only in memory. Store them with the data, and
/// [restore](Self::remember) them before the first [`enter`](Self::enter).
///
/// ```
/// # use lockwright_core::LockName;
/// # use lockwright_core::fencing::{Fenced, Gate};
/// # async fn handle(gate: &Gate, order: u64, header: &str) -> lockwright_core::Result<()> {
/// let lock = LockName::new(format!("shop/orders/{order}"))?; // the full name, with the namespace
/// let fenced: Fenced = header.parse()?;
/// let inside = gate.enter(&lock, &fenced).await?; // `Lost` for a late write: answer 412
/// // … write, with the fence …
/// drop(inside);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Mutex<NameMap<Arc<tokio::sync::Mutex<u64>>>>>);

/// Exclusive access for one accepted write.
#[derive(Debug)]
#[must_use = "the next write can start once this is dropped; keep it until the write is done"]
pub struct Inside(OwnedMutexGuard<u64>);

impl Inside {
    /// Returns the highest accepted fence.
    pub fn highest(&self) -> Fence {
        Fence::new(*self.0)
    }
}

impl Gate {
    /// Creates an empty gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Restores the highest fence after a restart.
    ///
    /// # Cancel safety
    /// May be dropped. The fence may be stored or not.
    pub async fn remember(&self, name: &LockName, fence: Fence) {
        let mut highest = self.highest_of(name).lock_owned().await;
        *highest = fence.get().max(*highest);
    }

    /// Accepts one write at a time per lock. Several writes may have the same fence.
    ///
    /// The service must choose `lock`, a full name: a late sender could name an unused lock, and
    /// enter.
    ///
    /// # Errors
    /// - [`Lost`](ErrorKind::Lost) with [`Superseded`](Reason::Superseded) if the fence is below
    ///   the highest.
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for another lock, or a fence above
    ///   [`Fence::MAX`].
    ///
    /// # Cancel safety
    /// May be dropped. Then the fence isn't accepted.
    pub async fn enter(&self, lock: &LockName, fenced: &Fenced) -> Result<Inside> {
        if fenced.name != *lock {
            return Err(Error::invalid_input(format!(
                "the request was sent under the lock {:?}, but {lock:?} protects the resource; hold that \
                 lock, and send its fence and its full name",
                fenced.name
            )));
        }
        let fence = fenced.fence.checked().map_err(|error| error.with_name(lock))?;
        let mut highest = self.highest_of(lock).lock_owned().await;
        if fence.get() < *highest {
            return Err(fenced.superseded(Fence::new(*highest)));
        }
        *highest = fence.get();
        Ok(Inside(highest))
    }

    fn highest_of(&self, name: &LockName) -> Arc<tokio::sync::Mutex<u64>> {
        let mut names = lock(&self.0);
        Arc::clone(names.entry_ref(name).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fenced(fence: u64) -> Fenced {
        Fenced { name: LockName::new("x").unwrap(), fence: Fence::new(fence) }
    }

    #[test]
    fn it_survives_its_text() {
        for name in ["x", "a b", "größer", "100%", "\"quoted\\\"", "a;name=\"b\"", "%41", "a,b"] {
            let fenced = Fenced { name: LockName::new(name).unwrap(), fence: Fence::MAX };
            let text = fenced.to_string();
            assert_eq!(text.parse::<Fenced>().unwrap(), fenced, "{text}");
            // A string of RFC 9651, section 3.3.3, without escapes.
            let inner = text.strip_prefix("\"9007199254740991\";name=\"").unwrap();
            let plain = |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
            assert!(inner.strip_suffix('"').unwrap().bytes().all(plain), "{text}");
        }
        for spaced in [" \"7\";name=\"x\" ", "\"7\";  name=\"x\""] {
            assert_eq!(spaced.parse::<Fenced>().unwrap(), fenced(7));
        }
        let too_large = format!("\"{}\";name=\"x\"", Fence::MAX.get() + 1);
        for bad in [
            "",
            "7",
            "7;name=\"x\"",
            "\"7\"",
            "\"7\";name=x",
            "\"7\";name=\"x",
            "\"7;name=\"x\"",
            "\"\";name=\"x\"",
            "\"x\";name=\"x\"",
            "\"-1\";name=\"x\"",
            "\"+1\";name=\"x\"",
            "\" 1\";name=\"x\"",
            "\"99999999999999999999\";name=\"x\"",
            "\"7\";name=\"%4\"",
            "\"7\";name=\"%zz\"",
            "\"7\";name=\"%ff\"",
            "\"7\";name=\"\"",
            "\"7\";name=\"größer\"",
            "\"7\";name=\"a\"b\"",
            &too_large,
        ] {
            let kind = bad.parse::<Fenced>().unwrap_err().kind();
            assert_eq!(kind, ErrorKind::InvalidInput, "{bad}");
        }
    }

    #[tokio::test]
    async fn late_request_is_refused_for_ever() {
        let gate = Gate::new();
        let x = LockName::new("x").unwrap();
        for fence in [3, 3, 5, 5] {
            assert_eq!(gate.enter(&x, &fenced(fence)).await.unwrap().highest(), Fence::new(fence));
        }
        for late in [4, 3, 0] {
            let error = gate.enter(&x, &fenced(late)).await.unwrap_err();
            assert_eq!(error.lost_reason(), Some(Reason::Superseded));
        }
        let other = Fenced { name: LockName::new("y").unwrap(), fence: Fence::new(1) };
        drop(gate.clone().enter(&other.name, &other).await.unwrap());
        gate.remember(&other.name, Fence::new(9)).await;
        gate.remember(&other.name, Fence::new(2)).await;
        assert!(gate.enter(&other.name, &other).await.is_err());
        let too_large = gate.enter(&x, &fenced(Fence::MAX.get() + 1)).await.unwrap_err();
        assert_eq!(too_large.kind(), ErrorKind::InvalidInput);
        drop(gate.enter(&x, &fenced(5)).await.unwrap());
    }

    #[tokio::test]
    async fn fence_of_another_lock_is_refused() {
        let gate = Gate::new();
        let lock = LockName::new("shop/x").unwrap();
        gate.remember(&lock, Fence::new(5)).await;
        for fence in [4, 5, 6] {
            let error = gate.enter(&lock, &fenced(fence)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains("\"x\"") && text.contains("\"shop/x\""), "{text}");
        }
        assert_eq!(gate.0.lock().unwrap().len(), 1, "nothing is kept of what a sender chose");
        let highest = Fenced { name: lock.clone(), fence: Fence::new(5) };
        drop(gate.enter(&lock, &highest).await.unwrap());
    }

    #[tokio::test]
    async fn a_later_one_waits_for_who_is_inside() {
        let gate = Gate::new();
        let x = LockName::new("x").unwrap();
        let earlier = gate.enter(&x, &fenced(1)).await.unwrap();
        let later = tokio::spawn({
            let (gate, x) = (gate.clone(), x.clone());
            async move { gate.enter(&x, &fenced(2)).await.map(|inside| inside.highest()) }
        });
        for _ in 0..10 {
            tokio::task::yield_now().await;
            assert!(!later.is_finished());
        }
        drop(earlier);
        assert_eq!(later.await.unwrap().unwrap(), Fence::new(2));
        assert!(gate.enter(&x, &fenced(1)).await.is_err());
    }
}
