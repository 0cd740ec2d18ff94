use std::fmt::Write;
use std::rc::Rc;
use std::str::{FromStr, SplitWhitespace};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};
use tokio::runtime::LocalOptions;
use tokio::task::{JoinHandle, JoinSet, spawn_local, yield_now};
use tokio::time::{MissedTickBehavior, interval};

use crate::turns::Contest;
use crate::{Cannot, Handshake, Library, Result, now};

const AT_A_TIME: usize = 64;

pub fn serve<L: Library>(handshake: &Handshake) {
    serve_by_backend(handshake, Commands::answer::<L>);
}

/// Like [`serve`], but `answer` chooses the backend's library, and calls [`Commands::answer`].
pub fn serve_by_backend<F: Future<Output = ()> + 'static>(
    handshake: &Handshake,
    answer: impl FnOnce(Commands) -> F + 'static,
) {
    println!("{}", serde_json::to_string(handshake).expect("it is all texts"));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(LocalOptions::default());
    let runtime = runtime.expect("a runtime can be built");
    // The work is in a spawned task, as in a service. When another task wakes `block_on`'s own
    // future, tokio first polls for I/O events, with a system call.
    let serving = runtime.block_on(async {
        let answering = async {
            let mut lines = BufReader::new(stdin()).lines();
            if let Ok(Some(first)) = lines.next_line().await {
                answer(Commands { first, lines }).await;
            }
        };
        spawn_local(answering).await
    });
    serving.expect("a subject doesn't panic");
    std::process::exit(0);
}

/// The driver's commands. The first one is `open`.
#[derive(Debug)]
pub struct Commands {
    first: String,
    lines: Lines<BufReader<Stdin>>,
}

impl Commands {
    pub fn backend(&self) -> &str {
        self.first.split_whitespace().nth(1).unwrap_or_default()
    }

    pub async fn answer<L: Library>(self) {
        let Self { first, mut lines } = self;
        let mut state = State::<L> { library: None, held: None, waiting: JoinSet::new() };
        let mut next = Some(first);
        while let Some(command) = next {
            println!("{}", state.answer(&command).await.unwrap_or_else(|error| complaint(&*error)));
            next = lines.next_line().await.ok().flatten();
        }
    }
}

fn complaint(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    if error.is::<Cannot>() {
        return format!("cannot {text}");
    }
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    format!("error {}", text.replace('\n', " "))
}

struct State<L: Library> {
    library: Option<Rc<L>>,
    held: Option<Held<L>>,
    waiting: JoinSet<()>,
}

struct Held<L: Library> {
    holds: Rc<Vec<L::Hold>>,
    keeper: JoinHandle<()>,
}

impl<L: Library> State<L> {
    async fn answer(&mut self, command: &str) -> Result<String> {
        let mut words = command.split_whitespace();
        match words.next() {
            Some("open") => self.open(words).await,
            Some("pairs") => {
                self.pairs(text(&mut words)?, millis(&mut words)?, millis(&mut words)?).await
            }
            Some("turns") => {
                let contest = Contest {
                    name: text(&mut words)?,
                    ttl: millis(&mut words)?,
                    tasks: number(&mut words)?,
                    start: number(&mut words)?,
                    end: number(&mut words)?,
                    section: Duration::from_micros(number(&mut words)?),
                };
                contest.join(self.library()?).await
            }
            Some("hold") => {
                let (prefix, first) = (text(&mut words)?, number(&mut words)?);
                let (count, ttl) = (number(&mut words)?, millis(&mut words)?);
                self.hold(prefix, first, count, ttl, millis(&mut words)?).await
            }
            Some("wait") => {
                self.wait(text(&mut words)?, millis(&mut words)?, number(&mut words)?).await
            }
            Some("drop") => self.release().await,
            _ => Err(format!("no such command: {command:?}").into()),
        }
    }

    async fn open(&mut self, mut words: SplitWhitespace<'_>) -> Result<String> {
        let backend = text(&mut words)?;
        let urls: Vec<String> = words.map(str::to_owned).collect();
        self.library = Some(Rc::new(L::open(&backend, &urls).await?));
        Ok("ready".to_owned())
    }

    fn library(&self) -> Result<Rc<L>> {
        self.library.clone().ok_or_else(|| "it isn't open".into())
    }

    async fn pairs(&self, name: String, ttl: Duration, time: Duration) -> Result<String> {
        let library = self.library()?;
        let mut times = Vec::new();
        let mut begun = now();
        let end = begun + time.as_nanos() as u64;
        while begun < end {
            let hold = library.lock_alone(&name, ttl).await?;
            library.unlock(hold).await?;
            let over = now();
            times.push(over - begun);
            begun = over;
        }
        let mut answer = String::from("pairs");
        for time in times {
            let _ = write!(answer, " {time}");
        }
        Ok(answer)
    }

    async fn hold(
        &mut self,
        prefix: String,
        first: u64,
        count: u64,
        ttl: Duration,
        time: Duration,
    ) -> Result<String> {
        let library = self.library()?;
        let mut names = (first..first + count).map(|number| format!("{prefix}/{number}"));
        let end = Instant::now() + time;
        let mut holds = Vec::new();
        let mut asking = JoinSet::new();
        loop {
            while asking.len() < AT_A_TIME && Instant::now() < end {
                let Some(name) = names.next() else { break };
                let library = library.clone();
                asking.spawn_local(async move { library.keep(&name, ttl).await });
            }
            match asking.join_next().await {
                Some(hold) => holds.push(hold??),
                None => break,
            }
        }
        let (held, holds) = (holds.len(), Rc::new(holds));
        let kept = holds.clone();
        let keeper = spawn_local(async move {
            let mut ticks = interval(ttl / 3);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                if let Err(error) = library.renew(&kept, ttl).await {
                    return eprintln!("{}", complaint(&*error));
                }
            }
        });
        self.held = Some(Held { holds, keeper });
        Ok(format!("held {held}"))
    }

    async fn wait(&mut self, name: String, ttl: Duration, tasks: usize) -> Result<String> {
        for _ in 0..tasks {
            let (library, name) = (self.library()?, name.clone());
            self.waiting.spawn_local(async move {
                match library.lock(&name, ttl).await {
                    Ok(_hold) => eprintln!("a waiter was granted a held name"),
                    Err(error) => eprintln!("{}", complaint(&*error)),
                }
            });
        }
        yield_now().await; // polls each task once, which begins its request
        Ok("waiting".to_owned())
    }

    async fn release(&mut self) -> Result<String> {
        let library = self.library()?;
        let Some(Held { holds, keeper }) = self.held.take() else {
            return Ok("dropped".to_owned());
        };
        keeper.abort();
        let _ = keeper.await; // the task's clone of `holds` is dropped
        let Ok(holds) = Rc::try_unwrap(holds) else {
            return Err("the renewing task still has the holds".into());
        };
        let mut holds = holds.into_iter();
        let mut releasing = JoinSet::new();
        loop {
            while releasing.len() < AT_A_TIME
                && let Some(hold) = holds.next()
            {
                let library = library.clone();
                releasing.spawn_local(async move { library.unlock(hold).await });
            }
            match releasing.join_next().await {
                Some(released) => released??,
                None => return Ok("dropped".to_owned()),
            }
        }
    }
}

fn text(words: &mut SplitWhitespace<'_>) -> Result<String> {
    words.next().map(str::to_owned).ok_or_else(|| "the command is too short".into())
}

fn number<N: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<N> {
    let word = text(words)?;
    word.parse().map_err(|_| format!("not a number: {word:?}").into())
}

fn millis(words: &mut SplitWhitespace<'_>) -> Result<Duration> {
    Ok(Duration::from_millis(number(words)?))
}
