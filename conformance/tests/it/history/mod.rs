//! Tests of the rules with handwritten journals. Times are in nanoseconds.

mod evidence;
mod exclusion;
mod fences;
mod figures;
mod holds;
mod losses;
mod timeline;
mod uses;
mod waiting;

use lockwright_core::{BootInstant, Fence, Mode, Reason, Token};

use lockwright_conformance::history::journal::{Entry, Event, Signal};
use lockwright_conformance::history::{Kind, Rules, Violation, check};

/// A handwritten journal. A token is derived from its request's number.
#[derive(Debug, Clone, Default)]
struct Script(Vec<Entry>);

const EXCLUSIVE: Mode = Mode::Exclusive;

fn at(nanos: u64) -> BootInstant {
    BootInstant::from_nanos(nanos)
}

fn token(request: u64) -> Token {
    Token::from_bytes((u128::from(request) << 64).to_be_bytes())
}

const fn permits(count: u32, of: u32) -> Mode {
    Mode::Permits { count, of }
}

/// Returns a script with one hold of the process `a`: request 1, fence 1, granted at 10.
fn held(until: u64) -> Script {
    Script::new().holds("a", 1, 1, EXCLUSIVE, (10, until))
}

impl Script {
    fn new() -> Self {
        Self::default()
    }

    fn add(mut self, instant: u64, who: &str, event: Event) -> Self {
        self.0.push(Entry { at: at(instant), process: who.to_owned(), event });
        self
    }

    fn asks(self, instant: u64, who: &str, request: u64) -> Self {
        self.asks_for(instant, who, request, "x", EXCLUSIVE)
    }

    fn asks_for(self, instant: u64, who: &str, request: u64, name: &str, mode: Mode) -> Self {
        let name = name.to_owned();
        self.add(instant, who, Event::Asked { request, name, mode, waits: true, owner: None })
    }

    fn asks_as(self, instant: u64, who: &str, request: u64, owner: u64) -> Self {
        let (name, mode, owner) = ("x".to_owned(), EXCLUSIVE, Some(owner));
        self.add(instant, who, Event::Asked { request, name, mode, waits: true, owner })
    }

    fn granted(self, instant: u64, who: &str, request: u64, fence: u64, until: u64) -> Self {
        let (token, fence, deadline) = (token(request), Fence::new(fence), at(until));
        self.add(instant, who, Event::Granted { request, token, fence, deadline })
    }

    /// Adds another grant of the token of request 1.
    fn granted_again(self, instant: u64, who: &str, request: u64, fence: u64, until: u64) -> Self {
        let (token, fence, deadline) = (token(1), Fence::new(fence), at(until));
        self.add(instant, who, Event::Granted { request, token, fence, deadline })
    }

    /// Adds a request and its grant, both at `from`, with the deadline `until`.
    fn holds(
        self,
        who: &str,
        request: u64,
        fence: u64,
        mode: Mode,
        (from, until): (u64, u64),
    ) -> Self {
        self.asks_for(from, who, request, "x", mode).granted(from, who, request, fence, until)
    }

    fn fails(self, instant: u64, who: &str, request: u64) -> Self {
        self.add(instant, who, Event::Failed { request, error: "timed out".to_owned() })
    }

    fn renews(self, instant: u64, who: &str, request: u64, until: u64) -> Self {
        self.add(instant, who, Event::Renewed { token: token(request), deadline: at(until) })
    }

    fn releases(self, instant: u64, who: &str, request: u64) -> Self {
        self.add(instant, who, Event::Releasing { token: token(request) })
    }

    fn loses(self, instant: u64, who: &str, request: u64) -> Self {
        let (token, reason) = (token(request), Reason::Expired);
        self.add(instant, who, Event::Lost { token, reason })
    }

    fn writing(self, instant: u64, who: &str, request: u64, looked: u64) -> Self {
        let (token, looked) = (token(request), at(looked));
        self.add(instant, who, Event::Writing { token, looked, late: false })
    }

    fn wrote(
        self,
        instant: u64,
        who: &str,
        (request, fence): (u64, u64),
        accepted: bool,
        late: bool,
    ) -> Self {
        let (token, fence) = (token(request), Fence::new(fence));
        self.add(instant, who, Event::Wrote { token, fence, accepted, late })
    }

    fn signal(self, instant: u64, target: &str, signal: Signal) -> Self {
        let target = target.to_owned();
        self.add(instant, "runner", Event::Signalled { target, signal })
    }

    fn fault(self, instant: u64, fault: &str, begins: bool, effect: Option<&str>) -> Self {
        let (fault, target) = (fault.to_owned(), "server".to_owned());
        let effect = effect.map(str::to_owned);
        self.add(instant, "runner", Event::Fault { fault, target, begins, effect })
    }

    fn breaks(self, instant: u64, at_once: bool) -> Self {
        let (number, name, token) = (1, "x".to_owned(), None);
        self.add(instant, "runner", Event::Broke { number, name, token, at_once })
    }

    fn break_answered(self, instant: u64, number: u64, broke: bool) -> Self {
        self.add(instant, "runner", Event::BreakAnswered { number, broke })
    }

    fn ends(self, instant: u64, who: &str) -> Self {
        self.add(instant, who, Event::Ended)
    }

    /// Returns the violations except missing evidence.
    fn found(&self) -> Vec<Violation> {
        self.found_with(|_| {})
    }

    /// Returns the violations of changed rules, except missing evidence.
    fn found_with(&self, change: impl FnOnce(&mut Rules)) -> Vec<Violation> {
        let mut rules = Rules { must_show: false, ..Rules::default() };
        change(&mut rules);
        self.found_by(&rules)
    }

    fn found_by(&self, rules: &Rules) -> Vec<Violation> {
        let mut entries = self.0.clone();
        entries.sort_by_key(|entry| entry.at);
        check(&entries, rules).violations
    }

    #[track_caller]
    fn is_clean(&self) {
        assert_eq!(self.found(), []);
    }

    #[track_caller]
    fn breaks_once(&self, title: &str) {
        let found = self.found();
        let titles: Vec<&str> = found.iter().map(Violation::title).collect();
        assert_eq!(titles, [title], "{found:#?}");
        assert_eq!(found[0].kind(), Kind::Safety);
    }
}
