//! A rate limit shared by all processes: a semaphore with three permits.
//!
//! ```text
//! cargo run --example rate_limit [--features redis -- --url redis://127.0.0.1/]
//! ```
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::{Processes, Result, released, told};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

const AT_A_TIME: u32 = 3;
const PROCESSES: usize = 4;
const CALLERS: usize = 3;
const CALLS: usize = 4;
const TTL: Duration = Duration::from_secs(10);
const SHORT_TTL: Duration = Duration::from_secs(2);
const CALL: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    let runtime = support::runtime()?;
    match std::env::var("CALLERS_WITH") {
        Ok(with) => runtime.block_on(callers(&with)),
        Err(_) => rate_limit(&runtime),
    }
}

async fn callers(with: &str) -> Result<()> {
    let locks = lockwright::connect(&told("CALLERS_URL")?).await?;
    let service = told("CALLERS_SERVICE")?;
    if with == "a permit for ever" {
        let _permit = locks.semaphore("partner", AT_A_TIME).ttl(SHORT_TTL).acquire().await?;
        println!("has a permit");
        return std::future::pending().await;
    }
    let mut calling = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (locks, service, with_permits) = (locks.clone(), service.clone(), with == "permits");
        calling.spawn(async move {
            for _ in 0..CALLS {
                if !with_permits {
                    call(&service).await?;
                    continue;
                }
                let permit = locks.semaphore("partner", AT_A_TIME).ttl(TTL).acquire().await?;
                permit.run(call(&service)).await??;
                released(permit.release().await)?;
            }
            Result::<()>::Ok(())
        });
    }
    calling.join_all().await.into_iter().collect::<Result<()>>()?;
    println!("done");
    std::future::pending().await
}

async fn call(service: &str) -> Result<()> {
    let mut connection = TcpStream::connect(service).await?;
    connection.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

fn rate_limit(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let (_folder, url) = support::place()?;

    let (service, most) = runtime.block_on(serve())?;
    all_call(&url, service, "nothing", false)?;
    let without = most.swap(0, Ordering::SeqCst);
    println!("without permits: up to {without} calls at a time");
    if without <= AT_A_TIME as usize {
        return Err("the limit was never exceeded, so this run showed nothing".into());
    }
    for (one_dies, when) in [(false, ""), (true, ", after one was killed with its permit")] {
        all_call(&url, service, "permits", one_dies)?;
        let with = most.swap(0, Ordering::SeqCst);
        println!("with permits:    up to {with} calls at a time{when}");
        if with > AT_A_TIME as usize {
            return Err(format!("more than {AT_A_TIME} called at a time").into());
        }
    }
    println!("never more than {AT_A_TIME} at a time");
    Ok(())
}

fn all_call(url: &str, service: SocketAddr, with: &str, one_dies: bool) -> Result<()> {
    let service = service.to_string();
    let mut processes = Processes::new();
    let variables =
        |with| [("CALLERS_WITH", with), ("CALLERS_URL", url), ("CALLERS_SERVICE", &*service)];
    if one_dies {
        processes.start(&variables("a permit for ever"))?;
        processes.next()?;
        processes.kill(0)?;
    }
    for _ in 0..PROCESSES {
        processes.start(&variables(with))?;
    }
    for _ in 0..PROCESSES {
        processes.next()?;
    }
    Ok(())
}

async fn serve() -> Result<(SocketAddr, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let most_seen = Arc::clone(&most);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::spawn(async move {
                tokio::time::sleep(CALL).await;
                // Lower the count first: the next call begins when the connection closes.
                now.fetch_sub(1, Ordering::SeqCst);
                drop(connection);
            });
        }
    });
    Ok((address, most_seen))
}
