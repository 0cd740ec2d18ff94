use std::time::Duration;

use lockwright::{Config, ErrorKind, PrefixOptions, Requirement};

fn bad(text: &str) -> String {
    toml::from_str::<Config>(text).expect_err(text).to_string()
}

#[test]
fn every_key_is_read() {
    let config: Config = toml::from_str(
        r#"
        url = "memory:"
        ttl = "1.5s"
        wait = 2
        namespace = "shop/"
        label = "billing"
        local_turns = 1
        keep_warm = "20ms"
        require = ["fencing", "strict_fencing", "fifo", "server_restart"]
        "#,
    )
    .unwrap();
    assert_eq!(config.ttl, Some(Duration::from_millis(1_500)));
    assert_eq!(config.wait, Some(Duration::from_secs(2)));
    assert_eq!((config.local_turns, config.keep_warm), (Some(1), Some(Duration::from_millis(20))));
    assert_eq!(config.require[0], Requirement::Fencing);
    assert_eq!(config.require.len(), 4);
}

#[test]
fn json_does_as_well() {
    let config: Config = serde_json::from_str(r#"{"url": "memory:", "ttl": "30s"}"#).unwrap();
    assert_eq!(config.ttl, Some(Duration::from_secs(30)));
}

#[test]
fn problem_is_named() {
    assert!(bad(r#"url = "memory:""#.replace("url", "uri").as_str()).contains("uri"));
    let unknown = bad("url = \"memory:\"\ntll = \"3s\"");
    assert!(unknown.contains("tll") && unknown.contains("ttl"), "{unknown}");
    assert!(bad("ttl = \"3s\"").contains("url"));
    assert!(bad("url = \"memory:\"\nttl = \"soon\"").contains("500ms"));
    assert!(bad("url = \"memory:\"\nttl = -3").contains("-3"));
    let not_a_time = bad("url = \"memory:\"\nttl = true");
    assert!(not_a_time.contains("\"500ms\""), "{not_a_time}");
    assert!(bad("url = \"memory:\"\nrequire = [\"magic\"]").contains("magic"));
    assert!(bad("url = \"memory:\"\n[prefix.x]\nlabel = 1").contains("label"));
}

const GUIDE: &str = include_str!("../../docs/src/guide.md");

/// Returns the sorted alternatives that the error about a wrong key or value lists.
fn alternatives(text: &str) -> Vec<String> {
    let said = bad(text);
    let (_, all) = said.split_once("expected one of").unwrap();
    let mut all: Vec<_> = all.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    all.sort();
    all
}

#[test]
fn the_guide_has_all_that_may_be_required() {
    let all = alternatives("url = \"memory:\"\nrequire = [\"magic\"]");
    assert!(all.len() >= 17 && all.contains(&"failover".to_owned()), "{all:?}");
    for one in all {
        assert!(GUIDE.contains(&format!("`{one}`")), "{one} isn't in the guide");
    }
}

#[test]
fn schema_has_the_keys_and_requirements() {
    let schema = include_str!("../../docs/src/config.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let mut keys: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    keys.sort();
    assert_eq!(keys, alternatives("url = \"memory:\"\nmagic = 1"));
    let required = schema["properties"]["require"]["items"]["enum"].clone();
    let mut required: Vec<String> = serde_json::from_value(required).unwrap();
    required.sort();
    assert_eq!(required, alternatives("url = \"memory:\"\nrequire = [\"magic\"]"));
    let examples: Vec<_> = GUIDE.split("```toml\nurl").skip(1).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let example = format!("url{}", example.split("```").next().unwrap());
        toml::from_str::<Config>(&example).unwrap();
        let example: toml::Table = toml::from_str(&example).unwrap();
        assert!(example.keys().all(|key| keys.contains(key)), "{example:?}");
    }
}

#[test]
fn password_comes_from_a_file_or_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let mut config = Config::new("redis://me@db/");
    config.password_file = Some(file.clone());
    let refused = |config: &Config| {
        let error = config.full_url().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        error.to_string()
    };
    let missing = refused(&config);
    assert!(missing.contains("password_file") && missing.contains("No such file"), "{missing}");
    std::fs::write(&file, "\r\n").unwrap();
    assert!(refused(&config).contains("the password is empty"));
    std::fs::write(&file, "a b\n").unwrap();
    assert_eq!(config.full_url().unwrap(), "redis://me:a%20b@db/");
    // A variable that is always set.
    config.password_env = Some("PATH".to_owned());
    assert!(refused(&config).contains("both set"));
    config.password_file = None;
    assert!(config.full_url().unwrap().starts_with("redis://me:%2F"));
    config.password_env = Some("hush".to_owned());
    let not_set = refused(&config);
    assert!(not_set.contains("password_env: the variable that it names isn't set"), "{not_set}");
    assert!(!not_set.contains("hush"), "{not_set}");
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn password_is_sent_on_redis() {
    let server = lockwright_testbed::redis::Redis::options().password("a/b%").start().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "a/b%\n").unwrap();
    let mut config = Config::new(format!("redis://127.0.0.1:{}/", server.port()));
    assert_eq!(config.connect().await.unwrap_err().kind(), ErrorKind::Denied);
    config.password_file = Some(file.path().to_owned());
    config.connect().await.unwrap();
    config.connect_for_diagnosis().await.unwrap();

    config.password_file = None;
    config.credentials = Some(lockwright::CredentialProvider::new(|| async {
        let password = "a/b%".to_owned();
        Ok::<_, String>(lockwright::Credentials { username: None, password })
    }));
    config.connect().await.unwrap();
    config.url = "memory:".to_owned();
    assert_eq!(config.connect().await.unwrap_err().kind(), ErrorKind::InvalidConfig);
}

#[cfg(feature = "memory")]
mod memory {
    use super::*;

    #[tokio::test]
    async fn settings_out_of_range_are_refused() {
        for ttl in [Duration::ZERO, Duration::from_secs(1 << 40)] {
            let mut config = Config::new("memory:");
            config.ttl = Some(ttl);
            let error = config.connect().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains("takes 10ms to"), "{error}");
        }
        let mut config = Config::new("memory:");
        config.namespace = "a\nb".to_owned();
        assert_eq!(config.connect().await.unwrap_err().kind(), ErrorKind::InvalidConfig);
        for turns in [0, 65] {
            let mut config = Config::new("memory:");
            config.local_turns = Some(turns);
            let error = config.connect().await.unwrap_err();
            assert!(error.to_string().contains("from 1 to 64"), "{error}");
        }
    }

    #[tokio::test]
    async fn refusal_of_a_promise_names_backends_that_keep_it() {
        let mut config = Config::new("memory:");
        config.require = vec![Requirement::StrictFencing, Requirement::Fifo];
        config.connect().await.unwrap();
        config.require = vec![Requirement::Machine];
        let error = config.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        let text = error.to_string();
        assert!(text.contains("memory") && text.contains("require = [\"machine\"]"), "{text}");
        if cfg!(feature = "sqlite") {
            assert!(text.contains("sqlite"), "{text}");
        }
        config.require = vec![Requirement::Failover];
        let text = config.connect().await.unwrap_err().to_string();
        let some_can = cfg!(any(feature = "etcd", feature = "zookeeper"));
        assert!(text.contains(if some_can { " can" } else { "no other backend" }), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_settings_are_those_of_the_requests() {
        let mut config = Config::new("memory:");
        config.ttl = Some(Duration::from_secs(7));
        config.wait = Some(Duration::from_millis(20));
        config.namespace = "shop/".to_owned();
        let locks = config.connect().await.unwrap();
        let guard = locks.mutex("x").acquire().await.unwrap();
        assert!(guard.remaining() < Duration::from_secs(7));
        assert!(guard.remaining() > Duration::from_secs(5));
        assert!(locks.mutex("x").acquire().await.unwrap_err().is_timed_out());
        let longer = PrefixOptions { ttl: Some(Duration::from_secs(60)), ..Default::default() };
        config.prefix.insert("jobs/".to_owned(), longer);
        let with_prefix = config.connect().await.unwrap();
        let job = with_prefix.mutex("jobs/x").acquire().await.unwrap();
        assert!(job.remaining() > Duration::from_secs(50));
        guard.release().await.unwrap();
        config.keep_warm = Some(Duration::from_secs(1));
        for (turns, is_kept) in [(1, false), (2, true)] {
            config.local_turns = Some(turns);
            let locks = config.connect().await.unwrap();
            let token = locks.mutex("x").acquire().await.unwrap().token();
            let again = locks.mutex("x").acquire().await.unwrap().token();
            assert_eq!(token == again, is_kept);
        }
    }
}
