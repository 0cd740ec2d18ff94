use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

pub(crate) fn run<T: Send, R: Send>(
    limit: usize,
    items: Vec<T>,
    job: impl Fn(T) -> R + Sync,
    mut done: impl FnMut(R),
) {
    let queue = Mutex::new(VecDeque::from(items));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..limit {
            let (sender, next, job) = (sender.clone(), &next, &job);
            scope.spawn(move || {
                while let Some(item) = next() {
                    let _ = sender.send(job(item));
                }
            });
        }
        drop(sender);
        receiver.into_iter().for_each(&mut done);
    });
}
