use std::time::Duration;

use lockwright::Locks;
use serde_json::json;

use super::print_result;
use crate::Failure;

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
    let text = format!("{rows} row{} deleted\n", if rows == 1 { "" } else { "s" });
    print_result(json, &json!({ "rows": rows, "steps": steps }), &text)?;
    Ok(0)
}
