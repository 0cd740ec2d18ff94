//! A service that exports the metrics of its locks to Prometheus, as `/metrics`. Given an address
//! such as `127.0.0.1:9464`, it serves there until it is ended.
#![forbid(unsafe_code)]

use std::time::Duration;

use axum::{Router, routing::get};
use lockwright::Locks;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The upper limits of the buckets of both histograms, in seconds.
const BUCKETS: [f64; 9] = [0.0001, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];

/// Eight orders in turn, and a report that exceeds its `max_hold`.
async fn work(locks: &Locks) -> lockwright::Result<()> {
    let mut orders = JoinSet::new();
    for _ in 0..8 {
        let order = locks.mutex("orders/42").group("orders");
        orders.spawn(
            async move { order.with(async |_| sleep(Duration::from_millis(5)).await).await },
        );
    }
    let report = locks.mutex("report").group("reports").ttl(Duration::from_millis(900));
    let reporting = report.max_hold(Duration::from_millis(600)).with(async |_| {
        sleep(Duration::from_secs(60)).await;
    });
    assert!(reporting.await.is_err(), "the report took 60 s");
    orders.join_all().await.into_iter().collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS)?.install_recorder()?;
    let service = Router::new().route("/metrics", get(async move || recorder.render()));
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let mut client = TcpStream::connect(listener.local_addr()?).await?;
    tokio::spawn(async move { axum::serve(listener, service).await });
    let locks = lockwright::connect("memory:").await?;
    work(&locks).await?;
    while address.is_some() {
        work(&locks).await?;
    }
    client.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    println!("{answer}");
    Ok(())
}
