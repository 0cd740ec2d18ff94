//! The client's hot paths, each to be counted in instructions: `cargo xtask cost` runs this under
//! callgrind, which counts inside [`counted_by_callgrind`] alone, so neither the start nor the preparation
//! of a path is in its figure. Run by itself it only shows that every path works.
//!
//! It prints lines of two words with a tab between them: first which vector instructions there are, as
//! libraries choose by them what they do, and then each path and how many times it was gone.
#![forbid(unsafe_code)]

mod by_future;
mod paths;

use std::hint::black_box;
use std::pin::Pin;

use tokio::runtime::Runtime;

/// A path that is prepared: goes it many times, and says how many.
pub(crate) type Counted<'a> = Pin<Box<dyn Future<Output = u64> + 'a>>;

fn main() {
    println!("vectors\t{}", vectors());
    for path in paths::ALL {
        // One for each, so that none has another's timers and tasks.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let times = (path.prepare)(&runtime.expect("a runtime needs nothing"));
        println!("{}\t{times}", path.name);
    }
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    if std::arch::is_x86_feature_detected!("avx2") { "avx2" } else { "sse2" }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    "those of every such processor"
}

/// What callgrind counts. It knows it by this name, which must be no part of another's: hence no closure
/// in it, and no type parameter.
#[inline(never)]
pub(crate) fn counted_by_callgrind(runtime: &Runtime, path: Counted<'_>) -> u64 {
    // Through the black box, so that this isn't the last call and the function is left after it.
    black_box(runtime.block_on(path))
}
