//! Tests that parsing a configuration or ticket never panics, and that errors show no secret.

use lockwright::{Config, Ticket};
use lockwright_properties::{assert_clear, no_password_is_shown, texts};

#[test]
fn configurations() {
    let valid = [
        "url = \"memory:\"\nttl = \"1.5s\"\nwait = 2\nnamespace = \"shop/\"\nlabel = \"billing\"\n",
        "url = \"sqlite:/x\"\nsweep = \"1d\"\nrequire = [\"fencing\", \"fifo\"]\n",
        "url = \"memory:\"\nttl = 1e300\nwait = -1\n",
    ];
    texts(&valid, |text| match toml::from_str::<Config>(text) {
        Ok(config) => assert!(!format!("{config:?}").is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}

#[test]
fn a_configuration_shows_no_password() {
    no_password_is_shown(&["redis://me:"], &["db/1?x=1"], |url| {
        serde_json::from_value::<Config>(serde_json::json!({ "url": url }))
    });
}

#[test]
fn tickets() {
    let valid = [
        r#"{"name":"a","mode":"exclusive","token":"0123456789abcdef0123456789abcdef","fence":7,"ttl":{"secs":30,"nanos":0},"is_fixed":false,"is_open":true}"#,
        r#"{"name":"a","mode":"shared","token":"0123456789abcdef0123456789abcdef","fence":9007199254740991,"ttl":{"secs":0,"nanos":999999999},"is_fixed":true}"#,
        r#"{"name":"a","mode":{"permits":{"count":2,"of":3}},"token":"0123456789abcdef0123456789abcdef","fence":7,"ttl":{"secs":18446744073709551615,"nanos":0},"is_fixed":false}"#,
    ];
    for text in valid {
        serde_json::from_str::<Ticket>(text).unwrap();
    }
    texts(&valid, |text| match serde_json::from_str::<Ticket>(text) {
        Ok(ticket) => {
            let printed = serde_json::to_string(&ticket).unwrap();
            assert_eq!(serde_json::from_str::<Ticket>(&printed).unwrap(), ticket);
        }
        Err(error) => assert_clear(error),
    });
}

#[tokio::test]
async fn a_ticket_that_was_changed_takes_over_nothing() {
    let locks = lockwright::connect("memory:").await.unwrap();
    let held = locks.mutex("a").acquire().await.unwrap();
    let ticket = serde_json::json!({
        "name": "a", "mode": "exclusive", "token": "0123456789abcdef0123456789abcdef", "fence": 7,
        "ttl": {"secs": u64::MAX, "nanos": 0}, "is_fixed": false,
    });
    for ttl in [0, 1, 30, u64::MAX] {
        let mut ticket = ticket.clone();
        ticket["ttl"]["secs"] = ttl.into();
        let ticket: Ticket = serde_json::from_value(ticket).unwrap();
        assert_clear(locks.resume(&ticket).await.unwrap_err());
    }
    held.release().await.unwrap();
}
