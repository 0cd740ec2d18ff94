//! The client's hot paths: see `benches/README.md`. Callgrind counts instructions only inside
//! [`counted_by_callgrind`].
//!
//! The first line of the output has `vectors`, a tab and the processor's vector extension, by which
//! libraries select code. Each later line has a path, a tab and the number of executions.
#![forbid(unsafe_code)]

mod by_future;
mod paths;

use std::hint::black_box;
use std::pin::Pin;

use tokio::runtime::Runtime;

pub(crate) type Counted<'a> = Pin<Box<dyn Future<Output = u64> + 'a>>;

fn main() {
    println!("vectors\t{}", vectors());
    for path in paths::ALL {
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

/// Runs a path. Callgrind finds this function by its name. A closure or type parameter would add
/// symbols with that name.
#[inline(never)]
pub(crate) fn counted_by_callgrind(runtime: &Runtime, path: Counted<'_>) -> u64 {
    // `black_box` prevents a tail call, which would end the count before the path.
    black_box(runtime.block_on(path))
}
