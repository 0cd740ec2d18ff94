//! A TCP proxy that cuts connections, and drops or delays data.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{Error, Result, port, wait};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Traffic {
    #[default]
    Forward,
    /// Delays each piece of data in both directions.
    Delay(Duration),
    /// Bytes per second, per connection and direction.
    Throttle(u32),
    /// Holds data until the treatment changes.
    Hold,
    /// Drops requests and answers, but accepts connections.
    SwallowAll,
    /// Forwards requests and drops the answers.
    SwallowAnswers,
}

#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    traffic: Traffic,
    cut: bool,
    listening: bool,
    over: bool,
    connections: Vec<TcpStream>,
    accepted: usize,
    swallowed_answers: usize,
    swallowed: usize,
    delayed: usize,
    keeping: Option<usize>,
    kept_requests: usize,
    forwarded_requests: usize,
    silenced: usize,
}

impl Proxy {
    pub fn start(target: SocketAddr) -> Result<Self> {
        port::retried(|| Self::start_at(port::local(port::free()), target))
    }

    pub fn start_at(address: SocketAddr, target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .map_err(|error| Error::new(format!("no proxy can listen at {address}: {error}")))?;
        let shared = Shared::new(target);
        let keeper = Arc::clone(&shared);
        thread::spawn(move || keeper.listen(listener, address));
        Ok(Self { shared, address })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection that has lost data loses all later data: TCP never continues after a gap.
    pub fn set(&self, traffic: Traffic) {
        self.shared.set(traffic);
    }

    pub fn cut(&self) {
        self.shared.state().cut = true;
        self.shared.changed.notify_all();
        // Wakes the thread blocked in `accept`.
        drop(TcpStream::connect(self.address()));
        let refused = self.shared.wait_until(|state| !state.listening);
        assert!(refused, "the proxy stops listening");
        self.drop_connections();
    }

    pub fn mend(&self) {
        self.set(Traffic::Forward);
        self.shared.state().cut = false;
        self.shared.changed.notify_all();
        let listens = self.shared.wait_until(|state| state.listening);
        assert!(listens, "the proxy listens again");
    }

    /// Drops all data on present connections, but keeps them open.
    pub fn silence_present(&self) {
        let mut state = self.shared.state();
        state.silenced = state.accepted;
    }

    /// Closes all present connections, but serves new ones.
    pub fn drop_connections(&self) {
        self.shared.drop_connections();
    }

    pub fn accepted(&self) -> usize {
        self.shared.state().accepted
    }

    pub fn swallowed(&self) -> usize {
        self.shared.state().swallowed
    }

    pub fn delayed(&self) -> usize {
        self.shared.state().delayed
    }

    /// Holds one connection's requests (counted from 0) until the next call.
    pub fn keep_requests_of(&self, connection: Option<usize>) {
        self.shared.state().keeping = connection;
        self.shared.changed.notify_all();
    }

    pub fn kept_requests(&self) -> usize {
        self.shared.state().kept_requests
    }

    pub fn forwarded_requests(&self) -> usize {
        self.shared.state().forwarded_requests
    }

    /// Returns `false` after [`wait::LIMIT`].
    pub fn wait_for_swallowed_answer(&self) -> bool {
        self.shared.wait_until(|state| state.swallowed_answers > 0)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.end();
        drop(TcpStream::connect(self.address()));
        self.drop_connections();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Requests,
    Answers,
}

impl Shared {
    pub(crate) fn new(target: SocketAddr) -> Arc<Self> {
        let state = Mutex::new(State { listening: true, ..State::default() });
        Arc::new(Self { target, state, changed: Condvar::new() })
    }

    pub(crate) fn set(&self, traffic: Traffic) {
        self.state().traffic = traffic;
        self.changed.notify_all();
    }

    pub(crate) fn drop_connections(&self) {
        for connection in self.state().connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn end(&self) {
        let mut state = self.state();
        (state.over, state.cut) = (true, true);
        drop(state);
        self.changed.notify_all();
        self.drop_connections();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.state(), condition).unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until(&self, condition: impl Fn(&State) -> bool) -> bool {
        let (_state, timeout) = self
            .changed
            .wait_timeout_while(self.state(), wait::LIMIT, |state| !condition(state))
            .unwrap_or_else(PoisonError::into_inner);
        !timeout.timed_out()
    }

    fn listen(self: Arc<Self>, listener: TcpListener, address: SocketAddr) {
        let mut listener = Some(listener);
        loop {
            if let Some(listening) = listener.take() {
                while let Ok((client, _)) = listening.accept() {
                    if self.state().cut {
                        break;
                    }
                    self.serve(client, Vec::new(), Duration::ZERO);
                }
                // Another thread's forked child may have the dropped socket open until its exec.
                let _ = rustix::net::shutdown(&listening, rustix::net::Shutdown::Both);
            }
            self.state().listening = false;
            self.changed.notify_all();
            if self.wait_while(|state| state.cut && !state.over).over {
                return;
            }
            listener = wait::until(wait::LIMIT, || TcpListener::bind(address).ok());
            self.state().listening = listener.is_some();
            self.changed.notify_all();
        }
    }

    /// Connects `client` to the server, which must listen within `patience`, and first sends the
    /// `greeting` already read from `client`.
    pub(crate) fn serve(
        self: &Arc<Self>,
        client: TcpStream,
        greeting: Vec<u8>,
        patience: Duration,
    ) {
        let server = wait::until(patience, || TcpStream::connect(self.target).ok());
        let mut state = self.state();
        let number = state.accepted;
        state.accepted += 1;
        self.changed.notify_all();
        let Some(server) = server else {
            let _ = client.shutdown(Shutdown::Both);
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ends = [client.try_clone(), client.try_clone(), server.try_clone(), server.try_clone()];
        let [Ok(client_in), Ok(client_out), Ok(server_in), Ok(server_out)] = ends else { return };
        state.connections.extend([client, server]);
        drop(state);
        let (requests, answers) = (Arc::clone(self), Arc::clone(self));
        thread::spawn(move || {
            requests.pump(&greeting, &client_in, server_out, Direction::Requests, number)
        });
        thread::spawn(move || {
            answers.pump(&[], &server_in, client_out, Direction::Answers, number)
        });
    }

    fn pump(
        &self,
        first: &[u8],
        from: &TcpStream,
        mut to: TcpStream,
        direction: Direction,
        number: usize,
    ) {
        let mut input = first.chain(from);
        let mut buffer = [0; 16 * 1024];
        let mut has_lost = false;
        loop {
            let read = input.read(&mut buffer);
            has_lost |= number < self.state().silenced;
            let read = match read {
                Ok(read @ 1..) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                _ => break,
            };
            if direction == Direction::Requests {
                self.while_kept(number);
            }
            let hold = |state: &mut State| state.traffic == Traffic::Hold && !state.over;
            let traffic = self.wait_while(hold).traffic;
            let is_answer = direction == Direction::Answers;
            has_lost |= traffic == Traffic::SwallowAll;
            has_lost |= traffic == Traffic::SwallowAnswers && is_answer;
            if has_lost {
                let mut state = self.state();
                state.swallowed += 1;
                state.swallowed_answers += usize::from(is_answer);
                self.changed.notify_all();
                continue;
            }
            self.delay(traffic, read);
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
            self.state().forwarded_requests += usize::from(!is_answer);
        }
        // TCP reports no end after a gap.
        if !has_lost {
            let _ = to.shutdown(Shutdown::Both);
        }
        let _ = from.shutdown(Shutdown::Both);
    }

    fn delay(&self, traffic: Traffic, bytes: usize) {
        let delay = match traffic {
            Traffic::Delay(delay) => delay,
            Traffic::Throttle(rate) => Duration::from_secs(bytes as u64) / rate.max(1),
            _ => return,
        };
        self.state().delayed += 1;
        thread::sleep(delay);
    }

    fn while_kept(&self, number: usize) {
        let mut state = self.state();
        if state.keeping == Some(number) {
            state.kept_requests += 1;
            let kept = |state: &mut State| state.keeping == Some(number) && !state.over;
            drop(self.changed.wait_while(state, kept));
        }
    }
}
