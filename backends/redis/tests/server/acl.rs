use lockwright_core::{
    BreakMode, BreakTarget, Claim, Clock, DistributedLock, Error, ErrorKind, Fault, Mode,
    ReleaseMode, Renew, Result, Wait,
};
use lockwright_redis::Config;
use lockwright_testbed as testbed;

use crate::common::{claim, connect, fails, grant, name, patient, until, user};
use crate::connect::{SECRET, wrong};

pub(crate) const SCRIPTED: &str = "time get getrange mget set del exists type pttl pexpire \
                                   pexpireat hget hmget hset hdel hexists zadd zrem zrange zrangebyscore \
                                   zscore rpush lpop lpos lrange lrem";

/// The documented commands, without those of `SCRIPTED`.
const OTHERS: &str = "hello subscribe publish eval evalsha client|tracking client|caching info \
                      config|get scan";

fn needed() -> impl Iterator<Item = &'static str> {
    OTHERS.split_whitespace().chain(SCRIPTED.split_whitespace())
}

fn rules_without(missing: &str) -> String {
    let mut rules = "~orders/* ~lockwright:* &lockwright:* -@all".to_owned();
    for command in needed().filter(|command| *command != missing) {
        rules += &format!(" +{command}");
    }
    rules
}

pub(crate) fn rules() -> String {
    rules_without("")
}

async fn everything(url: &str) -> Result<()> {
    let redis = patient(Config::new(url)?).connect().await?;
    let (ours, theirs) = (claim("orders/42"), claim("orders/42"));
    redis.try_acquire(&ours).await?;
    redis.renew(&[Renew::of(&ours)]).await?;
    redis.acquire(&theirs, Wait::Until(Clock::boot().now())).await?;
    let reading = Claim { mode: Mode::Shared, ..claim("orders/43") };
    redis.try_acquire(&reading).await?;
    redis.renew(&[Renew::of(&reading)]).await?;
    redis.try_acquire(&reading).await?;
    redis.release(&reading, ReleaseMode::Plain).await?;
    let [held, next, last] = [(); 3].map(|()| claim("orders/44"));
    redis.try_acquire(&held).await?;
    for waits in [&next, &last, &last] {
        redis.acquire(waits, Wait::Until(Clock::boot().now())).await?;
    }
    redis.release(&last, ReleaseMode::Plain).await?;
    redis.release(&held, ReleaseMode::Plain).await?;
    redis.release(&next, ReleaseMode::Plain).await?;
    redis.inspect(&name("orders/42")).await?;
    let alien = redis.inspect(&name("orders/alien")).await.unwrap_err();
    if alien.kind() != ErrorKind::Conflict {
        return Err(alien);
    }
    redis.list("orders/", None).await?;
    let how = BreakMode::RunOut;
    redis.break_lock(&ours.name, BreakTarget::Token(ours.token), how, "ops", "test").await?;
    redis.release(&ours, ReleaseMode::Reconcile).await?;
    // The doctor may report a missing permission as a finding instead of an error.
    let findings = redis.doctor().await?;
    match findings.iter().find(|finding| finding.code.ends_with("denied")) {
        Some(finding) => Err(Error::new(ErrorKind::Denied, finding.fix.clone())),
        None => Ok(()),
    }
}

#[tokio::test]
async fn documented_permissions_are_necessary_and_sufficient() {
    let server = testbed::Redis::start().unwrap();
    let with_rules = |rules: &str| {
        let url = user(&server, "locks", SECRET, rules);
        server.command::<()>(&["FLUSHALL"]).unwrap();
        server.command::<()>(&["HSET", "orders/alien", "what", "no lock"]).unwrap();
        // Now the user must load the scripts with `EVAL`, which needs a permission.
        server.command::<()>(&["SCRIPT", "FLUSH"]).unwrap();
        url
    };
    everything(&with_rules(&rules())).await.unwrap();
    for missing in needed().filter(|command| *command != "hello") {
        let url = with_rules(&rules_without(missing));
        let Err(error) = everything(&url).await else { panic!("{missing} isn't needed") };
        assert_eq!(error.kind(), ErrorKind::Denied, "{missing}: {error:?}");
        let text = error.to_string();
        let named = text.to_lowercase();
        assert!(named.contains(missing), "{missing}: {text}");
        assert!(!text.contains(SECRET), "{text}");
    }
    for (missing, instead) in
        [("~orders/*", "~other/*"), ("~lockwright:*", "~other/*"), ("&lockwright:*", "&other")]
    {
        let url = with_rules(&rules().replace(missing, instead));
        fails(everything(&url).await, ErrorKind::Denied);
    }
}

#[tokio::test]
async fn a_restart_is_survived_only_where_the_log_is_loaded_with_enough_rights() {
    let all = "~* &* +@all";
    let with_dryrun = format!("{} +acl|dryrun", rules());
    for (rules, default, survives, says) in [
        // Servers without ACLs have this default user.
        (with_dryrun.as_str(), "on nopass ~* &* +@all", true, None),
        (&with_dryrun, "off ~* &* +@all", true, None),
        (&with_dryrun, "off", false, Some("may not write")),
        (all, "off", false, Some("may not write")),
        (all, "on nopass ~cache:* +@all", false, Some("may not write")),
        (&rules(), "off ~* &* +@all", false, Some("can't check")),
    ] {
        let options = testbed::Redis::options().append_only("always");
        let options =
            options.user("locks", SECRET, rules).set("user", format!("default {default}"));
        let mut server = options.start().unwrap();
        let redis = connect(&server.url()).await;
        let case = format!("{rules} and {default}");
        assert_eq!(redis.profile().survives.contains(Fault::ServerRestart), survives, "{case}");
        let findings = redis.doctor().await.unwrap();
        let found = findings.iter().find(|finding| finding.code == "persistence");
        assert_eq!(found.is_some(), says.is_some(), "{case}: {findings:?}");
        if let (Some(found), Some(says)) = (found, says) {
            assert!(found.what.contains(says), "{case}: {found:?}");
        }
        if survives {
            grant(&redis, &claim("orders/42")).await;
            server.restart(true).unwrap();
            assert_eq!(server.command::<i64>(&["EXISTS", "orders/42"]).unwrap(), 1, "{case}");
        }
    }
}

#[tokio::test]
async fn documented_permissions_are_sufficient_by_sentinel_too() {
    let enough = format!("{} +role", rules());
    let servers = testbed::Redis::options().user("locks", SECRET, &enough);
    let set = testbed::Sentinels::options().servers(servers).start().unwrap();
    let password = format!(">{SECRET}");
    let watcher = |rules: &[&str]| {
        for sentinel in &set.sentinels {
            let user = ["ACL", "SETUSER", "watcher", "reset", "on", &password];
            sentinel.command::<()>(&[&user, rules].concat()).unwrap();
        }
    };
    let url = format!("{}?sentinel_user=watcher&sentinel_password={SECRET}", set.url());
    watcher(&["-@all", "+subscribe", "&+switch-master"]);
    wrong(&url, ErrorKind::Denied, "+sentinel|master").await;

    watcher(&["-@all", "+subscribe", "&+switch-master", "+sentinel|master"]);
    let redis = connect(&url).await;
    grant(&redis, &claim("orders/42")).await;
    let clients = || set.sentinels[0].command::<String>(&["CLIENT", "LIST"]).unwrap();
    let listens = |client: &str| client.contains(" user=watcher ") && client.contains(" sub=1 ");
    until(|| clients().lines().any(listens)).await;

    let without = ["ACL", "SETUSER", "locks", "-role"];
    set.servers[0].command::<()>(&without).unwrap();
    wrong(&url, ErrorKind::Denied, "+role").await;
}
