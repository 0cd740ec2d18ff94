//! Stock in a database table: 200 buyers in 8 processes compete for 50 items.
//!
//! ```text
//! cargo run --example stock_table --features postgres     # starts PostgreSQL
//! cargo run --example stock_table --features postgres -- --url postgres://me@db/empty
//! ```
//!
//! A holder that is suspended for longer than the TTL writes an outdated number, despite the mutex.
//! `check_fence` rejects this late write.
#![forbid(unsafe_code)]

mod shop;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use lockwright::{Locks, Reason};
use lockwright_testbed::Postgres;
use rustix::process::Signal;
use shop::Shop;
use support::{Processes, Result, released, told, until};

const PROCESSES: usize = 8;
const BUYERS: usize = 200;
const ITEMS: i64 = 50;
const TTL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Nothing,
    InTransaction,
    Mutex,
    MutexAndFence,
}

const WAYS: [(Way, &str); 4] = [
    (Way::Nothing, "without a lock"),
    (Way::InTransaction, "with lock_in_transaction"),
    (Way::Mutex, "with a mutex, one holder stopped"),
    (Way::MutexAndFence, "with a mutex and check_fence, one holder stopped"),
];

fn main() -> Result<()> {
    let runtime = support::runtime()?;
    match std::env::var("STOCK_TABLE_PROCESS") {
        Ok(number) => runtime.block_on(a_process(&number)),
        Err(_) => runtime.block_on(the_sales()),
    }
}

async fn the_sales() -> Result<()> {
    let mut server = None;
    let url = match &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        [] => server.insert(Postgres::start()?).url(),
        [option, url] if option == "--url" => url.clone(),
        _ => return Err("it takes --url URL, or nothing".into()),
    };
    let shown = lockwright::backend::redact::url(&url);
    println!("{ITEMS} items in a table, {BUYERS} buyers in {PROCESSES} processes, {shown}");
    let shop = Shop::open(&url).await?;
    for (way, said) in WAYS {
        shop.stock_up(ITEMS).await?;
        let refused = a_sale(&shop, way, &url).await?;
        let sold = shop.sold().await?;
        let too_many = match sold - ITEMS {
            0 => String::new(),
            more => format!(", {more} more than there were"),
        };
        println!("{said}: {sold} sold{too_many}");
        if let Some(error) = &refused {
            println!("  its late write was refused: {error}");
        }
        let safe = matches!(way, Way::InTransaction | Way::MutexAndFence);
        if safe && sold != ITEMS {
            return Err("exactly all items should have been sold".into());
        }
        if !safe && sold <= ITEMS {
            return Err("it didn't oversell, so this run showed nothing".into());
        }
        if (way == Way::MutexAndFence) != refused.is_some() {
            return Err("the late write, and it alone, should have been refused".into());
        }
    }
    println!("exactly {ITEMS} sold");
    Ok(())
}

async fn a_sale(shop: &Shop, way: Way, url: &str) -> Result<Option<String>> {
    let folder = tempfile::tempdir()?;
    let mut processes = Processes::new();
    for number in 0..PROCESSES {
        processes.start(&[
            ("STOCK_TABLE_PROCESS", &number.to_string()),
            ("STOCK_TABLE_URL", url),
            ("STOCK_TABLE_FOLDER", &folder.path().display().to_string()),
            ("STOCK_TABLE_WAY", &format!("{way:?}")),
        ])?;
    }
    if matches!(way, Way::Mutex | Way::MutexAndFence) {
        stop_the_holder(shop, folder.path(), &processes).await?;
    }
    processes.wait(None)?;
    Ok(std::fs::read_to_string(folder.path().join("refused")).ok())
}

async fn stop_the_holder(shop: &Shop, folder: &Path, processes: &Processes) -> Result<()> {
    until("the first grant", || async { folder.join("still").exists() }).await?;
    let (stopped, sold) = (Instant::now(), shop.sold().await?);
    processes.signal(0, Signal::STOP)?;
    until("the next sale", || async {
        stopped.elapsed() >= TTL && shop.sold().await.is_ok_and(|now| now != sold)
    })
    .await?;
    std::fs::write(folder.join("go"), "")?;
    processes.signal(0, Signal::CONT)
}

async fn a_process(number: &str) -> Result<()> {
    let url = told("STOCK_TABLE_URL")?;
    let folder = told("STOCK_TABLE_FOLDER")?;
    let way = told("STOCK_TABLE_WAY")?;
    let way = WAYS.iter().find(|(known, _)| format!("{known:?}") == way).ok_or("which way?")?.0;
    let shop = Shop::open(&url).await?;
    let mut config = lockwright::Config::new(&url);
    config.ttl = Some(TTL);
    let locks = config.connect().await?;
    if matches!(way, Way::Mutex | Way::MutexAndFence) && number != "0" {
        // The others wait, so that they don't sell all items before the victim is suspended.
        until("the first grant", || async { Path::new(&folder).join("still").exists() }).await?;
    }
    let mut buyers = tokio::task::JoinSet::new();
    for buyer in 0..BUYERS / PROCESSES {
        let (shop, locks, folder) = (shop.clone(), locks.clone(), folder.clone());
        let victim = number == "0" && buyer == 0;
        buyers.spawn(async move {
            let folder = victim.then(|| Path::new(&folder));
            buy(&shop, &locks, way, folder).await
        });
    }
    buyers.join_all().await.into_iter().collect::<Result<()>>()?;
    locks.close().await;
    Ok(())
}

async fn buy(shop: &Shop, locks: &Locks, way: Way, victim: Option<&Path>) -> Result<()> {
    let guard = match way {
        Way::Nothing | Way::InTransaction => None,
        Way::Mutex | Way::MutexAndFence => Some(locks.mutex("stock/pears").acquire().await?),
    };
    // A real program uses `guard.run(..)`, which stops the work after a loss.
    if let (Some(folder), Way::MutexAndFence) = (victim, way) {
        stand_still(folder).await?;
    }
    let mut tx = shop.begin().await?;
    match (way, &guard) {
        (Way::InTransaction, _) => tx.lock("stock/pears").await?,
        (Way::MutexAndFence, Some(guard)) => {
            if let Err(error) = tx.check_fence(&guard.fenced()).await {
                return match (victim, error.lost_reason()) {
                    (Some(folder), Some(Reason::Superseded)) => {
                        Ok(std::fs::write(folder.join("refused"), error.to_string())?)
                    }
                    _ => Err(error.into()),
                };
            }
        }
        _ => {}
    }
    let left = tx.left().await?;
    tokio::time::sleep(Duration::from_millis(1)).await;
    if let (Some(folder), Way::Mutex) = (victim, way) {
        stand_still(folder).await?;
    }
    if left > 0 {
        tx.sell_one_of(left).await?;
    }
    tx.commit().await?;
    if let Some(guard) = guard {
        match guard.release().await {
            Err(error) if victim.is_some() && error.lost_reason().is_some() => {}
            outcome => released(outcome)?,
        }
    }
    Ok(())
}

async fn stand_still(folder: &Path) -> Result<()> {
    std::fs::write(folder.join("still"), "")?;
    until("the next sale", || async { folder.join("go").exists() }).await
}
