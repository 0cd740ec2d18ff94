//! Locks for programs without tokio. One thread per client sends its requests and renews its holds.
//!
//! A lost hold can't stop blocking work. Call `check` before each step, and send the fence with each
//! write.
//!
//! ```
//! use std::time::Duration;
//!
//! # fn main() -> lockwright::Result<()> {
//! let locks = lockwright::blocking::connect("memory:")?;
//! let guard = locks.mutex("orders/42").wait_for(Duration::from_secs(2)).acquire()?;
//! for part in 0..10 {
//!     guard.check()?;
//!     println!("part {part} with fence {}", guard.fence());
//! }
//! guard.release()?;
//! locks.close(); // waits for the releases of dropped guards
//! # Ok(())
//! # }
//! ```
//!
//! # Panics
//! Each function that sends a request panics inside a tokio runtime, whose thread it would block.

use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lockwright_core::{Error, Held, Permit, Request as AsyncRequest, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Connects a client with default settings, and starts its thread, which ends with the client's
/// last clone and guard.
///
/// # Errors
/// As [`lockwright::connect`](crate::connect), and [`Unavailable`](crate::ErrorKind::Unavailable) if
/// the system starts no thread.
pub fn connect(url: &str) -> Result<Locks> {
    assert_outside();
    let failed = |cause| Error::unavailable("cannot start the client's thread").with_source(cause);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (alive, ended) = oneshot::channel();
    let background = Background { handle: runtime.handle().clone(), _alive: Arc::new(alive) };
    let locks = runtime.block_on(crate::connect(url))?;
    let client = locks.clone();
    let run = async move {
        let _ = ended.await;
        client.close().await;
    };
    let thread = thread::Builder::new().name("lockwright".into());
    thread.spawn(move || runtime.block_on(run)).map_err(failed)?;
    Ok(Locks { locks, background })
}

fn assert_outside() {
    assert!(
        Handle::try_current().is_err(),
        "lockwright::blocking was called inside a tokio runtime; use lockwright::connect there"
    );
}

#[derive(Debug, Clone)]
struct Background {
    handle: Handle,
    _alive: Arc<oneshot::Sender<()>>,
}

impl Background {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert_outside();
        self.handle.block_on(future)
    }
}

/// A client. Clones are the same client.
#[derive(Debug, Clone)]
pub struct Locks {
    locks: crate::Locks,
    background: Background,
}

impl Locks {
    fn request<H>(&self, request: AsyncRequest<H>) -> Request<H> {
        Request { request, background: self.background.clone() }
    }

    /// Creates a request for an exclusive lock.
    pub fn mutex(&self, name: impl AsRef<str>) -> Request<crate::Guard> {
        self.request(self.locks.mutex(name))
    }

    /// Creates a request for a shared lock.
    pub fn read(&self, name: impl AsRef<str>) -> Request<crate::Guard> {
        self.request(self.locks.read(name))
    }

    /// Same as [`mutex`](Self::mutex).
    pub fn write(&self, name: impl AsRef<str>) -> Request<crate::Guard> {
        self.request(self.locks.write(name))
    }

    /// Creates a request for one of `size` permits.
    pub fn semaphore(&self, name: impl AsRef<str>, size: u32) -> Request<Permit> {
        self.request(self.locks.semaphore(name, size))
    }

    /// Closes the client: see [`Locks::close`](crate::Locks::close).
    pub fn close(&self) {
        self.background.block_on(self.locks.close());
    }
}

/// A request for a hold: see [`lockwright::Request`](AsyncRequest).
#[must_use = "a request does nothing until acquire, try_acquire or with sends it"]
#[derive(Debug)]
pub struct Request<H> {
    request: AsyncRequest<H>,
    background: Background,
}

impl<H: Held> Request<H> {
    /// Sets the TTL. The default is 30 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|request| request.ttl(ttl))
    }

    /// Limits how long [`acquire`](Self::acquire) waits. By default, it has no limit.
    pub fn wait_for(self, limit: Duration) -> Self {
        self.map(|request| request.wait_for(limit))
    }

    /// Sets any option: `.map(|request| request.fixed())`.
    pub fn map(self, set: impl FnOnce(AsyncRequest<H>) -> AsyncRequest<H>) -> Self {
        Self { request: set(self.request), ..self }
    }

    /// Waits for the hold.
    ///
    /// # Errors
    /// As [`lockwright::Request::acquire`](AsyncRequest::acquire).
    pub fn acquire(self) -> Result<Guard<H>> {
        let held = self.background.block_on(self.request.acquire())?;
        Ok(Guard { held, background: self.background })
    }

    /// Tries once. Returns `None` if the lock is held.
    ///
    /// # Errors
    /// As [`lockwright::Request::try_acquire`](AsyncRequest::try_acquire).
    pub fn try_acquire(self) -> Result<Option<Guard<H>>> {
        let held = self.background.block_on(self.request.try_acquire())?;
        Ok(held.map(|held| Guard { held, background: self.background }))
    }

    /// Acquires the lock, calls `work`, and releases the lock.
    ///
    /// # Errors
    /// Those of [`acquire`](Self::acquire), before `work` is called. [`Lost`](crate::ErrorKind::Lost)
    /// without the output if the hold was lost before the release.
    pub fn with<T>(self, work: impl FnOnce(&Guard<H>) -> T) -> Result<T> {
        let guard = self.acquire()?;
        let output = work(&guard);
        match guard.release() {
            Err(error) if error.lost_reason().is_some() => Err(error),
            _ => Ok(output),
        }
    }
}

/// A hold. It dereferences to the asynchronous guard, for its synchronous methods, such as `check`,
/// `fence` and `fenced`. Dropping the guard releases the hold in the background.
#[must_use = "dropping the guard releases the lock; keep it for as long as the lock is needed"]
#[derive(Debug)]
pub struct Guard<H = crate::Guard> {
    held: H,
    background: Background,
}

impl<H: Held> Guard<H> {
    /// Releases the hold and waits for the server's answer.
    ///
    /// # Errors
    /// As [`lockwright::Guard::release`](crate::Guard::release).
    pub fn release(self) -> Result<()> {
        self.background.block_on(self.held.release())
    }
}

impl<H> Deref for Guard<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.held
    }
}
