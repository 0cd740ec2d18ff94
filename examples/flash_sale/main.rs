//! A flash sale: 400 buyers in 8 processes compete for 100 items.
//!
//! ```text
//! cargo run --example flash_sale                          # on a SQLite file
//! cargo run --example flash_sale -- --kill                # kills the holder
//! cargo run --example flash_sale --features redis -- --config sale.toml
//! cargo run --example flash_sale --features postgres -- --on postgres   # starts a server
//! cargo run --example flash_sale --features redlock -- --on redlock     # starts five servers
//! cargo run --example flash_sale --features zookeeper -- --on zookeeper # starts three servers
//! ```
//!
//! Only the configuration determines the backend:
//!
//! ```toml
//! url = "postgres://shop:secret@db/shop?mode=session"
//! ttl = "2s"
//! require = ["fencing", "network"]   # connecting fails if a property is missing
//! ```
#![forbid(unsafe_code)]

mod setting;
mod shop;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use lockwright::Guard;
use lockwright::backend::redact;
use setting::Setting;
use shop::{Sale, Shop};
use support::{Processes, Result, released, told, until};

const PROCESSES: usize = 8;
const BUYERS: usize = 400;
const ITEMS: u32 = 100;

fn main() -> Result<()> {
    let runtime = support::runtime()?;
    match std::env::var("FLASH_SALE_PROCESS") {
        Ok(number) => runtime.block_on(a_process(&number)),
        Err(_) => runtime.block_on(the_sale()),
    }
}

async fn the_sale() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let setting = Setting::from_arguments(folder.path())?;
    let config = setting::read(&setting.config)?;
    let (file, kill) = (&*setting.config, setting.kill);
    if setting.is_new && config.url.starts_with("redlock:") {
        // Without `admit`, new nodes vote only after the largest TTL.
        lockwright::operator::admit(&config.url).await?;
    }
    let locks = config.connect().await?;
    let backend = locks.profile().backend;
    let shown = redact::url(&config.url);
    println!("{ITEMS} items, {BUYERS} buyers in {PROCESSES} processes, {backend} at {shown}");
    locks.close().await;
    let ttl = config.ttl.unwrap_or(Duration::from_secs(30));

    if !kill {
        let sold = run(file, "without", false).await?.sales.len();
        let by = sold.saturating_sub(ITEMS as usize);
        println!("without the lock: {sold} sold, {by} more than there were");
        if by == 0 {
            return Err("it didn't oversell, so this run showed nothing".into());
        }
    }
    let outcome = run(file, "with", kill).await?;
    println!(
        "with the lock:    {} sold, {} left, in {:.1} s",
        outcome.sales.len(),
        outcome.left,
        outcome.took.as_secs_f64()
    );
    if outcome.sales.len() != ITEMS as usize || outcome.left != 0 {
        return Err("exactly all items should have been sold".into());
    }
    if !outcome.sales.windows(2).all(|pair| pair[0].fence < pair[1].fence) {
        return Err("the fences of the sales should grow".into());
    }
    if let Some(gap) = outcome.gap {
        println!(
            "a process was killed while it held: the next sale came {:.2} s later (TTL {:.0} s)",
            gap.as_secs_f64(),
            ttl.as_secs_f64()
        );
        // Sales may pause for one TTL, plus a second until a waiter notices the expiry.
        if gap > ttl + Duration::from_secs(1) {
            return Err("the others should have gone on within one TTL".into());
        }
    }
    println!("exactly {ITEMS} sold");
    Ok(())
}

struct Outcome {
    sales: Vec<Sale>,
    left: u32,
    took: Duration,
    gap: Option<Duration>,
}

async fn run(config: &Path, lock: &str, kill: bool) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let shop = Shop::open(folder.path());
    shop.stock_up(ITEMS)?;
    let start = Instant::now();
    let mut processes = Processes::new();
    for number in 0..PROCESSES {
        processes.start(&[
            ("FLASH_SALE_PROCESS", &number.to_string()),
            ("FLASH_SALE_CONFIG", &config.display().to_string()),
            ("FLASH_SALE_FOLDER", &folder.path().display().to_string()),
            ("FLASH_SALE_LOCK", lock),
            ("FLASH_SALE_KILL", if kill { "yes" } else { "no" }),
        ])?;
    }
    let mut killed_at = None;
    if kill {
        until("the first process's grant", || async { shop.somebody_stands_still() }).await?;
        killed_at = Some(shop::now());
        processes.kill(0)?;
    }
    processes.wait(kill.then_some(0))?;
    let sales = shop.sales()?;
    let gap = killed_at.and_then(|killed_at| {
        let next = sales.iter().find(|sale| sale.at > killed_at)?;
        Some(Duration::from_nanos(next.at - killed_at))
    });
    if kill && gap.is_none() {
        return Err("nothing was sold after the kill, so it showed nothing".into());
    }
    Ok(Outcome { left: shop.left()?, sales, took: start.elapsed(), gap })
}

async fn a_process(number: &str) -> Result<()> {
    let folder = told("FLASH_SALE_FOLDER")?;
    let shop = Shop::open(folder.as_ref());
    let locks = match told("FLASH_SALE_LOCK")?.as_str() {
        "with" => Some(setting::read(told("FLASH_SALE_CONFIG")?.as_ref())?.connect().await?),
        _ => None,
    };
    let somebody_dies = told("FLASH_SALE_KILL")? == "yes";
    let dies = somebody_dies && number == "0";
    // The others wait, so that they don't sell all items before the kill.
    if somebody_dies && !dies {
        until("the victim's grant", || async { shop.somebody_stands_still() }).await?;
    }
    let mut buyers = tokio::task::JoinSet::new();
    for buyer in 0..BUYERS / PROCESSES {
        let (shop, locks) = (shop.clone(), locks.clone());
        let dies = dies && buyer == 0;
        let who = format!("{number}.{buyer}");
        buyers.spawn(async move {
            let Some(locks) = locks else { return Ok(shop.buy(&who, 0).await?) };
            let guard: Guard = locks.mutex("flash-sale/items").acquire().await?;
            if dies {
                shop.stand_still().await;
            }
            guard.run(shop.buy(&who, guard.fence().get())).await??;
            released(guard.release().await)
        });
    }
    buyers.join_all().await.into_iter().collect::<Result<()>>()?;
    if let Some(locks) = locks {
        locks.close().await;
    }
    Ok(())
}
