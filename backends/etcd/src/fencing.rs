//! Fencing for data in etcd: [`transact`] keeps a holder that was paused for longer than its TTL
//! from overwriting a later holder's changes.
//!
//! ```no_run
//! # async fn example(locks: lockwright_core::Locks) -> Result<(), Box<dyn std::error::Error>> {
//! use lockwright_etcd::etcd_client::{Client, Txn, TxnOp};
//! use lockwright_etcd::fencing;
//!
//! let guard = locks.mutex("orders/42").acquire().await?;
//! let client = Client::connect(["http://a:2379"], None).await?;
//! let write = Txn::new().and_then([TxnOp::put("order/42", "paid", None)]);
//! // Returns `Lost` if a later holder has written.
//! fencing::transact(&client, "order/42/fence", &guard.fenced(), write).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`transact`] stores the highest fence under a key of the caller's choice, in decimal with
//! leading zeros. All writers of the same data must use that key. The fences may come from any
//! backend, and the data may be in any etcd.

use etcd_client::{
    Client, Compare, CompareOp, Error as ClientError, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, ErrorKind, Fence, Result};

use crate::errors::{Effect, ErrorClass, classify, error, unexpected_response, words};

/// Fixed, so that stored fences sort as text.
const DIGITS: usize = 20;

/// Carries out the transaction `write` if no later holder has written, and stores the fence under
/// `key`.
///
/// Returns the response to `write`.
///
/// Concurrent readers share a fence, so each of them may write. The fence is stored even if the
/// conditions of `write` don't hold. `write` must not change `key`.
///
/// # Errors
/// Nothing was done, unless the error is `Indeterminate`.
///
/// - [`Lost`](ErrorKind::Lost) with [`Superseded`](lockwright_core::Reason::Superseded): a later
///   holder has written.
/// - [`Conflict`](ErrorKind::Conflict): the value under `key` is no fence.
/// - [`InvalidInput`](ErrorKind::InvalidInput): the fence is above [`Fence::MAX`], the server
///   rejects the transaction, or `write` uses a lease that doesn't exist.
/// - [`Denied`](ErrorKind::Denied), [`Unavailable`](ErrorKind::Unavailable): the server denies
///   access, or can't serve the request now.
/// - [`Indeterminate`](ErrorKind::Indeterminate): the outcome is unknown. If carrying out
///   `write` twice is harmless, retry with the same fence.
///
/// # Cancel safety
/// If the future is dropped, the transaction may have been carried out, or may still be.
pub async fn transact(
    client: &Client,
    key: impl Into<Vec<u8>>,
    fenced: &Fenced,
    write: Txn,
) -> Result<TxnResponse> {
    let name = |failure: Error| failure.with_name(&fenced.name);
    let txn = guarded(key.into(), fenced.fence, write).map_err(name)?;
    let answered = client.kv_client().txn(txn).await.map_err(|cause| name(failed(&cause)))?;
    outcome(&answered, fenced).map_err(name)
}

/// etcd has no comparison "at most", so the stored fence must be less than `fence + 1`. No
/// comparison matches a missing value, so the first fence needs its own branch.
fn guarded(key: Vec<u8>, fence: Fence, write: Txn) -> Result<Txn> {
    let fence = fence.checked().map_err(|error| error.with_backend("etcd"))?;
    let text = |number: u64| format!("{number:0DIGITS$}");
    let both = [TxnOp::put(key.clone(), text(fence.get()), None), TxnOp::txn(write)];
    let is_a_number = Compare::value(key.clone(), CompareOp::Greater, "0".repeat(DIGITS - 1));
    let is_not_above = Compare::value(key.clone(), CompareOp::Less, text(fence.get() + 1));
    let is_the_first = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
    let first =
        Txn::new().when([is_the_first]).and_then(both.clone()).or_else([TxnOp::get(key, None)]);
    Ok(Txn::new().when([is_a_number, is_not_above]).and_then(both).or_else([TxnOp::txn(first)]))
}

fn outcome(answered: &TxnResponse, fenced: &Fenced) -> Result<TxnResponse> {
    let unexpected = || unexpected_response(Effect::Changes, "it doesn't match the transaction");
    let mut operations = answered.op_responses().into_iter();
    if answered.succeeded() {
        return match operations.nth(1) {
            Some(TxnOpResponse::Txn(theirs)) => Ok(theirs),
            _ => Err(unexpected()),
        };
    }
    match operations.next() {
        Some(TxnOpResponse::Txn(first)) => outcome(&first, fenced),
        Some(TxnOpResponse::Get(found)) => {
            let text = found.kvs().first().and_then(|found| found.value_str().ok());
            let highest =
                text.filter(|text| text.len() == DIGITS).and_then(|text| text.parse().ok());
            Err(match highest {
                Some(highest) => fenced.superseded(Fence::new(highest)).with_backend("etcd"),
                None => error(
                    ErrorKind::Conflict,
                    "the value under the fence's key isn't a fence; use a key that no other \
                     program writes to",
                ),
            })
        }
        _ => Err(unexpected()),
    }
}

fn failed(cause: &ClientError) -> Error {
    let is_invalid = matches!(cause, ClientError::GRpcStatus(status) if status.code() as i32 == INVALID_ARGUMENT);
    let (class, failure) = classify(cause, Effect::Changes);
    let (kind, message) = match class {
        ErrorClass::Refused if failure.kind() == ErrorKind::Denied => (
            ErrorKind::Denied,
            "the server denies access: the user must be allowed to read and write the fence's key \
             and the transaction's keys",
        ),
        ErrorClass::Refused => return failure,
        _ if is_invalid && failure.kind() != ErrorKind::Denied => {
            (ErrorKind::InvalidInput, "the server rejects the transaction")
        }
        ErrorClass::NoLease => (
            ErrorKind::InvalidInput,
            "the transaction refers to a lease that doesn't exist; nothing was done",
        ),
        _ => return failure,
    };
    error(kind, message).with_source(words(cause))
}

const INVALID_ARGUMENT: i32 = 3;
