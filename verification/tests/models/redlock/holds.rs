use super::model::Redlock;
use super::rules::{Bounds, Missing};

fn holds<const N: usize>(title: &str, bounds: Bounds) {
    crate::holds(title, &Redlock::<N> { bounds, ..Redlock::default() });
}

#[test]
fn three_claims() {
    holds::<3>("three claims, 2 candidates", Bounds::default());
}

#[test]
fn two_claims_of_five_nodes() {
    holds::<5>("two claims, 2 candidates, five nodes", Bounds { rounds: 2, ..Bounds::default() });
}

#[test]
fn nodes_that_lose_their_data() {
    let bounds = Bounds { rounds: 2, candidates: 3, losses: 3, ..Bounds::default() };
    holds::<3>("two claims, 3 candidates, data lost up to three times", bounds);
    let bounds = Bounds { candidates: 1, losses: 1, ..Bounds::default() };
    holds::<3>("three claims, 1 candidate, data lost once", bounds);
}

#[test]
fn renewals() {
    let bounds = Bounds { candidates: 1, losses: 1, renewals: true, ..Bounds::default() };
    holds::<3>("three claims or renewals, 1 candidate, data lost once", bounds);
    let bounds = Bounds { rounds: 4, claims: 2, losses: 0, ..bounds };
    holds::<3>("two claims, 1 candidate, with two renewals", bounds);
}

#[test]
fn tokens_that_are_asked_for_again() {
    let bounds = Bounds { candidates: 1, repeats: true, ..Bounds::default() };
    holds::<3>("three rounds, 1 candidate, tokens requested again", bounds);
}

#[test]
fn releases_as_messages() {
    let bounds = Bounds { rounds: 2, releases: true, repeats: true, ..Bounds::default() };
    holds::<3>("two rounds, 2 candidates, tokens requested again, releases as messages", bounds);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p lockwright-verification --test models -- --ignored"]
fn larger_bounds() {
    let bounds = Bounds::default();
    let lossy = Bounds { losses: 1, ..bounds };
    let renewals = Bounds { renewals: true, ..lossy };
    let repeats = Bounds { repeats: true, candidates: 1, ..bounds };
    let four = Bounds { rounds: 4, claims: 2, ..repeats };
    let all = [
        ("three claims, 4 candidates", Bounds { candidates: 4, ..bounds }),
        ("three claims, 2 candidates, data lost once", lossy),
        (
            "three claims, 1 candidate, data lost up to three times",
            Bounds { losses: 3, candidates: 1, ..bounds },
        ),
        ("three claims or renewals, 2 candidates, data lost once", renewals),
        (
            "two claims, 1 candidate, with two renewals, data lost once",
            Bounds { rounds: 4, claims: 2, candidates: 1, ..renewals },
        ),
        (
            "three rounds, 1 candidate, tokens requested again, one request twice",
            Bounds { duplicates: 1, ..repeats },
        ),
        (
            "three rounds, 1 candidate, tokens requested again, releases as messages",
            Bounds { releases: true, ..repeats },
        ),
        ("four rounds of two tokens, 1 candidate", four),
    ];
    let row = |title: &str, without, bounds| crate::row(title, &Redlock::<3> { without, bounds });
    let mut rows: Vec<String> =
        all.map(|(title, bounds)| row(title, Missing::default(), bounds)).into();
    let without = Missing { note_replaces: true, answer_before_repeat: true, ..Missing::default() };
    let title = "the same, unanswered requests notwithstanding, noted never lowered";
    rows.push(row(title, without, four));
    // The rows are compared last, so that all results are printed even if one is wrong.
    rows.iter().for_each(|row| crate::results::<Redlock<3>>().has(row));
}
