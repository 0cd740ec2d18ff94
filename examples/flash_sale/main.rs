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
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockwright::{Error, Guard, Result};
use setting::Setting;
use shop::{Sale, Shop};
use support::{Children, io, released, told};

const PROCESSES: usize = 8;
const BUYERS: usize = 400;
const ITEMS: u32 = 100;

fn main() -> Result<()> {
    let runtime = support::runtime()?;
    match std::env::var("FLASH_SALE_PROCESS") {
        Ok(number) => runtime.block_on(a_process(&number)),
        Err(_) => the_sale(&runtime),
    }
}

fn the_sale(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let folder = tempfile::tempdir().map_err(io)?;
    let setting = Setting::from_arguments(folder.path())?;
    let config = setting::read(&setting.config)?;
    let (file, kill) = (&*setting.config, setting.kill);
    runtime.block_on(async {
        if setting.is_new && config.url.starts_with("redlock:") {
            // Without `admit`, the new nodes would vote only after the largest TTL.
            lockwright::operator::admit(&config.url).await?;
        }
        let locks = config.connect().await?;
        let backend = locks.profile().backend;
        println!(
            "{ITEMS} items, {BUYERS} buyers in {PROCESSES} processes, {backend} at {}",
            setting::shown(&config)
        );
        locks.close().await;
        Ok(())
    })?;
    let ttl = config.ttl.unwrap_or(Duration::from_secs(30));

    if !kill {
        let sold = run(file, "without", false)?.sales.len();
        let by = sold.saturating_sub(ITEMS as usize);
        println!("without the lock: {sold} sold, {by} more than there were");
        if by == 0 {
            return Err(Error::invalid_input("it didn't oversell, so this run showed nothing"));
        }
    }
    let outcome = run(file, "with", kill)?;
    println!(
        "with the lock:    {} sold, {} left, in {:.1} s",
        outcome.sales.len(),
        outcome.left,
        outcome.took.as_secs_f64()
    );
    if outcome.sales.len() != ITEMS as usize || outcome.left != 0 {
        return Err(Error::invalid_input("exactly all items should have been sold"));
    }
    if !outcome.sales.windows(2).all(|pair| pair[0].fence < pair[1].fence) {
        return Err(Error::invalid_input("the fences of the sales should grow"));
    }
    if let Some(gap) = outcome.gap {
        println!(
            "a process was killed while it held: the next sale came {:.2} s later (TTL {:.0} s)",
            gap.as_secs_f64(),
            ttl.as_secs_f64()
        );
        // Sales may pause for one TTL, plus a second until a waiter notices the expiry.
        if gap > ttl + Duration::from_secs(1) {
            return Err(Error::invalid_input("the others should have gone on within one TTL"));
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

fn run(config: &Path, lock: &str, kill: bool) -> Result<Outcome> {
    let folder = tempfile::tempdir().map_err(io)?;
    let shop = Shop::open(folder.path());
    shop.stock_up(ITEMS).map_err(io)?;
    let start = Instant::now();
    let exe = std::env::current_exe().map_err(io)?;
    let mut children = Children(Vec::new());
    for number in 0..PROCESSES {
        let child = Command::new(&exe)
            .env("FLASH_SALE_PROCESS", number.to_string())
            .env("FLASH_SALE_CONFIG", config)
            .env("FLASH_SALE_FOLDER", folder.path())
            .env("FLASH_SALE_LOCK", lock)
            .env("FLASH_SALE_KILL", if kill { "yes" } else { "no" })
            .stdin(Stdio::null())
            .spawn()
            .map_err(io)?;
        children.0.push(child);
    }
    let killed_at = if kill { Some(kill_the_holder(&shop, &mut children)?) } else { None };
    for (number, child) in children.0.iter_mut().enumerate() {
        let status = child.wait().map_err(io)?;
        let victim = kill && number == 0;
        if !status.success() && !victim {
            return Err(Error::unavailable(format!("process {number} ended with {status}")));
        }
    }
    let sales = shop.sales().map_err(io)?;
    let gap = killed_at.and_then(|killed_at| {
        let next = sales.iter().find(|sale| sale.at > killed_at)?;
        Some(Duration::from_nanos(next.at - killed_at))
    });
    if kill && gap.is_none() {
        return Err(Error::unavailable("nothing was sold after the kill, so it showed nothing"));
    }
    Ok(Outcome { left: shop.left().map_err(io)?, sales, took: start.elapsed(), gap })
}

fn kill_the_holder(shop: &Shop, children: &mut Children) -> Result<u64> {
    let limit = Instant::now() + Duration::from_secs(60);
    while !shop.somebody_stands_still() {
        if Instant::now() > limit {
            return Err(Error::unavailable("the first process never got the lock"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let now = shop::now();
    children.0[0].kill().map_err(io)?;
    Ok(now)
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
    // The other processes wait. Otherwise they could sell all items before the kill.
    while somebody_dies && !dies && !shop.somebody_stands_still() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut buyers = tokio::task::JoinSet::new();
    for buyer in 0..BUYERS / PROCESSES {
        let (shop, locks) = (shop.clone(), locks.clone());
        let dies = dies && buyer == 0;
        let who = format!("{number}.{buyer}");
        buyers.spawn(async move {
            let Some(locks) = locks else { return shop.buy(&who, 0).await.map_err(io) };
            let guard: Guard = locks.mutex("flash-sale/items").acquire().await?;
            if dies {
                shop.stand_still().await;
            }
            guard.run(shop.buy(&who, guard.fence().get())).await?.map_err(io)?;
            released(guard.release().await)
        });
    }
    buyers.join_all().await.into_iter().collect::<Result<()>>()?;
    if let Some(locks) = locks {
        locks.close().await;
    }
    Ok(())
}
