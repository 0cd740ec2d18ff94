//! Nodes, links and messages on tokio's paused clock. One task delivers all messages in order, so
//! that each run of a seed gives the same schedule.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::{Error, Event, Events, LockName, Result, Token, async_trait};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::chance::Chance;
use crate::node::Link;
use crate::plan::{Fault, Plan, Weather};
use crate::server::{Answer, Micros, Request, Server};
use crate::trace::Trace;

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) messages: u64,
    /// Counts broken connections, crashed or paused clients, and messages that were late, lost,
    /// queued by a frozen node, or for an earlier incarnation.
    pub(crate) effects_of_faults: u64,
}

#[derive(Debug)]
pub(crate) struct Net {
    start: Instant,
    world: Mutex<World>,
    changed: Notify,
}

/// The resolution of tokio's timers.
const TICK: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct World {
    chance: Chance,
    plan: Plan,
    queue: BTreeMap<(Micros, u64), What>,
    outbox: Vec<Outgoing>,
    number: u64,
    calls: BTreeMap<u64, oneshot::Sender<Result<Answer>>>,
    nodes: Vec<Member>,
    links: Vec<Vec<Connection>>,
    clients: Vec<Process>,
    seen: Seen,
    trace: Trace,
}

#[derive(Debug)]
struct Outgoing {
    at: Micros,
    client: usize,
    node: usize,
    request: Request,
    answer: oneshot::Sender<Result<Answer>>,
}

#[derive(Debug)]
struct Member {
    server: Server,
    down: bool,
    frozen: bool,
    backlog: Vec<Letter>,
}

#[derive(Debug, Default)]
struct Connection {
    number: u64,
    /// The server's `run` (its number of restarts) when the connection was made.
    run: Option<u64>,
    /// When the latest message arrives. Later messages don't overtake it.
    last_arrival: Micros,
    cut_until: Micros,
    /// True if the client has reset its connection. It can't reconnect while the link is cut.
    given_up: bool,
    /// The connection on which the client last received an incarnation, and the incarnation's
    /// `run`.
    looked: Option<(u64, String)>,
}

#[derive(Debug, Default)]
struct Process {
    has_crashed: bool,
    paused_until: Micros,
    events: Option<Events>,
    tasks: Vec<AbortHandle>,
}

#[derive(Debug, Clone)]
struct Letter {
    /// The number of the call, or `None` for a second delivery.
    call: Option<u64>,
    client: usize,
    node: usize,
    connection: u64,
    run: u64,
    request: Arc<Request>,
}

#[derive(Debug)]
enum What {
    Send { call: u64, client: usize, node: usize, request: Arc<Request> },
    Arrive(Letter),
    Reply(Letter, Result<Answer>),
    Fail { call: u64, client: usize, error: Error },
    // The client detects that a connection is gone.
    Reset { client: usize, node: usize, connection: u64 },
    Notify { client: usize, event: Event },
    Fault(Fault),
    Thaw { node: usize },
    Up { node: usize },
}

fn micros(duration: Duration) -> Micros {
    duration.as_micros() as u64
}

impl Net {
    pub(crate) fn new(plan: &Plan, chance: Chance, trace: Trace) -> Arc<Self> {
        let nodes = plan.nodes.iter().enumerate().map(|(number, node)| {
            let (keeps, ttl, flaws) = (node.keeps_every_write, plan.largest_ttl, plan.flaws);
            let server = Server::new(number, keeps, ttl, node.rate, flaws);
            let server = if plan.fresh { server } else { server.seasoned() };
            Member { server, down: false, frozen: false, backlog: Vec::new() }
        });
        let mut world = World {
            chance,
            plan: plan.clone(),
            queue: BTreeMap::new(),
            outbox: Vec::new(),
            number: 0,
            calls: BTreeMap::new(),
            nodes: nodes.collect(),
            links: Vec::new(),
            clients: Vec::new(),
            seen: Seen::default(),
            trace,
        };
        for (at, fault) in &plan.faults {
            world.push(*at, What::Fault(*fault));
        }
        Arc::new(Self { start: Instant::now(), world: Mutex::new(world), changed: Notify::new() })
    }

    pub(crate) fn add_client(&self) -> usize {
        let mut world = self.world();
        let links = world.nodes.iter().map(|_| Connection::default()).collect();
        world.links.push(links);
        world.clients.push(Process::default());
        world.clients.len() - 1
    }

    pub(crate) fn add_task(&self, client: usize, task: AbortHandle) {
        self.world().clients[client].tasks.push(task);
    }

    pub(crate) fn is_alive(&self, client: usize) -> bool {
        !self.world().clients[client].has_crashed
    }

    pub(crate) fn now(&self) -> Micros {
        micros(self.start.elapsed())
    }

    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        let now = self.now();
        self.world().trace.note(now, text);
    }

    pub(crate) async fn resumed(&self, client: usize) {
        loop {
            let until = self.world().clients[client].paused_until;
            let now = self.now();
            if until <= now {
                return;
            }
            tokio::time::sleep(Duration::from_micros(until - now)).await;
        }
    }

    /// Delivers messages forever.
    ///
    /// Each delivery follows a sleep, which on the paused clock ends only when all tasks are idle.
    /// So tokio's order of tasks doesn't change the schedule.
    pub(crate) async fn deliver(self: Arc<Self>) {
        loop {
            let now = self.now();
            let (notices, ended, next) = {
                let mut world = self.world();
                let (mut notices, mut ended) = (Vec::new(), Vec::new());
                world.post();
                while let Some((at, what)) = world.pop(now) {
                    // Use the due time, because timers may be up to 1 ms late.
                    world.happen(at, what, &mut notices, &mut ended);
                }
                (notices, ended, world.queue.keys().next().map(|(at, _)| *at))
            };
            ended.iter().for_each(AbortHandle::abort);
            for (events, event) in notices {
                events.send(event);
            }
            let changed = self.changed.notified();
            match next {
                None => changed.await,
                Some(next) => {
                    let left = Duration::from_micros(next.saturating_sub(now)).max(TICK);
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep(left) => continue,
                    }
                }
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Ends all faults, and delivers messages in flight.
    pub(crate) fn mend(&self) {
        let now = self.now();
        let mut world = self.world();
        world.trace.note(now, || "trouble is over".to_owned());
        world.plan.weather = Weather::CALM;
        for what in std::mem::take(&mut world.queue).into_values() {
            if !matches!(what, What::Fault(_)) {
                world.push(now, what);
            }
        }
        for node in 0..world.nodes.len() {
            world.nodes[node].down = false;
            world.thaw(now, node);
        }
        for links in &mut world.links {
            for link in links {
                (link.cut_until, link.given_up) = (0, false);
                link.last_arrival = link.last_arrival.min(now);
            }
        }
        for client in &mut world.clients {
            client.paused_until = 0;
        }
        drop(world);
        self.changed.notify_one();
    }

    pub(crate) fn locked(&self) -> Vec<(usize, LockName, Token)> {
        let now = self.now();
        let mut world = self.world();
        let nodes = world.nodes.iter_mut().enumerate();
        let locked = nodes.flat_map(|(number, node)| {
            let locked = node.server.locked(now).into_iter();
            locked.map(move |(name, token)| (number, name, token))
        });
        locked.collect()
    }

    pub(crate) fn finish(&self) -> (Seen, Trace) {
        let mut world = self.world();
        let mut seen = world.seen;
        seen.effects_of_faults += world.nodes.iter().map(|node| node.server.strangers).sum::<u64>();
        (seen, std::mem::take(&mut world.trace))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct NetLink {
    pub(crate) net: Arc<Net>,
    pub(crate) client: usize,
    pub(crate) node: usize,
}

#[async_trait]
impl Link for NetLink {
    fn attach(&self, events: Events) {
        self.net.world().clients[self.client].events = Some(events);
    }

    /// Sends a request and waits for the reply, which may never arrive. If the caller drops the
    /// future after its first poll, the request continues.
    async fn call(&self, request: Request) -> Result<Answer> {
        let Self { ref net, client, node } = *self;
        let (answer, answered) = oneshot::channel();
        let at = net.now();
        net.world().outbox.push(Outgoing { at, client, node, request, answer });
        net.changed.notify_one();
        match answered.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }

    fn has_seen(&self, run: &str) -> bool {
        let world = self.net.world();
        let connection = &world.links[self.client][self.node];
        let looked = connection.looked.as_ref();
        looked.is_some_and(|(at, seen)| *at == connection.number && seen == run)
    }

    fn number(&self) -> Micros {
        self.net.now() << 8 | self.client as u64
    }
}

impl World {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn push(&mut self, at: Micros, what: What) {
        let number = self.next();
        self.queue.insert((at, number), what);
    }

    fn pop(&mut self, now: Micros) -> Option<(Micros, What)> {
        let due = self.queue.first_entry().filter(|due| due.key().0 <= now)?;
        let ((at, _), what) = due.remove_entry();
        Some((at, what))
    }

    /// Sends the outbox's messages, in an order independent of tokio's order of tasks.
    fn post(&mut self) {
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.sort_by_key(|sent| (sent.at, sent.client, sent.node, sent.request.rank()));
        for Outgoing { at, client, node, request, answer } in outbox {
            let (call, request) = (self.next(), Arc::new(request));
            self.calls.insert(call, answer);
            let paused_until = self.clients[client].paused_until;
            if paused_until > at {
                self.push(paused_until, What::Send { call, client, node, request });
            } else {
                self.send(at, call, client, node, request);
            }
        }
    }

    fn travel(&mut self) -> Duration {
        let Weather { slow, very_slow, usual, .. } = self.plan.weather;
        if self.chance.permille(very_slow) {
            self.seen.effects_of_faults += 1;
            self.chance.time(self.plan.largest_ttl * 2)
        } else if self.chance.permille(slow) {
            self.seen.effects_of_faults += 1;
            self.chance.time(self.plan.node_timeout * 4)
        } else {
            self.chance.time(usual)
        }
    }

    fn fail(&mut self, now: Micros, call: u64, client: usize, error: Error) {
        let at = now + micros(self.chance.time(self.plan.weather.usual));
        self.push(at, What::Fail { call, client, error });
    }

    fn send(&mut self, now: Micros, call: u64, client: usize, node: usize, request: Arc<Request>) {
        if self.clients[client].has_crashed {
            self.calls.remove(&call);
            return;
        }
        self.seen.messages += 1;
        let is_cut = self.links[client][node].cut_until > now;
        let connected = self.links[client][node].run.is_some();
        let refused = !connected && self.nodes[node].down;
        if refused || (is_cut && self.links[client][node].given_up) {
            self.seen.effects_of_faults += 1;
            self.trace.note(now, || format!("c{client}>n{node} #{call} can't be sent"));
            return self.fail(now, call, client, Error::unavailable("no connection"));
        }
        let present = self.nodes[node].server.run;
        let link = &mut self.links[client][node];
        link.given_up = false;
        let run = *link.run.get_or_insert(present);
        let connection = link.number;
        let letter = Letter { call: Some(call), client, node, connection, run, request };
        if is_cut || self.chance.permille(self.plan.weather.request_lost) {
            self.seen.effects_of_faults += 1;
            self.trace
                .note(now, || format!("c{client}>n{node} #{call} {} is lost", letter.shown()));
            return self.lose(now, &letter);
        }
        let breaks = self.chance.permille(self.plan.weather.connection_breaks);
        let takes = self.travel();
        let link = &mut self.links[client][node];
        let at = link.last_arrival.max(now + micros(takes));
        link.last_arrival = at;
        self.trace.note(now, || {
            let late = if breaks { ", the connection breaks" } else { "" };
            format!(
                "c{client}>n{node} #{call} {}, on its way for {}{late}",
                letter.shown(),
                at - now
            )
        });
        if breaks {
            self.seen.effects_of_faults += 1;
            self.fail(now, call, client, broken());
            self.reset(client, node, connection);
        } else if takes > self.plan.node_timeout * 4 && self.chance.one_in(2) {
            let at = now + micros(self.chance.time(self.plan.largest_ttl / 2));
            self.push(at, What::Reset { client, node, connection });
        }
        let doubled = match *letter.request {
            Request::Attempt { .. } | Request::Raise { .. } | Request::Renew { .. } => true,
            Request::Release { .. } => self.plan.doubles_releases,
            _ => false,
        };
        if doubled && self.chance.permille(self.plan.weather.doubled) {
            let later = at + micros(self.chance.time(self.plan.largest_ttl * 2));
            self.trace.note(now, || format!("   and again in {}", later - now));
            self.push(later, What::Arrive(Letter { call: None, ..letter.clone() }));
        }
        self.push(at, What::Arrive(letter));
    }

    /// Loses a message. Either the client later resets the connection and the call fails, or the
    /// call never gets a reply.
    fn lose(&mut self, now: Micros, letter: &Letter) {
        let Letter { client, node, connection, .. } = *letter;
        if self.chance.one_in(2) {
            let at = now
                + micros(self.plan.node_timeout * 3 + self.chance.time(self.plan.largest_ttl / 2));
            self.push(at, What::Reset { client, node, connection });
            if let Some(call) = letter.call {
                self.push(at, What::Fail { call, client, error: broken() });
            }
        } else if let Some(call) = letter.call {
            self.calls.remove(&call);
        }
    }

    fn reset(&mut self, client: usize, node: usize, connection: u64) {
        let link = &mut self.links[client][node];
        if link.number == connection {
            link.number += 1;
            link.run = None;
            link.last_arrival = 0;
            link.given_up = true;
        }
    }

    fn happen(
        &mut self,
        now: Micros,
        what: What,
        notices: &mut Vec<(Events, Event)>,
        ended: &mut Vec<AbortHandle>,
    ) {
        match what {
            What::Send { call, client, node, request } => {
                self.send(now, call, client, node, request)
            }
            What::Arrive(letter) => self.arrive(now, letter),
            What::Reply(letter, answer) => self.reply(now, letter, answer),
            What::Fail { call, client, error } => {
                let Process { has_crashed, paused_until, .. } = self.clients[client];
                if paused_until > now {
                    self.push(paused_until, What::Fail { call, client, error });
                } else if let Some(sender) = self.calls.remove(&call).filter(|_| !has_crashed) {
                    self.trace.note(now, || format!("c{client} #{call} fails: {error}"));
                    let _ = sender.send(Err(error));
                }
            }
            What::Reset { client, node, connection } => self.reset(client, node, connection),
            What::Notify { client, event } => {
                let process = &self.clients[client];
                if process.paused_until > now {
                    self.push(process.paused_until, What::Notify { client, event });
                } else if let Some(events) = process.events.clone().filter(|_| !process.has_crashed)
                {
                    notices.push((events, event));
                }
            }
            What::Fault(fault) => self.befall(now, fault, ended),
            What::Thaw { node } => self.thaw(now, node),
            What::Up { node } => {
                self.trace.note(now, || format!("n{node} is up again"));
                self.nodes[node].down = false;
            }
        }
    }

    fn arrive(&mut self, now: Micros, letter: Letter) {
        let member = &mut self.nodes[letter.node];
        if member.down || member.server.run != letter.run {
            self.seen.effects_of_faults += 1;
            return self.refuse(now, &letter);
        }
        if member.frozen {
            self.seen.effects_of_faults += 1;
            member.backlog.push(letter);
            return;
        }
        let (answer, event) = member.server.execute(&letter.request, now);
        self.trace.note(now, || {
            let Letter { client, node, .. } = letter;
            let call = letter.call.map_or("again".to_owned(), |call| format!("#{call}"));
            format!("n{node} from c{client} {call} {}: {}", letter.shown(), shown(&answer))
        });
        if let Some(event) = event {
            for client in 0..self.clients.len() {
                let lost = self.chance.permille(self.plan.weather.reply_lost);
                if self.links[client][letter.node].cut_until <= now && !lost {
                    let at = now + micros(self.travel());
                    self.push(at, What::Notify { client, event: event.clone() });
                }
            }
        }
        if letter.call.is_some() {
            let is_cut = self.links[letter.client][letter.node].cut_until > now;
            if is_cut || self.chance.permille(self.plan.weather.reply_lost) {
                self.seen.effects_of_faults += 1;
                self.trace.note(now, || "   the answer is lost".to_owned());
                return self.lose(now, &letter);
            }
            let at = now + micros(self.travel());
            self.push(at, What::Reply(letter, Ok(answer)));
        }
    }

    fn refuse(&mut self, now: Micros, letter: &Letter) {
        let Letter { client, node, connection, .. } = *letter;
        self.push(now, What::Reset { client, node, connection });
        if let Some(call) = letter.call {
            self.fail(now, call, client, broken());
        }
    }

    fn reply(&mut self, now: Micros, letter: Letter, answer: Result<Answer>) {
        let Letter { call, client, node, connection, .. } = letter;
        let Process { has_crashed, paused_until, .. } = self.clients[client];
        if paused_until > now {
            return self.push(paused_until, What::Reply(letter, answer));
        }
        let link = &mut self.links[client][node];
        let answer = if link.number == connection { answer } else { Err(broken()) };
        if let Ok(Answer::Incarnation(incarnation)) = &answer {
            link.looked = Some((connection, incarnation.run.clone()));
        }
        let call = call.unwrap_or_default();
        if let Some(sender) = self.calls.remove(&call).filter(|_| !has_crashed) {
            self.trace.note(now, || {
                let told = if sender.is_closed() { "comes too late" } else { "is answered" };
                format!("c{client}<n{node} #{call} {told}")
            });
            let _ = sender.send(answer);
        }
    }

    fn befall(&mut self, now: Micros, fault: Fault, ended: &mut Vec<AbortHandle>) {
        self.trace.note(now, || format!("{fault:?}"));
        match fault {
            Fault::Freeze { node, lasts } => {
                self.nodes[node].frozen = true;
                self.push(now + micros(lasts), What::Thaw { node });
            }
            Fault::Cut { client, node, lasts } => {
                self.links[client][node].cut_until = now + micros(lasts);
            }
            Fault::Snapshot { node } => self.nodes[node].server.take_snapshot(),
            Fault::Restart { node, how, down } => {
                let member = &mut self.nodes[node];
                member.server.restart(how);
                (member.down, member.frozen) = (true, false);
                for letter in std::mem::take(&mut member.backlog) {
                    self.refuse(now, &letter);
                }
                for client in 0..self.links.len() {
                    let connection = self.links[client][node].number;
                    let at = now + micros(self.chance.time(self.plan.weather.usual));
                    self.push(at, What::Reset { client, node, connection });
                }
                self.push(now + micros(down), What::Up { node });
            }
            Fault::Flush { node } => self.nodes[node].server.lose_data(),
            Fault::ClockStep { node, by } => self.nodes[node].server.step_clock(by),
            Fault::Crash { client } => {
                self.seen.effects_of_faults += 1;
                self.clients[client].has_crashed = true;
                ended.append(&mut self.clients[client].tasks);
            }
            Fault::Pause { client, lasts } => {
                self.seen.effects_of_faults += 1;
                self.clients[client].paused_until = now + micros(lasts);
            }
        }
    }

    fn thaw(&mut self, now: Micros, node: usize) {
        let member = &mut self.nodes[node];
        if std::mem::take(&mut member.frozen) {
            let backlog = std::mem::take(&mut member.backlog);
            self.trace.note(now, || format!("n{node} thaws, with {} to do", backlog.len()));
            for letter in backlog {
                self.arrive(now, letter);
            }
        }
    }
}

impl Letter {
    fn shown(&self) -> String {
        match &*self.request {
            Request::Look { .. } => "look".to_owned(),
            Request::Admit { seen, .. } => format!("admit [{seen}]"),
            Request::Attempt { claim, candidate, incarnation, .. } => {
                format!("attempt {} {} C={candidate} [{incarnation}]", claim.name, tag(claim.token))
            }
            Request::Raise { claim, fence, .. } => {
                format!("raise {} {} F={fence}", claim.name, tag(claim.token))
            }
            Request::Renew { holds, .. } => {
                let tags: Vec<_> = holds.iter().map(|claim| tag(claim.token)).collect();
                format!("renew {}", tags.join(" "))
            }
            Request::Release { claim, release_mode } => {
                format!("release {} {} {release_mode:?}", claim.name, tag(claim.token))
            }
            request => format!("{request:?}"),
        }
    }
}

/// Formats a token as its client's number and a serial number.
pub(crate) fn tag(token: Token) -> String {
    let bytes = token.as_bytes();
    format!("c{}t{}", bytes[0], u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]))
}

fn shown(answer: &Answer) -> String {
    use lockwright_redlock::node::Vote;
    match answer {
        Answer::Incarnation(incarnation) => format!("[{}]", incarnation.text),
        Answer::Vote(Vote::Yes(yes)) if yes.repeated => format!("yes again F={}", yes.fence),
        Answer::Vote(Vote::Yes(yes)) => format!("yes F={}", yes.fence),
        Answer::Vote(Vote::No(no)) => {
            let holder = no.holder.as_ref().and_then(|holder| holder.token).map(tag);
            format!("no, {} holds", holder.unwrap_or_default())
        }
        Answer::Vote(vote) => format!("{vote:?}"),
        Answer::Raised(raised) => format!("{raised}"),
        Answer::Renewed(renewed) => format!("{renewed:?}"),
        Answer::Ended(ended) => format!("{ended:?}"),
        answer => format!("{answer:?}"),
    }
}

fn broken() -> Error {
    Error::indeterminate("the connection broke")
}
