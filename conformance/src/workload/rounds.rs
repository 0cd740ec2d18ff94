use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Error, ErrorKind, Fault, Guard, Locks, Mode, Owner, Request,
    Result, Ticket,
};

use crate::failure::Failure;
use crate::history::journal::Event;

use super::held::Held;
use super::holding::{End, time};
use super::plan::Work;
use super::process::{Asked, Client, Process};
use super::random::Random;

const PERMITS: u32 = 3;

const MILLISECOND: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
struct Choices {
    name: String,
    /// `None` for a single attempt.
    wait: Option<Duration>,
    fixed: bool,
    max_hold: Option<Duration>,
    /// When the request's future is dropped, counted from its start.
    patience: Option<Duration>,
    time: Duration,
    end: End,
}

impl Choices {
    fn of(process: &Process, work: Work, random: &mut Random) -> Self {
        let ttl = process.plan.ttl;
        let mut choices = Self {
            name: random.one_of(&process.plan.names).clone(),
            wait: (!random.one_in(4)).then(|| random.time(10 * MILLISECOND, ttl * 3)),
            fixed: random.one_in(10),
            max_hold: random.one_in(16).then(|| random.time(5 * MILLISECOND, ttl)),
            patience: None,
            time: time(random, ttl),
            end: End::any(random),
        };
        if choices.fixed && random.one_in(2) {
            choices.time = ttl * 2;
        }
        if work == Work::DroppedFutures {
            choices.patience = random.one_in(2).then(|| random.time(Duration::ZERO, ttl / 4));
            choices.end = End::DroppedRelease(random.time(Duration::ZERO, 5 * MILLISECOND));
        }
        choices
    }

    fn asked(&self, mode: Mode) -> Asked<'_> {
        Asked { name: &self.name, mode, waits: self.wait.is_some(), owner: None }
    }

    async fn send<H: lockwright_core::Held>(
        &self,
        mut request: Request<H>,
        held: impl FnOnce(H) -> Held,
    ) -> Result<Option<Held>> {
        if self.fixed {
            request = request.fixed();
        }
        if let Some(time) = self.max_hold {
            request = request.max_hold(time);
        }
        match self.wait {
            Some(limit) => request.wait_for(limit).acquire().await.map(|handle| Some(held(handle))),
            None => Ok(request.try_acquire().await?.map(held)),
        }
    }
}

impl Process {
    pub(super) async fn round(&self, work: Work, random: &mut Random) -> Result<(), Failure> {
        let choices = Choices::of(self, work, random);
        let client = self.client();
        match work {
            Work::Multi => self.several(&client, &choices, random).await,
            Work::Ticket if random.one_in(2) => self.give_away(&client, &choices, random).await,
            Work::Ticket => self.take_over(&client, &choices, random).await,
            Work::Break => self.break_one(&client.locks, &choices, random).await,
            Work::Reentrancy => self.twice(&client, &choices, random).await,
            Work::Close => {
                self.close_and_reopen();
                Ok(())
            }
            _ => self.one(&client, work, choices, random).await,
        }
    }

    async fn one(
        &self,
        client: &Client,
        work: Work,
        mut choices: Choices,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let locks = &client.locks;
        let mode = match work {
            Work::Readers if random.one_in(4) => Mode::Exclusive,
            Work::Readers => Mode::Shared,
            Work::Permits => {
                choices.name += "/permits";
                // Every other process gives a larger size.
                let of = PERMITS + self.plan.process % 2;
                Mode::Permits { count: 1 + random.below(2) as u32, of }
            }
            _ => Mode::Exclusive,
        };
        let value = random.below(1_000).to_string();
        let name = &choices.name;
        // Without recalls, nothing is drawn, so that other backends' seeds keep their meaning.
        let keep_warm = (locks.profile().recalls && random.one_in(3))
            .then(|| random.time(MILLISECOND, self.plan.ttl));
        let request = async {
            match (mode, work) {
                (Mode::Permits { count, of }, _) => {
                    choices.send(locks.semaphore(name, of).permits(count), Held::Permit).await
                }
                (Mode::Shared, _) => choices.send(locks.read(name), Held::Guard).await,
                (_, Work::Election) => {
                    let campaign = locks.election(name).campaign(value);
                    choices.send(campaign, Held::Leadership).await
                }
                _ => {
                    let request = locks.mutex(name);
                    let request = match keep_warm {
                        Some(time) => request.keep_warm(time),
                        None => request,
                    };
                    choices.send(request, Held::Guard).await
                }
            }
        };
        let request = self.request(client, choices.asked(mode), request);
        let Some(holding) = self.for_a_while(choices.patience, request).await? else {
            return Ok(());
        };
        if random.one_in(10) {
            drop(holding.held().renew().await);
        }
        let holdings = vec![holding];
        self.hold(&holdings, choices.time, random).await?;
        self.end(holdings, choices.end).await;
        Ok(())
    }

    async fn for_a_while<T>(
        &self,
        patience: Option<Duration>,
        request: impl Future<Output = Result<Option<T>, Failure>>,
    ) -> Result<Option<T>, Failure> {
        let Some(patience) = patience else { return request.await };
        tokio::select! {
            biased;
            answer = request => answer,
            () = self.sleep(patience) => Ok(None),
        }
    }

    /// The journal shows the first hold only after both grants, and the checker limits times
    /// without a holder, so the wait is short.
    async fn several(
        &self,
        client: &Client,
        choices: &Choices,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let names = &self.plan.names;
        let second = names.iter().find(|name| **name != choices.name).unwrap_or(&choices.name);
        let mut both = vec![choices.name.as_str(), second];
        both.dedup();
        let limit = random.time(MILLISECOND, self.plan.ttl / 8);
        let request = client.locks.multi(&both).wait_for(limit);
        let asked: Vec<_> = both
            .iter()
            .map(|name| Asked { name, mode: Mode::Exclusive, waits: false, owner: None })
            .collect();
        let request = async {
            let mut guards = request.acquire().await?.into_guards();
            let place = |guard: &Guard| both.iter().position(|name| *name == guard.name());
            guards.sort_by_key(place);
            Ok(Some(guards.into_iter().map(Held::Guard).collect()))
        };
        let Some(holdings) = self.request_all(client, &asked, request).await? else {
            return Ok(());
        };
        self.hold(&holdings, choices.time, random).await?;
        self.end(holdings, choices.end).await;
        Ok(())
    }

    async fn twice(
        &self,
        client: &Client,
        choices: &Choices,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let (owner, name) = (Owner::new(), &choices.name);
        let send = |choices: Choices| {
            let request = client.locks.mutex(name).reentrant(&owner);
            async move { choices.send(request, Held::Guard).await }
        };
        let choices = Choices { fixed: false, max_hold: None, ..choices.clone() };
        let number = Some(self.next_number());
        let asked = Asked { owner: number, ..choices.asked(Mode::Exclusive) };
        let first = self.request(client, asked, send(choices.clone()));
        let Some(first) = first.await? else { return Ok(()) };
        let again = Choices { wait: None, ..choices.clone() };
        let asked = Asked { owner: number, ..again.asked(Mode::Exclusive) };
        let (mut same, mut another) = (None, None);
        if let Some(second) = self.request(client, asked, send(again.clone())).await? {
            let (one, two) = (first.held(), second.held());
            if one.token() != two.token() {
                // The first hold was lost.
                another = Some(second);
            } else if one.fence() == two.fence() {
                same = Some(second.forget());
            } else {
                let (one, two) = (one.fence(), two.fence());
                let message = format!("a second guard of a hold has the fence {two}, not {one}");
                return Err(Failure::new(message));
            }
        }
        let holdings = vec![first];
        self.hold(&holdings, choices.time, random).await?;
        drop(same);
        self.end(another.into_iter().collect(), End::Drop).await;
        self.end(holdings, choices.end).await;
        Ok(())
    }

    async fn give_away(
        &self,
        client: &Client,
        choices: &Choices,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let request = async { choices.send(client.locks.mutex(&choices.name), Held::Guard).await };
        let request = self.request(client, choices.asked(Mode::Exclusive), request).await?;
        let Some(holding) = request else { return Ok(()) };
        let holdings = vec![holding];
        if !self.hold(&holdings, choices.time, random).await? {
            return Ok(());
        }
        for holding in holdings {
            let Held::Guard(guard) = holding.end() else { continue };
            if let Ok(ticket) = guard.into_ticket() {
                self.store.leave(&serde_json::to_string(&ticket).map_err(std::io::Error::from)?)?;
            }
        }
        Ok(())
    }

    async fn take_over(
        &self,
        client: &Client,
        choices: &Choices,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let Some(text) = self.store.pick()? else { return Ok(()) };
        let ticket: Ticket = serde_json::from_str(&text).map_err(std::io::Error::from)?;
        let asked = Asked {
            name: ticket.name().as_str(),
            mode: Mode::Exclusive,
            waits: false,
            owner: None,
        };
        let request =
            async { client.locks.resume(&ticket).await.map(|guard| Some(Held::Guard(guard))) };
        let request = self.request(client, asked, request).await?;
        let Some(holding) = request else { return Ok(()) };
        if random.one_in(3) {
            self.store.leave(&text)?;
        }
        let holdings = vec![holding];
        self.hold(&holdings, choices.time, random).await?;
        self.end(holdings, choices.end).await;
        Ok(())
    }

    async fn break_one(
        &self,
        locks: &Locks,
        choices: &Choices,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let name = &choices.name;
        let at_once = random.one_in(2);
        let moment = random.time(Duration::ZERO, 30 * MILLISECOND);
        let Ok(seen) = locks.inspect(name).await else { return Ok(()) };
        let Some(token) = seen.holders.first().and_then(|holder| holder.token) else {
            return Ok(());
        };
        self.sleep(moment).await;
        let (number, seen) = (self.next_number(), BreakTarget::Token(token));
        let (broken, token) = (name.clone(), Some(token));
        self.journal.write(Event::Broke { number, name: broken, token, at_once });
        let how = if at_once { BreakMode::Now } else { BreakMode::RunOut };
        let answer = locks.break_lock(name, seen, how, "a test breaks locks").await;
        let broke = match &answer {
            // With several servers, two breaks can each free the hold on some, and both answer
            // `NotHeld`.
            Ok(Broken::NotHeld) => {
                let is_sure = !locks.profile().survives.contains(Fault::MinorityLoss);
                is_sure.then_some(false)
            }
            Ok(_) => Some(true),
            Err(error) => (!may_have_happened(error)).then_some(false),
        };
        if let Some(broke) = broke {
            self.journal.write(Event::BreakAnswered { number, broke });
        }
        match answer {
            Err(error) if error.kind() == ErrorKind::Unsupported => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn may_have_happened(error: &Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::Indeterminate | ErrorKind::TimedOut(_) | ErrorKind::Closed)
}
