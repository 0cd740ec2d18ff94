//! Tests of Lockwright and redsync with some of five Redis nodes down.

use lockwright_conformance::test_helpers::claim;
use lockwright_core::{Busy, Claim, ReleaseMode, Renew, Renewal, Wait};
use lockwright_interop::LIMIT;

use crate::five::Five;

async fn five() -> Five {
    Five::start(crate::programs::redsync).await
}

async fn busy(five: &Five, claim: &Claim) -> Busy {
    five.scene.busy(claim, Wait::No).await
}

#[tokio::test]
async fn with_two_nodes_killed_both_go_on_and_exclude_each_other() {
    let mut five = five().await;
    let mut theirs = five.scene.theirs();
    let (a, b) = (claim("a"), claim("b"));
    assert_eq!(theirs.ask("try a 30"), "yes");
    five.scene.grant(&b).await;
    five.kill([1, 3]);

    assert_eq!(busy(&five, &claim("a")).await.holder.unwrap().token, None);
    assert_eq!(theirs.ask("try b 30"), "no");
    assert_eq!(theirs.ask("extend a 30"), "extended");
    assert_eq!(five.scene.renew(&b).await, [Renewal::RENEWED]);

    // Each side can acquire the lock that the other side releases.
    assert_eq!(theirs.ask("release a"), "released");
    five.scene.grant(&a).await;
    assert_eq!(theirs.ask("try a 30"), "no");
    five.scene.release(&b).await;
    assert_eq!(theirs.ask("try b 30"), "yes");
    busy(&five, &claim("b")).await;
    five.scene.shows_theirs("b").await;
}

#[tokio::test]
async fn a_bare_majority_of_theirs_keeps_us_out() {
    let mut five = five().await;
    let mut theirs = five.scene.theirs();
    five.kill([3, 4]);
    assert_eq!(theirs.ask("try orders/42 30"), "yes");
    five.bring_back([3, 4]).await;
    assert_eq!(five.having("orders/42"), [0, 1, 2]);
    assert_eq!(busy(&five, &claim("orders/42")).await.holder.unwrap().token, None);
    // Our rejected request has released the key on nodes 3 and 4.
    five.is_had_by("orders/42", &[0, 1, 2]).await;
    five.scene.shows_theirs("orders/42").await;

    // With two of the holder's three nodes down, the third must still reject our request.
    five.kill([0, 1]);
    busy(&five, &claim("orders/42")).await;
    five.is_had_by("orders/42", &[2]).await;
    // `inspect` still shows the key: node 2 has it, and the killed nodes may have it.
    five.scene.shows_theirs("orders/42").await;
    let waiter = tokio::spawn(five.scene.locks().mutex("orders/42").wait_for(LIMIT).acquire());
    let extended = theirs.ask("extend orders/42 30");
    assert!(extended.starts_with("failed: "), "{extended}");

    five.bring_back([0, 1]).await;
    busy(&five, &claim("orders/42")).await;
    assert!(!waiter.is_finished());
    assert_eq!(theirs.ask("release orders/42"), "released");
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(theirs.ask("try orders/42 30"), "no");
    guard.release().await.unwrap();
    five.is_had_by("orders/42", &[]).await;
}

#[tokio::test]
async fn a_bare_majority_of_ours_keeps_them_out() {
    let mut five = five().await;
    let ours = claim("orders/42");
    five.kill([3, 4]);
    five.scene.grant(&ours).await;
    five.bring_back([3, 4]).await;
    let mut theirs = five.scene.theirs();
    assert_eq!(theirs.ask("try orders/42 30"), "no");
    five.is_had_by("orders/42", &[0, 1, 2]).await;

    five.kill([0, 1]);
    let tried = theirs.ask("try orders/42 30");
    assert!(tried.starts_with("failed: "), "{tried}");
    five.is_had_by("orders/42", &[2]).await;

    five.bring_back([0, 1]).await;
    assert_eq!(five.scene.renew(&ours).await, [Renewal::RENEWED]);
    five.is_had_by("orders/42", &[0, 1, 2, 3, 4]).await;
    assert_eq!(theirs.ask("try orders/42 30"), "no");
    five.scene.release(&ours).await;
    five.is_had_by("orders/42", &[]).await;
    assert_eq!(theirs.ask("try orders/42 30"), "yes");
}

#[tokio::test]
async fn release_reaches_nodes_that_were_down() {
    let mut five = five().await;
    let ours = claim("orders/42");
    five.scene.grant(&ours).await;
    five.is_had_by("orders/42", &[0, 1, 2, 3, 4]).await;
    five.kill([3, 4]);
    five.scene.release(&ours).await;
    five.bring_back([3, 4]).await;
    five.is_had_by("orders/42", &[]).await;
    five.kill([0, 1]);
    assert_eq!(five.scene.theirs().ask("try orders/42 30"), "yes");
}

#[tokio::test]
async fn a_node_that_forgot_does_not_let_us_in_beside_them() {
    let mut five = five().await;
    five.kill([3, 4]);
    assert_eq!(five.scene.theirs().ask("try orders/42 30"), "yes");
    five.bring_back([3, 4]).await;
    five.empty(0).await;
    assert_eq!(five.having("orders/42"), [1, 2]);
    busy(&five, &claim("orders/42")).await;
    five.is_had_by("orders/42", &[1, 2]).await;
}

/// A known limit: redsync immediately uses a node that lost its data, so both sides may hold the
/// lock.
#[tokio::test]
async fn a_node_that_forgot_may_let_them_in_beside_us() {
    let mut five = five().await;
    let ours = claim("orders/42");
    five.kill([3, 4]);
    five.scene.grant(&ours).await;
    five.bring_back([3, 4]).await;
    five.empty(0).await;
    let mut theirs = five.scene.theirs();
    assert_eq!(theirs.ask("try orders/42 30"), "yes");

    // Even if both hold the lock, our client doesn't end their hold, and our renewal isn't
    // confirmed.
    let renewal = five.scene.ours.renew(&[Renew::of(&ours)]).await;
    assert_ne!(renewal.ok(), Some(vec![Renewal::RENEWED]));
    let _ = five.scene.ours.release(&ours, ReleaseMode::Plain).await;
    five.is_had_by("orders/42", &[0, 3, 4]).await;
    assert_eq!(theirs.ask("extend orders/42 30"), "extended");
}
