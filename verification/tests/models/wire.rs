//! Messages in flight. They arrive in any order, at any time, or never.

/// The largest number of messages in flight. At this number, no message is sent.
pub(crate) const ROOM: usize = 2;

/// The messages, sorted so that their order doesn't distinguish states.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Wire<M>([Option<M>; ROOM]);

impl<M: Copy + Ord> Wire<M> {
    pub(crate) const EMPTY: Self = Self([None; ROOM]);

    pub(crate) fn has_room(&self) -> bool {
        self.0.iter().any(Option::is_none)
    }

    pub(crate) fn send(&mut self, message: M) {
        let free = self.0.iter_mut().find(|place| place.is_none());
        *free.expect("there is room") = Some(message);
        self.0.sort_unstable();
    }

    pub(crate) fn take(&mut self, message: M) {
        let place = self.0.iter_mut().find(|place| **place == Some(message));
        *place.expect("it is under way") = None;
        self.0.sort_unstable();
    }

    pub(crate) fn retain(&mut self, wanted: impl Fn(M) -> bool) {
        for place in &mut self.0 {
            place.take_if(|message| !wanted(*message));
        }
        self.0.sort_unstable();
    }

    /// Returns the messages without duplicates.
    pub(crate) fn messages(&self) -> impl Iterator<Item = M> {
        let mut last = None;
        self.0.into_iter().flatten().filter(move |message| last.replace(*message) != Some(*message))
    }
}
