use super::server::*;
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn silent_listener_is_replaced() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let ttl = Duration::from_secs(10);
    let client = locks(&server.url_through(proxy.port()), ttl).await;
    let other = locks(&server.url(), ttl).await;
    let held = other.mutex("x").acquire().await.unwrap();
    let waiting = tokio::spawn(client.mutex("x").acquire());
    let listening = "SELECT min(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <> ";
    let listener = async |other_than: String| {
        let ask = format!("{listening}{other_than}");
        eventually(|| async { Some(server.sql(&ask).unwrap()).filter(|pid| !pid.is_empty()) }).await
    };
    let first = listener("0".to_owned()).await;
    proxy.silence_present();
    listener(first).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
