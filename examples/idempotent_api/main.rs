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
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use lockwright_tower::LockLayer;
use support::{Processes, Result, told};
use tokio::net::TcpListener;

const PROCESSES: usize = 3;
const PAYMENTS: usize = 20;

fn main() -> Result<()> {
    match std::env::var("API_FOLDER") {
        Ok(folder) => support::runtime()?.block_on(api(folder.into())),
        Err(_) => idempotent_api(),
    }
}

async fn api(folder: PathBuf) -> Result<()> {
    let pay = async move |headers: HeaderMap| match key_of(&headers) {
        None => (StatusCode::BAD_REQUEST, "send the header idempotency-key".to_owned()),
        Some(key) => match charge_or_look_up(&folder, key).await {
            Ok(answer) => (StatusCode::CREATED, answer),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
    };
    let mut api = Router::new().route("/payments", post(pay));
    let url = told("API_LOCKS")?;
    if !url.is_empty() {
        let name = |request: &Request| Some(format!("payment/{}", key_of(request.headers())?));
        api = api.layer(LockLayer::new(lockwright::connect(&url).await?, name));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    Ok(axum::serve(listener, api).await?)
}

fn key_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("idempotency-key")?.to_str().ok()
}

async fn charge_or_look_up(folder: &Path, key: &str) -> Result<String> {
    let answers = folder.join(key);
    if let Ok(answer) = fs::read_to_string(&answers) {
        return Ok(answer);
    }
    tokio::time::sleep(Duration::from_millis(2)).await; // simulates the bank's latency
    // From here on, nothing awaits, so a client that hangs up can't separate charge and answer.
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
    let head = format!(
        "POST /payments HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nidempotency-key: {key}\r\n\r\n"
    );
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
