use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use crate::{Library, Result, now};

struct Turn {
    task: usize,
    asked: u64,
    granted: u64,
    released: u64,
}

pub(crate) struct Contest {
    pub(crate) name: String,
    pub(crate) ttl: Duration,
    pub(crate) tasks: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) section: Duration,
}

impl Contest {
    pub(crate) async fn join<L: Library>(self, library: Rc<L>) -> Result<String> {
        let turns = Rc::new(RefCell::new(Vec::new()));
        let contest = Rc::new(self);
        let mut tasks = JoinSet::new();
        for task in 0..contest.tasks {
            let (contest, library) = (contest.clone(), library.clone());
            let turns = turns.clone();
            let player = async move { contest.play(task, &*library, &turns).await };
            tasks.spawn_local(player);
        }
        while let Some(played) = tasks.join_next().await {
            played??;
        }
        let mut answer = String::from("turns");
        for Turn { task, asked, granted, released } in turns.take() {
            let _ = write!(answer, " {task}:{asked}:{granted}:{released}");
        }
        Ok(answer)
    }

    async fn play<L: Library>(
        &self,
        task: usize,
        library: &L,
        turns: &RefCell<Vec<Turn>>,
    ) -> Result<()> {
        sleep(Duration::from_nanos(self.start.saturating_sub(now()))).await;
        loop {
            let asked = now();
            if asked >= self.end {
                return Ok(());
            }
            let hold = library.lock(&self.name, self.ttl).await?;
            let granted = now();
            if !self.section.is_zero() {
                keep(self.section).await?;
            }
            let released = now();
            library.unlock(hold).await?;
            turns.borrow_mut().push(Turn { task, asked, granted, released });
        }
    }
}

/// tokio's timer is up to a millisecond late.
async fn keep(section: Duration) -> Result<()> {
    Ok(spawn_blocking(move || std::thread::sleep(section)).await?)
}
