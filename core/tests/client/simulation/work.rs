//! A random step of a task: request, hold and end.

use std::sync::atomic::Ordering;

use lockwright_core::Held;
use lockwright_core::{ErrorKind, Guard, Request, Result};
use tokio::time::{sleep, timeout};

use super::holders::Grant;
use super::world::{Client, LOCKS, PERMITS, SEMAPHORE, World, count};
use crate::support::{millis, secs};

impl World {
    pub(super) async fn one_step(&self) {
        match self.chance.below(5) {
            0 if self.plan.permits => self.one_permit().await,
            1 if self.plan.tickets => self.one_resumption().await,
            2 | 3 if self.plan.readers => self.one_guard(false).await,
            _ => self.one_guard(true).await,
        }
    }

    async fn one_guard(&self, writes: bool) {
        let (name, client) = (self.chance.of(&LOCKS), self.client());
        let request = if writes { client.locks.mutex(name) } else { client.locks.read(name) };
        let Some(guard) = self.request(&client, request).await else {
            return sleep(self.chance.millis_below(50)).await;
        };
        self.join(Grant::of_guard(name, &guard));
        self.keep(name, guard).await;
    }

    async fn one_permit(&self) {
        let client = self.client();
        let count = self.chance.below(u64::from(PERMITS)) as u32 + 1;
        let request = client.locks.semaphore(SEMAPHORE, PERMITS).permits(count);
        let Some(permit) = self.request(&client, request).await else {
            return sleep(self.chance.millis_below(50)).await;
        };
        self.join(Grant::of_permit(SEMAPHORE, &permit));
        self.work().await;
        match self.chance.below(3) {
            0 => drop(permit),
            1 => drop(timeout(self.chance.millis_below(200), permit.release()).await),
            _ => drop(permit.release().await),
        }
    }

    async fn request<H: Held>(&self, client: &Client, request: Request<H>) -> Option<H> {
        let request = self.with_options(request);
        let at_once = self.chance.one_in(4);
        let is_dropped = self.chance.one_in(3);
        let limit = if is_dropped { self.chance.millis_below(1_500) } else { secs(60) };
        let answer = if at_once {
            let answer = client.admits(request.try_acquire(), Option::is_some);
            timeout(limit, answer).await.ok()?
        } else {
            let answer = client.admits(request.acquire(), |_| true);
            timeout(limit, answer).await.ok()?.map(Some)
        };
        self.note_closed(&answer);
        answer.ok().flatten()
    }

    fn with_options<H: Held>(&self, mut request: Request<H>) -> Request<H> {
        let chance = &self.chance;
        if chance.one_in(3) {
            request = request.reentrant(self.owner());
        }
        if chance.one_in(4) {
            request = request.ttl(secs(3));
        }
        if chance.one_in(6) {
            request = request.fixed();
        }
        if chance.one_in(3) {
            request = request.wait_for(chance.millis_below(4_000));
        }
        if chance.one_in(8) {
            request = request.retry(3, millis(200));
        }
        request
    }

    fn note_closed<T>(&self, answer: &Result<T>) {
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed) {
            count(&self.seen.turned_away);
        }
    }

    fn join(&self, grant: Grant) {
        count(&self.seen.grants);
        self.seen
            .handed
            .fetch_add(u64::from(self.server.was_handed(grant.token)), Ordering::SeqCst);
        self.holders.join(grant);
    }

    async fn work(&self) {
        if self.chance.one_in(2) {
            let longest = if self.chance.one_in(5) { 6_000 } else { 300 };
            sleep(self.chance.millis_below(longest)).await;
        }
    }

    async fn keep(&self, name: &'static str, guard: Guard) {
        self.work().await;
        if self.chance.one_in(6) {
            let _ = timeout(self.chance.millis_below(100), guard.renew()).await;
        }
        match self.chance.below(6) {
            0 => drop(guard),
            1 => drop(timeout(self.chance.millis_below(200), guard.release()).await),
            2 | 3 if self.plan.tickets => {
                if let Ok(ticket) = guard.into_ticket() {
                    self.tickets.lock().unwrap().push((name, ticket));
                }
            }
            _ => drop(guard.release().await),
        }
    }

    async fn one_resumption(&self) {
        let (name, ticket) = {
            let mut tickets = self.tickets.lock().unwrap();
            let Some((name, ticket)) = tickets.pop() else { return };
            if self.chance.one_in(3) {
                tickets.push((name, ticket.clone()));
            }
            (name, ticket)
        };
        let client = self.client();
        let limit = if self.chance.one_in(4) { self.chance.millis_below(500) } else { secs(60) };
        let answer = client.admits(client.locks.resume(&ticket), |_| true);
        let Ok(answer) = timeout(limit, answer).await else { return };
        self.note_closed(&answer);
        let Ok(guard) = answer else { return };
        count(&self.seen.resumed);
        self.join(Grant::of_guard(name, &guard));
        self.keep(name, guard).await;
    }
}
