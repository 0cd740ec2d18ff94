use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{Fate, Op, another_client, client, troubled};

/// Logs each new span, recorded field and closed span as a line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Logged>>);

#[derive(Default)]
struct Logged {
    lines: Vec<String>,
    /// The name and the number of handles of each span.
    spans: Vec<(&'static str, u32)>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Logged {
    fn span(&mut self, id: &Id) -> &mut (&'static str, u32) {
        &mut self.spans[id.into_u64() as usize - 1]
    }

    fn write(&mut self, id: &Id, what: &str, fields: impl FnOnce(&mut Fields)) {
        let mut line = Fields(format!("{what} {}", self.span(id).0));
        fields(&mut line);
        self.lines.push(line.0);
    }
}

impl Log {
    fn logged(&self) -> MutexGuard<'_, Logged> {
        self.0.lock().unwrap()
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.logged().lines)
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name().starts_with("lockwright.")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut logged = self.logged();
        logged.spans.push((span.metadata().name(), 1));
        let id = Id::from_u64(logged.spans.len() as u64);
        let what = match span.parent() {
            Some(parent) => format!("new in {}:", logged.span(parent).0),
            None => "new".to_owned(),
        };
        logged.write(&id, &what, |fields| span.record(fields));
        id
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.logged().write(span, "set", |fields| values.record(fields));
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.logged().span(id).1 += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut logged = self.logged();
        let handles = &mut logged.span(&id).1;
        *handles -= 1;
        let is_closed = *handles == 0;
        if is_closed {
            logged.write(&id, "end", |_| {});
        }
        is_closed
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

const NEW: &str = "new lockwright.acquire otel.kind=\"client\" lock.name=x lock.mode=exclusive lock.backend=\"memory\"";

#[tokio::test(start_paused = true)]
async fn a_span_lasts_from_request_to_grant_and_another_to_the_release() {
    let (log, (locks, memory, clock)) = (Log::default(), client());
    let _logging = tracing::subscriber::set_default(log.clone());
    let guard = locks.mutex("x").acquire().await.unwrap();
    let fence = guard.fence();
    let hold = format!(
        "new lockwright.hold lock.name=x lock.mode=exclusive lock.backend=\"memory\" lock.fence={fence}"
    );
    let granted = format!("set lockwright.acquire lock.fence={fence}");
    assert_eq!(log.lines(), [NEW, &*granted, &*hold, "end lockwright.acquire"]);
    let other = another_client(&memory, &clock);
    assert!(other.mutex("x").try_acquire().await.unwrap().is_none());
    assert_eq!(log.lines(), [NEW, "end lockwright.acquire"]);
    guard.release().await.unwrap();
    let released = "new in lockwright.hold: lockwright.release otel.kind=\"client\"";
    assert_eq!(log.lines(), [released, "end lockwright.release", "end lockwright.hold"]);
}

#[tokio::test(start_paused = true)]
async fn spans_have_the_kind_of_an_error() {
    let (log, (locks, faulty, ..)) = (Log::default(), troubled());
    faulty.always(Op::Acquire, Fate::Refuse(lockwright_core::ErrorKind::Denied));
    let _logging = tracing::subscriber::set_default(log.clone());
    assert!(locks.mutex("x").acquire().await.is_err());
    let denied = "set lockwright.acquire error.type=Denied";
    assert_eq!(log.lines(), [NEW, denied, "end lockwright.acquire"]);
}
