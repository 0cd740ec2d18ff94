use std::time::Duration;

use lockwright::Locks;
use serde_json::json;

use super::{print, print_json};
use crate::exit::Failure;

pub(super) async fn sweep(locks: &Locks, idle: Duration, json: bool) -> Result<u8, Failure> {
    let (mut rows, mut steps) = (0, 0_u64);
    loop {
        let swept = locks.sweep(idle).await?;
        rows += swept.rows;
        steps += 1;
        if !swept.more {
            break;
        }
    }
    if json {
        print_json(&json!({ "rows": rows, "steps": steps }))?;
    } else {
        let s = if rows == 1 { "" } else { "s" };
        print(&format!("{rows} row{s} deleted\n"))?;
    }
    Ok(0)
}
