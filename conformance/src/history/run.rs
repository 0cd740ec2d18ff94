use std::collections::{BTreeSet, HashMap};

use lockwright_core::{BootInstant, Mode, Token};

use super::hold::{Hold, seconds};
use super::journal::{Entry, Event};
use super::process::Process;
pub(crate) use super::tracked::{End, Tracked};
use super::violation::{Rule, Violation, Write};

#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) start: BootInstant,
    pub(crate) end: BootInstant,
    pub(crate) requests: Vec<Request>,
    pub(crate) holds: Vec<Tracked>,
    pub(crate) writes: Vec<WriteOf>,
    pub(crate) uses: Vec<UseOf>,
    pub(crate) faults: Vec<FaultSpan>,
    pub(crate) processes: HashMap<String, Process>,
    pub(crate) operations: u64,
    pub(crate) problems: Vec<Violation>,
    by_token: HashMap<(String, Token), usize>,
    by_request: HashMap<(String, u64), usize>,
    pub(crate) breaks: Vec<Break>,
}

#[derive(Debug)]
pub(crate) struct Break {
    by: (String, u64),
    pub(crate) at: BootInstant,
    pub(crate) name: String,
    token: Option<Token>,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) who: String,
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) waits: bool,
    pub(crate) owner: Option<u64>,
    pub(crate) asked: BootInstant,
    pub(crate) ended: Option<BootInstant>,
    pub(crate) hold: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct WriteOf {
    pub(crate) hold: usize,
    pub(crate) write: Write,
    pub(crate) checked: Option<BootInstant>,
}

#[derive(Debug)]
pub(crate) struct UseOf {
    pub(crate) as_recorded: Hold,
    pub(crate) at: BootInstant,
    pub(crate) by: Use,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// `check()` found the hold valid.
    Checked,
    Renewed,
}

#[derive(Debug)]
pub(crate) struct FaultSpan {
    pub(crate) fault: String,
    pub(crate) target: String,
    pub(crate) from: BootInstant,
    pub(crate) to: Option<BootInstant>,
    pub(crate) effect: Option<String>,
}

impl Run {
    /// The entries must be sorted by timestamp.
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let at = |entry: Option<&Entry>| entry.map_or(BootInstant::from_nanos(0), |entry| entry.at);
        let (start, end) = (at(entries.first()), at(entries.last()));
        let mut run = Self { start, end, ..Self::default() };
        for entry in entries {
            run.add(entry);
        }
        run.mark_broken();
        run
    }

    pub(crate) fn process(&self, who: &str) -> &Process {
        &self.processes[who]
    }

    pub(crate) fn since(&self, instant: BootInstant) -> f64 {
        seconds(self.start, instant)
    }

    pub(crate) fn names(&self) -> BTreeSet<&String> {
        self.requests.iter().map(|request| &request.name).collect()
    }

    pub(crate) fn wait_end(&self, request: &Request) -> BootInstant {
        let process = self.process(&request.who);
        let ends = [request.ended, process.killed, process.ended];
        ends.into_iter().flatten().min().unwrap_or(self.end)
    }

    fn add(&mut self, entry: &Entry) {
        let process = self.processes.entry(entry.process.clone()).or_default();
        process.last = Some(entry.at);
        if process.killed.is_some() {
            self.problem(
                entry,
                "wrote after it was killed; give a process that is started again a new name",
            );
        }
        self.operations += u64::from(matches!(
            entry.event,
            Event::Asked { .. }
                | Event::Renewed { .. }
                | Event::Releasing { .. }
                | Event::Wrote { .. }
                | Event::Broke { .. }
        ));
        match &entry.event {
            Event::Asked { .. } => self.asked(entry),
            Event::Granted { .. } => self.granted(entry),
            Event::Failed { request, .. } => {
                self.end_request(entry, *request);
            }
            Event::Renewed { token, deadline } => self.renewed(entry, *token, *deadline),
            Event::Releasing { token } => self.finish(entry, *token, End::Releasing),
            Event::Lost { token, reason } => {
                self.finish(entry, *token, End::Lost(entry.at, *reason));
            }
            Event::Writing { token, looked, late } => self.writing(entry, *token, *looked, *late),
            Event::Wrote { .. } => self.wrote(entry),
            Event::Broke { number, name, token, at_once: true } => {
                let (by, name) = ((entry.process.clone(), *number), name.clone());
                self.breaks.push(Break { by, at: entry.at, name, token: *token });
            }
            Event::BreakAnswered { number, broke: false } => {
                self.breaks.retain(|one| one.by != (entry.process.clone(), *number));
            }
            Event::Broke { .. } | Event::BreakAnswered { .. } => {}
            Event::Delayed { since } => {
                let process = self.processes.entry(entry.process.clone()).or_default();
                process.delays.push((*since, entry.at));
            }
            Event::Ended => self.process_ended(entry),
            Event::Fault { .. } => self.fault(entry),
            Event::Signalled { target, signal } => {
                self.processes.entry(target.clone()).or_default().signalled(entry.at, *signal);
            }
        }
    }

    fn problem(&mut self, entry: &Entry, problem: &str) {
        let violation = Violation::new(Rule::BadJournal, "the journal is wrong");
        let (who, at) = (&*entry.process, entry.at);
        self.problems.push(violation.by(&[who]).at(at, at).note(format!("{who} {problem}")));
    }

    fn asked(&mut self, entry: &Entry) {
        let Event::Asked { request, name, mode, waits, owner } = &entry.event else { return };
        let key = (entry.process.clone(), *request);
        if self.by_request.insert(key, self.requests.len()).is_some() {
            self.problem(entry, &format!("has two requests with the number {request}"));
        }
        self.requests.push(Request {
            who: entry.process.clone(),
            name: name.clone(),
            mode: *mode,
            waits: *waits,
            owner: *owner,
            asked: entry.at,
            ended: None,
            hold: None,
        });
    }

    fn end_request(&mut self, entry: &Entry, number: u64) -> Option<usize> {
        let key = (entry.process.clone(), number);
        let found = self.by_request.get(&key).copied();
        match found {
            Some(index) if self.requests[index].ended.is_none() => {
                self.requests[index].ended = Some(entry.at);
            }
            Some(_) => self.problem(entry, &format!("ended request {number} twice")),
            None => self.problem(entry, &format!("ended request {number} without asking")),
        }
        found
    }

    fn granted(&mut self, entry: &Entry) {
        let Event::Granted { request, token, fence, deadline } = &entry.event else { return };
        let Some(index) = self.end_request(entry, *request) else { return };
        let key = (entry.process.clone(), *token);
        let owner = self.requests[index].owner;
        let with_token = self.by_token.get(&key).copied();
        let handed_over = with_token.filter(|&from| self.holds[from].hold.fence < *fence);
        let known = with_token.filter(|&known| {
            let known = &self.holds[known];
            owner.is_some() && known.owner == owner && known.hold.fence == *fence
        });
        if let Some(known) = known {
            let tracked = &self.holds[known];
            let is_lost = matches!(tracked.end, Some(End::Lost(..)));
            if is_lost || tracked.end.is_none() && entry.at <= tracked.deadline {
                self.requests[index].hold = Some(known);
                if !is_lost {
                    self.extend(known, *deadline);
                }
                return;
            }
            self.holds[known].is_continued = true;
        }
        let request = &mut self.requests[index];
        request.hold = Some(self.holds.len());
        let hold = Hold {
            who: request.who.clone(),
            name: request.name.clone(),
            mode: request.mode,
            token: *token,
            fence: *fence,
            // A hold that was handed over to this request, or a second guard's grant that is
            // journaled after the hold's end, becomes another `Hold`. Its `asked` is that of the
            // first, the only request sent to the server.
            asked: handed_over
                .or(known)
                .map_or(request.asked, |known| self.holds[known].hold.asked),
            granted: entry.at,
            until: *deadline,
        };
        self.by_token.insert(key, self.holds.len());
        self.holds.push(Tracked { owner, ..Tracked::granted(hold) });
    }

    /// Ignores an earlier deadline: two tasks may write their renewals in reverse order.
    fn extend(&mut self, index: usize, deadline: BootInstant) {
        let tracked = &mut self.holds[index];
        tracked.deadline = tracked.deadline.max(deadline);
        tracked.hold.until = tracked.deadline;
    }

    fn find(&mut self, entry: &Entry, token: Token) -> Option<usize> {
        let found = self.by_token.get(&(entry.process.clone(), token)).copied();
        if found.is_none() {
            self.problem(entry, &format!("wrote about the token {token}, which it wasn't granted"));
        }
        found
    }

    fn renewed(&mut self, entry: &Entry, token: Token, deadline: BootInstant) {
        let Some(index) = self.find(entry, token) else { return };
        let tracked = &self.holds[index];
        if tracked.end.is_some() {
            // Two tasks wrote the entries in reverse order.
            return;
        }
        if entry.at <= tracked.deadline {
            return self.extend(index, deadline);
        }
        if deadline <= entry.at {
            return;
        }
        let hold = Hold { granted: entry.at, until: deadline, ..tracked.hold.clone() };
        let (as_recorded, looked, owner) = (tracked.hold.clone(), tracked.looked, tracked.owner);
        let by = Use::Renewed;
        self.uses.push(UseOf { as_recorded, at: entry.at, by });
        self.holds[index].is_continued = true;
        self.by_token.insert((entry.process.clone(), token), self.holds.len());
        self.holds.push(Tracked { is_part: true, looked, owner, ..Tracked::granted(hold) });
    }

    fn finish(&mut self, entry: &Entry, token: Token, end: End) {
        if let Some(index) = self.find(entry, token) {
            self.holds[index].finish(entry.at, end);
        }
    }

    fn writing(&mut self, entry: &Entry, token: Token, looked: BootInstant, late: bool) {
        let Some(index) = self.find(entry, token) else { return };
        self.holds[index].writing = Some((entry.at, looked));
        if !late {
            self.found_valid(index, looked);
        }
    }

    fn found_valid(&mut self, index: usize, looked: BootInstant) {
        let tracked = &self.holds[index];
        let may_be_over = matches!(tracked.end, None | Some(End::Lost(..)));
        if may_be_over && looked >= tracked.hold.until {
            let as_recorded = tracked.hold.clone();
            self.uses.push(UseOf { as_recorded, at: looked, by: Use::Checked });
        }
    }

    fn wrote(&mut self, entry: &Entry) {
        let Event::Wrote { token, fence, accepted, late } = entry.event else { return };
        let Some(index) = self.find(entry, token) else { return };
        let began = self.holds[index].writing.take();
        if !late && began.is_none() {
            self.found_valid(index, self.holds[index].looked);
        }
        let process = &self.processes[&entry.process];
        let tracked = &mut self.holds[index];
        // A late write was sent after the hold's end, and after a suspension that lasted beyond it.
        let end = if late { process.runs_from(tracked.hold.until) } else { tracked.looked };
        let known = tracked.looked.max(end);
        tracked.looked = entry.at;
        let write = Write {
            who: entry.process.clone(),
            name: tracked.hold.name.clone(),
            fence,
            sent: began.map_or(known, |(began, _)| began).min(entry.at),
            answered: entry.at,
            accepted,
            late,
        };
        let checked = began.map(|(_, looked)| looked).filter(|_| !late);
        self.writes.push(WriteOf { hold: index, write, checked });
    }

    fn mark_broken(&mut self) {
        for Break { at, name, token, .. } in &self.breaks {
            for tracked in self.holds.iter_mut().filter(|tracked| tracked.hold.name == *name) {
                let is_meant = token.is_none_or(|token| token == tracked.hold.token);
                if is_meant && tracked.hold.asked <= *at && *at < tracked.hold.until {
                    tracked.broken = Some(tracked.broken.map_or(*at, |first| first.min(*at)));
                }
            }
        }
    }

    fn process_ended(&mut self, entry: &Entry) {
        self.processes.entry(entry.process.clone()).or_default().ended = Some(entry.at);
        for tracked in self.holds.iter_mut().filter(|tracked| tracked.hold.who == entry.process) {
            tracked.finish(entry.at, End::ProcessEnded);
        }
    }

    fn fault(&mut self, entry: &Entry) {
        let Event::Fault { fault, target, begins, effect } = &entry.event else { return };
        if *begins {
            return self.faults.push(FaultSpan {
                fault: fault.clone(),
                target: target.clone(),
                from: entry.at,
                to: None,
                effect: effect.clone(),
            });
        }
        let is_open = |span: &&mut FaultSpan| {
            span.fault == *fault && span.target == *target && span.to.is_none()
        };
        match self.faults.iter_mut().rev().find(is_open) {
            Some(span) => {
                span.to = Some(entry.at);
                span.effect = effect.clone().or(span.effect.take());
            }
            None => self.problem(entry, &format!("ended the fault {fault}, which hadn't begun")),
        }
    }
}
