use lockwright_core::ErrorKind;
use lockwright_redis::Config;

use crate::connect::SECRET;

#[test]
fn every_form_is_read() {
    for url in [
        "redis+sentinel://a:1,b:2,c:3/mymaster",
        "redis+sentinel://a,b/my-master.1_x/3?prefix=shop:",
        "REDIS+SENTINEL://[::1]:1,[::2]/m",
        "redis+sentinel://u:p%2Fq@a:1/m?sentinel_user=s&sentinel_password=p+q%26",
        "redis+sentinel://:p,q@a:1,b/m",
        "redis+cluster://a:1,b:2",
        "redis+cluster://u:p@q@a,b:2,[::1]:3/?prefix=a@b",
        "redis+cluster://a?replicas=2&replica_timeout=0.5s",
        "valkey://u:p@a:1/3?prefix=shop:",
        "Valkey+Sentinel://a:1,b:2/mymaster",
        "valkey+cluster://a:1,b:2",
        "valkey+unix:///run/valkey.sock?db=1",
        #[cfg(feature = "tls")]
        "valkeys://a",
        #[cfg(feature = "tls")]
        "valkeys+sentinel://a:1,b:2/mymaster",
        #[cfg(feature = "tls")]
        "valkeys+cluster://a:1,b:2",
        " redis://a ",
        "redis://u:a%2Fb%23c@localhost:6379/1",
        "redis://[::1]:1/?prefix=a@b:",
        "redis://u:a@b@h",
    ] {
        if let Err(error) = Config::new(url) {
            panic!("{url}: {error}");
        }
    }
}

#[test]
fn problem_of_a_url_is_reported_without_secrets() {
    for (url, says) in [
        (String::new(), "no Redis URL"),
        ("127.0.0.1:6379".to_owned(), "no Redis URL"),
        (format!("http://u:{SECRET}@localhost/"), "no Redis URL"),
        (format!("redis://u:{SECRET}@localhost:99999/"), "the port \"99999\""),
        (format!("redis://u:{SECRET}@[::1]:x/"), "the port \"x\""),
        ("redis+unix:?db=1".to_owned(), ""),
        ("redis+unix:///tmp/x?db=one".to_owned(), "database is not a number"),
        ("redis://localhost/?prefix=%0A".to_owned(), "control characters"),
        (format!("redis+sentinel://u:{SECRET}@a:1,b:2"), "master's name is missing"),
        (format!("redis+sentinel://u:{SECRET}@a:1,b:2/"), "master's name is missing"),
        (format!("redis+sentinel://u:{SECRET}@a:1/m y"), "master's name \"m y\""),
        (format!("redis+sentinel://u:{SECRET}@a:1/m/zero"), "database is not a number"),
        (format!("redis+sentinel://u:{SECRET}@a:1/m/0/0"), "too much"),
        (format!("redis+sentinel://u:{SECRET}@a:1,b:x/m"), "the port \"x\""),
        (format!("redis+sentinel://u:{SECRET}@a:1,,b:2/m"), "host is missing"),
        (format!("redis+sentinel://u:{SECRET}@a:1,:2/m"), "host is missing"),
        (format!("redis+sentinel://u:{SECRET}@a:1,a:1/m"), "a:1 is listed twice"),
        (format!("redis+sentinel://u:{SECRET}@a:26379,a/m"), "a:26379 is listed twice"),
        (format!("redis+sentinel://u:{SECRET}@0.0.0.0:1/m"), "wildcard"),
        (format!("redis+sentinel://u:{SECRET}/x@a:1/m"), "%2F"),
        (format!("redis+sentinel://u:1?{SECRET}@a:1/m"), "%3F"),
        (format!("redis+sentinel://u:1#{SECRET}@a:1/m"), "%23"),
        (format!("redis+sentinel://:{SECRET}/m"), "host is missing"),
        (format!("redis+sentinel://me:{SECRET}/m"), "not a port"),
        (format!("redis+sentinel://a:1/m?sentinel_pass={SECRET}"), "\"sentinel_pass\""),
        (format!("redis+sentinel://a:1/m?{SECRET}=1"), "is unknown"),
        ("redis+sentinel:a:1/m".to_owned(), "the // after the scheme"),
        ("redis+sentinel://a:1/m?prefix=a&prefix=b".to_owned(), "listed twice"),
        ("redis+sentinel://a:1/m?ca=/x".to_owned(), "rediss"),
        ("redis+sentinel://a:1/m?prefix=a#b".to_owned(), "%23"),
        (format!("redis+cluster://u:{SECRET}@a:1,b:2/0"), "a Cluster has none"),
        (format!("redis+cluster://a?sentinel_password={SECRET}"), "is unknown"),
        (format!("redis://a?sentinel_password={SECRET}"), "is unknown"),
        (format!("redis://u:{SECRET}@a:1,b:2/0"), "redis+cluster:"),
        (format!("redis://u:{SECRET}@a/0#insecure"), "always checked"),
        (format!("redis+other://u:{SECRET}@a/0"), "no Redis URL"),
        (format!("valkey+other://u:{SECRET}@a/0"), "no Redis URL"),
        (format!("valkey+sentinel://u:{SECRET}@a:1,b:2"), "master's name is missing"),
    ] {
        let error = Config::new(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}: {error}");
        let text = error.to_string();
        assert!(text.contains(says), "{url}: {text}");
        assert!(!text.contains("nvalidClientConfig"), "{url}: {text}");
        assert_eq!(text.lines().count(), 1, "{url}: {text}");
        // A parameter's name isn't a secret.
        assert!(!text.contains(SECRET) || url.contains(&format!("?{SECRET}=")), "{url}: {text}");
        let form = if url.starts_with("redis+sentinel") { "MASTER" } else { "redis" };
        assert!(text.contains(form), "{url}: {text}");
    }
}

#[test]
fn possible_secret_in_the_wrong_place_is_not_shown() {
    for url in [
        format!("redis://{SECRET}@a:1/?x=1"),
        format!("redis+sentinel://{SECRET}@a:1,b:2"),
        format!("redis+sentinel://a:1/m?sentinel_pasword={SECRET}"),
        format!("redis+sentinel://a:1/m?prefix=x&SENTINEL_PWD={SECRET}&ca=/x"),
        format!("redis+unix:///socket?pw={SECRET}"),
    ] {
        let error = Config::new(&url).unwrap_err().to_string();
        assert!(!error.contains(SECRET), "{url}: {error}");
    }
    let alone = format!("{:?}", Config::new(&format!("redis://{SECRET}@a:1/")).unwrap());
    assert!(!alone.contains(SECRET) && alone.contains("***@a:1/"), "{alone}");
}

#[cfg(not(feature = "tls"))]
#[test]
fn backend_outside_this_build_is_named() {
    for url in ["rediss://a", "rediss+sentinel://a/m", "rediss+cluster://a,b", "valkeys://a"] {
        let error = Config::new(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
        assert!(error.to_string().contains("the feature `tls`"), "{error}");
    }
}
