//! Runs the conformance suite over TLS, with only the documented permissions.
#![forbid(unsafe_code)]

mod suite;

use std::process::ExitCode;

use lockwright_testbed::Redis;

/// The ACL rules that the crate's documentation lists, but for any lock name.
const RULES: &str = "~* &lockwright:* -@all +hello +subscribe +publish +eval +evalsha +info \
                     +config|get +time +scan +get +getrange +mget +set +del +exists +type +pttl \
                     +pexpire +pexpireat +hget +hmget +hset +hdel +hexists +zadd +zrem +zrange \
                     +zrangebyscore +zscore +rpush +lpop +lpos +lrange +lrem +acl|dryrun";

fn main() -> ExitCode {
    let options = Redis::options().tls().user("locks", "p@ss/word", RULES);
    // The default user can't log in, but Redis loads its append-only file as this user.
    let options = options.set("user", "default off ~* &* +@all");
    suite::main(options, Some("redis-tls"))
}
