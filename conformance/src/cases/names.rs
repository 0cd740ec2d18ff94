use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{ErrorKind, LockName, Locks, Profile};

use crate::case::{Case, cases};
use crate::context::{Context, fails};
use crate::failure::{Failure, Verdict, ensure};

pub(super) const CASES: &[Case] = cases! { Names:
    a_prefix_is_another_name []
        "a, a/b, a/ and ab never block each other";
    case_matters []
        "names are compared byte by byte";
    spaces_and_accents_matter []
        "nothing is trimmed, folded or normalised";
    awkward_names_are_names []
        "braces, quotes, wildcards, dots and emoji mean nothing to the server";
    the_longest_name_is_a_name []
        "names have up to 512 bytes, and all of them are compared";
    wildcards_in_a_prefix_mean_nothing []
        "a listing compares its prefix literally";
    bad_names_are_refused []
        "names that are empty, too long, padded or contain control characters are refused, with the rule";
    bad_ttls_are_refused []
        "zero and huge TTLs are refused, with the valid range";
    a_missing_mode_is_refused [MissingMode]
        "a mode that the backend doesn't support is refused as Unsupported";
    a_namespace_keeps_clients_apart []
        "a namespace separates clients, and never appears in their answers";
    a_closed_client_refuses []
        "after close, new requests are refused, and existing holds stay valid";
};

async fn independent(context: &Context, names: &[&str]) -> Verdict {
    let claims: Vec<_> = names.iter().map(|name| context.long_claim(name)).collect();
    context.take_all(&claims).await?;
    let held = context.held().await?;
    let listed: BTreeSet<&str> = held.iter().map(LockName::as_str).collect();
    let wanted: BTreeSet<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
    ensure!(listed == wanted, "held: {wanted:?}, listed: {listed:?}");
    for claim in &claims {
        let holders = context.backend.inspect(&claim.name).await?.holders;
        let is_shown = holders.len() == 1 && holders[0].token == Some(claim.token);
        ensure!(is_shown, "the holders of {} are shown as {holders:?}", claim.name);
    }
    context.release_all(&claims).await
}

async fn a_prefix_is_another_name(context: Context) -> Verdict {
    independent(&context, &["a", "a/b", "a/", "ab", "a/b/c", "a//b", "b/a", "a:b", "a b"]).await
}

async fn case_matters(context: Context) -> Verdict {
    independent(&context, &["orders", "Orders", "ORDERS", "straße", "strasse", "STRASSE"]).await
}

async fn spaces_and_accents_matter(context: Context) -> Verdict {
    independent(&context, &["a  b", "a b", "a\u{a0}b", "e", "é", "\u{e9}x", "e\u{301}x"]).await
}

async fn awkward_names_are_names(context: Context) -> Verdict {
    let brackets = ["{x}", "x", "{x}1", "{x}2", "{y}", "{}", "}{", "a{b}c", "b", "[a]"];
    let paths = ["..", ".", "./x", "../x", "%", "a%b", "_", "*", "?"];
    let quotes = ["'", "\"", "\\", "\\x", "$1", ":x", "'; --", "#"];
    let words = ["a\u{200b}b", "🔒", "null", "0", "-1", "fence", "a=b&c", "a\u{202e}b"];
    let names = [&brackets[..], &paths, &quotes, &words].concat();
    independent(&context, &names).await
}

async fn the_longest_name_is_a_name(context: Context) -> Verdict {
    let room = LockName::MAX_LEN - context.root.len();
    let long = "x".repeat(room);
    let last = format!("{}y", "x".repeat(room - 1));
    let wide = "é".repeat(room / 2);
    independent(&context, &[&long, &last, &wide]).await
}

async fn wildcards_in_a_prefix_mean_nothing(context: Context) -> Verdict {
    let names = ["ab", "a_b", "a%b", "a*b", "axb", "Ab", "a", "a[b", "a\\b", "a b"];
    let claims = names.map(|name| context.long_claim(name));
    context.take_all(&claims).await?;
    for prefix in ["a_", "a%", "a*", "a", "A", "a[", "a\\", "a?", "a ", "", "ax", "zz"] {
        let whole = format!("{}{prefix}", context.root);
        let listed: BTreeSet<LockName> = context.listed(prefix).await?.into_iter().collect();
        let names = claims.iter().map(|claim| claim.name.clone());
        let wanted = names.filter(|name| name.as_str().starts_with(&whole)).collect();
        ensure!(listed == wanted, "{prefix:?} lists {listed:?} and not {wanted:?}");
    }
    context.release_all(&claims).await
}

async fn bad_names_are_refused(context: Context) -> Verdict {
    let locks = context.client().await?;
    let long = "x".repeat(LockName::MAX_LEN + 1);
    for name in ["", " a", "a ", "a\nb", "a\0b", "a\u{85}", &long] {
        fails(locks.mutex(name).acquire().await, ErrorKind::InvalidInput)?;
        fails(locks.mutex(name).try_acquire().await, ErrorKind::InvalidInput)?;
        fails(locks.inspect(name).await, ErrorKind::InvalidInput)?;
    }
    Ok(())
}

async fn bad_ttls_are_refused(context: Context) -> Verdict {
    let locks = context.client().await?;
    let (shortest, longest) = (*context.profile.ttl.start(), *context.profile.ttl.end());
    ensure!(!shortest.is_zero(), "the profile takes a TTL of zero");
    let short = shortest - Duration::from_nanos(1);
    for ttl in [Duration::ZERO, short, longest + Duration::from_nanos(1), Duration::MAX] {
        match locks.mutex("x").ttl(ttl).acquire().await {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                let text = error.to_string();
                ensure!(text.contains("takes"), "the error doesn't name the valid range: {text}");
            }
            other => return Err(Failure::new(format!("{ttl:?} was answered {other:?}"))),
        }
    }
    let longest = longest.min(Profile::LONGEST_TTL);
    locks.mutex("x").ttl(longest).acquire().await?.release().await?;
    Ok(())
}

async fn a_missing_mode_is_refused(context: Context) -> Verdict {
    let locks = context.client().await?;
    if !context.profile.modes.shared {
        fails(locks.read("x").acquire().await, ErrorKind::Unsupported)?;
    }
    if !context.profile.modes.permits {
        fails(locks.semaphore("x", 3).acquire().await, ErrorKind::Unsupported)?;
    }
    Ok(())
}

async fn a_namespace_keeps_clients_apart(context: Context) -> Verdict {
    let client = |namespace: &str| {
        Locks::builder(Arc::clone(&context.backend))
            .ttl(context.ttl)
            .clock(context.clock.clone())
            .namespace(format!("{}{namespace}", context.root))
            .build()
    };
    let (shop, office) = (client("shop/")?, client("office/")?);
    let one = shop.mutex("x").acquire().await?;
    let two = office.mutex("x").acquire().await?;
    ensure!(one.name() == "x", "the guard is called {}", one.name());
    let listed: Vec<_> = shop.list("").await?.into_iter().map(|i| i.name.to_string()).collect();
    ensure!(listed == ["x"], "the namespace's client lists {listed:?}");
    ensure!(shop.inspect("x").await?.name.as_str() == "x", "inspect shows the namespace");
    let token = shop.inspect("x").await?.holders.first().and_then(|holder| holder.token);
    ensure!(token == Some(one.token()), "inspect shows a hold of another namespace");
    fails(shop.mutex(" x").acquire().await, ErrorKind::InvalidInput)?;
    one.release().await?;
    two.check()?;
    Ok(two.release().await?)
}

async fn a_closed_client_refuses(context: Context) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").acquire().await?;
    locks.close().await;
    fails(locks.mutex("y").acquire().await, ErrorKind::Closed)?;
    fails(locks.mutex("y").try_acquire().await, ErrorKind::Closed)?;
    context.clock.sleep(context.ttl * 3 / 2).await;
    guard.check()?;
    Ok(guard.release().await?)
}
