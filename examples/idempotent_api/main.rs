//! Repeated requests with the same `idempotency-key` take effect exactly once.
//!
//! ```text
//! cargo run --example idempotent_api [--features redis -- --url redis://127.0.0.1/]
//! ```
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lockwright::Locks;
use support::{Processes, Result, released, told};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

const PROCESSES: usize = 3;
const PAYMENTS: usize = 20;

fn main() -> Result<()> {
    match std::env::var("API_FOLDER") {
        Ok(folder) => support::runtime()?.block_on(api(folder.as_ref())),
        Err(_) => idempotent_api(),
    }
}

async fn api(folder: &Path) -> Result<()> {
    let locks = match told("API_LOCKS")? {
        url if url.is_empty() => None,
        url => Some(lockwright::connect(&url).await?),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (connection, _) = listener.accept().await?;
        let (locks, folder) = (locks.clone(), folder.to_owned());
        // The payment completes even if the client hangs up.
        tokio::spawn(async move {
            let mut connection = BufReader::new(connection);
            let Ok(Some(key)) = key_of(&mut connection).await else { return };
            let (status, body) = match pay(locks.as_ref(), &folder, &key).await {
                Ok(answer) => ("201 Created", answer),
                Err(error) => ("503 Service Unavailable", error.to_string()),
            };
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
            let _ = connection.write_all(answer.as_bytes()).await;
        });
    }
}

async fn key_of(
    connection: &mut BufReader<tokio::net::TcpStream>,
) -> std::io::Result<Option<String>> {
    let mut key = None;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await?;
        if line.trim_end().is_empty() {
            return Ok(key);
        }
        if let Some(("idempotency-key", value)) = line.trim_end().split_once(": ") {
            key = Some(value.to_owned());
        }
    }
}

async fn pay(locks: Option<&Locks>, folder: &Path, key: &str) -> Result<String> {
    let Some(locks) = locks else { return charge_or_look_up(folder, key).await };
    let guard = locks.mutex(format!("payment/{key}")).acquire().await?;
    let answer = guard.run(charge_or_look_up(folder, key)).await??;
    released(guard.release().await)?;
    Ok(answer)
}

async fn charge_or_look_up(folder: &Path, key: &str) -> Result<String> {
    let answers = folder.join(key);
    if let Ok(answer) = fs::read_to_string(&answers) {
        return Ok(answer);
    }
    tokio::time::sleep(Duration::from_millis(2)).await; // simulates the bank's latency
    let mut charges = OpenOptions::new().create(true).append(true).open(folder.join("charges"))?;
    charges.write_all(format!("{key}\n").as_bytes())?;
    let number = charges.metadata()?.len();
    let answer = format!("charge {number}");
    fs::write(&answers, &answer)?;
    Ok(answer)
}

fn idempotent_api() -> Result<()> {
    let (folder, url) = support::place()?;
    let without = pay_all(&folder.path().join("without"), "")?;
    println!("without the lock: {PAYMENTS} payments, {} charges", without.charges);
    if without.charges == PAYMENTS {
        return Err("no payment was charged twice, so this run showed nothing".into());
    }
    let with = pay_all(&folder.path().join("with"), &url)?;
    println!("with the lock:    {PAYMENTS} payments, {} charges", with.charges);
    if with.charges != PAYMENTS || with.contradicted != 0 {
        return Err(format!(
            "each should have been charged once, and {} were answered in two ways",
            with.contradicted
        )
        .into());
    }
    println!("each of {PAYMENTS} payments was charged exactly once");
    Ok(())
}

struct Paid {
    charges: usize,
    /// Payments that got two different answers.
    contradicted: usize,
}

fn pay_all(folder: &Path, locks: &str) -> Result<Paid> {
    fs::create_dir(folder)?;
    let mut processes = Processes::new();
    for _ in 0..PROCESSES {
        let folder = folder.display().to_string();
        processes.start(&[("API_FOLDER", &folder), ("API_LOCKS", locks)])?;
    }
    let addresses = (0..PROCESSES).map(|_| Ok(processes.next()?.1)).collect::<Result<Vec<_>>>()?;
    let mut contradicted = 0;
    for payment in 0..PAYMENTS {
        let key = format!("payment-{payment}");
        // The client hangs up, and then repeats its request to each process.
        drop(send(&addresses[payment % PROCESSES], &key)?);
        let asked = addresses.iter().map(|address| send(address, &key));
        let asked = asked.collect::<Result<Vec<_>>>()?;
        let mut answers = asked.into_iter().map(answer).collect::<Result<Vec<_>>>()?;
        answers.dedup();
        contradicted += usize::from(answers.len() > 1);
    }
    let charges = fs::read_to_string(folder.join("charges"))?.lines().count();
    Ok(Paid { charges, contradicted })
}

fn send(address: &str, key: &str) -> Result<TcpStream> {
    let mut connection = TcpStream::connect(address)?;
    let head =
        format!("POST /payments HTTP/1.1\r\nhost: {address}\r\nidempotency-key: {key}\r\n\r\n");
    connection.write_all(head.as_bytes())?;
    Ok(connection)
}

fn answer(mut connection: TcpStream) -> Result<String> {
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if !head.starts_with("HTTP/1.1 201") {
        return Err(format!("the API answered {answer:?}").into());
    }
    Ok(body.to_owned())
}
