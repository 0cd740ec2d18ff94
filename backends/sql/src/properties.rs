//! Property tests: no URL or row causes a panic.

use lockwright_core::Mode;
use lockwright_properties::{assert_clear, check, no_password_is_shown, text, urls};

use crate::{kind, mysql, postgres, sqlite};

#[test]
fn modes_of_rows() {
    let words = ["exclusive", "shared", "permits", "readers", "semaphore of 3"];
    check(
        |input| {
            let word = text(input, &words)?;
            Ok((word, input.arbitrary::<i64>()?, input.int_in_range(-1..=9_i64)?))
        },
        |(word, permits, size)| {
            let (permits, size) = (*permits, *size);
            for (permits, size) in [(permits, size), (permits % 9, size), (2, u32::MAX.into())] {
                let Some(mode) = kind::mode(word, permits, size) else { continue };
                assert_eq!(kind::word(mode), word);
                if let Some(token) = kind::kind(mode) {
                    assert!(kind::present(&token).unwrap().is_of_the_kind_of(mode), "{token}");
                    assert!(token.len() <= 32, "{token}");
                }
                if mode != Mode::Exclusive && mode != Mode::Shared {
                    let (count, of) = kind::permits(mode);
                    assert_eq!((i64::from(count), i64::from(of)), (permits, size));
                }
            }
            if let Some(present) = kind::present(word) {
                let again = kind::kind(present);
                assert!(again.is_none_or(|again| kind::present(&again) == Some(present)));
            }
        },
    );
}

#[test]
fn urls_of_files() {
    let valid = ["sqlite:/var/lib/locks.db?synchronous=normal", "sqlite://x?file_system=any"];
    urls(&valid, sqlite::Config::new);
}

#[test]
fn a_password_with_a_question_mark() {
    let url = "mariadb://:hush?x{hush@db:3306/app?mode=session";
    assert_clear(format!("{:?}", mysql::Config::new(url).unwrap_err()));
    let url = "postgres://me:hush9?hush@db:54}32";
    assert_clear(format!("{:?}", postgres::Config::new(url).unwrap_err()));
}

#[test]
fn urls_of_servers() {
    urls(
        &[
            "postgres://me:x@db:5432/app?mode=session&table=locks",
            "postgresql://[::1]/app?sslmode=verify-full&schema=x&connections=3",
        ],
        |url| postgres::Config::new(url).inspect(|config| assert!(!config.schema().is_empty())),
    );
    urls(
        &[
            "mysql://me:x@db:3306/app?mode=row&table=locks",
            "mariadb://[::1]/app?ssl-mode=VERIFY_IDENTITY&schema=x&connections=3",
        ],
        |url| mysql::Config::new(url).inspect(|config| assert!(!config.schema().is_empty())),
    );
    let after = ["db:5432/app?mode=session", "[::1]/app?table=x&sslmode=require"];
    no_password_is_shown(&["postgres://me:", "postgresql://:"], &after, postgres::Config::new);
    no_password_is_shown(&["mysql://me:", "mariadb://:"], &after, mysql::Config::new);
}
