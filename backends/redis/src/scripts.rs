//! The Lua scripts, each joined from files. The server runs nothing else during a script, but keeps
//! a failed script's writes. A request with a token is idempotent.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Cmd;

use crate::errors::Effect;

pub(crate) const IDLE_FENCE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    hash: String,
}

/// A request to the node of `key`. `before`, if any, is sent directly before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'c> {
    pub(crate) key: &'c str,
    pub(crate) before: Option<&'c Cmd>,
    pub(crate) what: Body<'c>,
    pub(crate) effect: Effect,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Body<'c> {
    Script { script: &'c Script, keys: &'c [&'c str], arguments: &'c [&'c str] },
    Command(&'c Cmd),
}

macro_rules! scripts {
    ($($name:ident = $($file:literal)+;)*) => {$(
        pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!($(include_str!(concat!("scripts/", $file))),+)));
    )*};
}

scripts! {
    ACQUIRE = "acquire.lua" "value.lua" "exclusive.lua" "waiters.lua" "clock.lua" "shared_and_permits.lua" "queue.lua" "acquire_full.lua";
    FAST_ACQUIRE = "fast_acquire.lua";
    FAST_RELEASE = "fast_release.lua";
    RENEW = "value.lua" "clock.lua" "renew.lua";
    RELEASE = "release.lua" "value.lua" "exclusive.lua" "waiters.lua" "clock.lua" "shared_and_permits.lua" "queue.lua" "release_full.lua";
    OFFER_AGAIN = "value.lua" "exclusive.lua" "waiters.lua" "clock.lua" "shared_and_permits.lua" "queue.lua" "offer_again.lua";
    SWAP = "value.lua" "exclusive.lua" "waiters.lua" "clock.lua" "shared_and_permits.lua" "queue.lua" "swap.lua";
    BREAK = "value.lua" "exclusive.lua" "waiters.lua" "clock.lua" "shared_and_permits.lua" "queue.lua" "break.lua";
    INSPECT = "clock.lua" "inspect.lua";
    VOTE = "vote.lua" "value.lua" "exclusive.lua" "vote_full.lua";
    WITHDRAW = "withdraw.lua";
    LOOK = "look.lua";
    ADMIT = "admit.lua";
    RAISE = "value.lua" "raise.lua";
    MOVING_MARK = "value.lua" "exclusive.lua" "moving_mark.lua";
    MOVING_RELEASE = "value.lua" "moving_release.lua";
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    pub(crate) fn call<'c>(
        &'c self,
        keys: &'c [&'c str],
        arguments: &'c [&'c str],
        effect: Effect,
    ) -> Call<'c> {
        let key = keys.first().copied().unwrap_or_default();
        let what = Body::Script { script: self, keys, arguments };
        Call { key, before: None, what, effect }
    }

    pub(crate) fn command(&self, is_known: bool, keys: &[&str], arguments: &[&str]) -> Cmd {
        let (command, script) =
            if is_known { ("EVALSHA", &*self.hash) } else { ("EVAL", self.text) };
        let length = keys.iter().chain(arguments).map(|word| word.len()).sum::<usize>();
        let count = 3 + keys.len() + arguments.len();
        let mut cmd = Cmd::with_capacity(count, command.len() + script.len() + 8 + length);
        cmd.arg(command).arg(script).arg(keys.len()).arg(keys).arg(arguments);
        cmd
    }
}

impl<'c> Call<'c> {
    pub(crate) fn command(key: &'c str, command: &'c Cmd, effect: Effect) -> Self {
        Self { key, before: None, what: Body::Command(command), effect }
    }

    pub(crate) fn is_of(self, scripts: &[&Script]) -> bool {
        let Body::Script { script, .. } = self.what else { return false };
        scripts.iter().any(|one| std::ptr::eq(*one, script))
    }
}
