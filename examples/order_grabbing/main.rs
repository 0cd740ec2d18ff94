//! Forty drivers in four processes compete for each of ten orders, and one driver gets it.
//!
//! ```text
//! cargo run --release --example order_grabbing [--features redis -- --url redis://127.0.0.1/]
//! ```
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use support::{Processes, Result, told};

const PROCESSES: usize = 4;
const DRIVERS: usize = 10;
const ORDERS: usize = 10;
/// The TTL: a driver that doesn't confirm in time loses the order.
const TO_CONFIRM: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    match std::env::var("DRIVERS_OF") {
        Ok(process) => support::runtime()?.block_on(drivers(&process)),
        Err(_) => order_grabbing(),
    }
}

async fn drivers(process: &str) -> Result<()> {
    let locks = lockwright::connect(&told("DRIVERS_URL")?).await?;
    support::start_together()?;
    let mut driving = tokio::task::JoinSet::new();
    for driver in 0..DRIVERS {
        let (locks, who) = (locks.clone(), format!("{process}.{driver}"));
        driving.spawn(async move {
            let mut won = Vec::new();
            for order in 0..ORDERS {
                let begun = Instant::now();
                let request = locks.mutex(format!("order/{order}")).ttl(TO_CONFIRM).fixed();
                match request.try_acquire().await? {
                    Some(guard) => {
                        println!("won {order} {who}");
                        won.push(guard);
                    }
                    None => println!("lost {order} {}", begun.elapsed().as_micros()),
                }
            }
            Result::<Vec<_>>::Ok(won)
        });
    }
    let _won = driving.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    println!("done");
    // `_won` holds the orders until all drivers have tried.
    std::future::pending().await
}

fn order_grabbing() -> Result<()> {
    let (_folder, url) = support::place()?;
    let mut processes = Processes::new();
    for process in 0..PROCESSES {
        processes.start(&[("DRIVERS_OF", &process.to_string()), ("DRIVERS_URL", &url)])?;
    }
    processes.start_together()?;
    let (mut winners, mut learned) = (vec![Vec::new(); ORDERS], Vec::new());
    let mut done = 0;
    while done < PROCESSES {
        let (_, line) = processes.next()?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["won", order, who] => {
                let order: usize = order.parse().unwrap_or(0);
                winners[order].push(who.to_owned());
            }
            ["lost", _, micros] => learned.push(micros.parse::<u64>().unwrap_or(u64::MAX)),
            _ => done += 1,
        }
    }
    for (order, winners) in winners.iter().enumerate() {
        println!("order {order}: {}", winners.join(", "));
        if winners.len() != 1 {
            let count = winners.len();
            return Err(format!("order {order} has {count} winners").into());
        }
    }
    learned.sort_unstable();
    let milliseconds = |micros: u64| micros as f64 / 1e3;
    println!(
        "{} times a driver was too late, and knew after {:.2} ms in the middle, {:.1} ms at most",
        learned.len(),
        milliseconds(learned[learned.len() / 2]),
        milliseconds(learned[learned.len() - 1]),
    );
    if learned.len() != ORDERS * (PROCESSES * DRIVERS - 1) {
        return Err("every driver should have requested every order".into());
    }
    println!("one winner for each of {ORDERS} orders");
    Ok(())
}
