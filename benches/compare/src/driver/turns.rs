/// Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) process: usize,
    pub(super) task: usize,
    pub(super) asked: u64,
    pub(super) granted: u64,
    pub(super) released: u64,
}

pub(super) struct Turns {
    turns: Vec<Turn>,
    lost: usize,
    start: u64,
    end: u64,
}

impl Turns {
    /// Parses `TASK:ASKED:GRANTED:RELEASED …`, with `:lost` if the lock had expired.
    pub(super) fn parse<'a>(
        answers: impl Iterator<Item = &'a str>,
        start: u64,
        end: u64,
    ) -> Result<Self, String> {
        let mut turns = Vec::new();
        let mut lost = 0;
        for (process, answer) in answers.enumerate() {
            for word in answer.split_whitespace() {
                let whole = word.strip_suffix(":lost");
                lost += usize::from(whole.is_some());
                let numbers: Result<Vec<u64>, _> =
                    whole.unwrap_or(word).split(':').map(str::parse).collect();
                let Ok([task, asked, granted, released]) = numbers.as_deref() else {
                    return Err(format!("not a turn: {word:?}"));
                };
                if !(asked <= granted && granted <= released) {
                    return Err(format!("a turn that runs backwards: {word:?}"));
                }
                turns.push(Turn {
                    process,
                    task: *task as usize,
                    asked: *asked,
                    granted: *granted,
                    released: *released,
                });
            }
        }
        turns.sort_by_key(|turn| turn.granted);
        Ok(Self { turns, lost, start, end })
    }

    pub(super) fn count(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn overlaps(&self) -> usize {
        let mut until = 0;
        let overlaps = self.turns.iter().filter(|turn| {
            let too_early = turn.granted < until;
            until = until.max(turn.released);
            too_early
        });
        overlaps.count() + self.lost
    }

    /// Counts the grants to another process than the last; in one process, to another task.
    pub(super) fn hand_overs(&self) -> usize {
        self.changes(&self.turns)
    }

    pub(super) fn hand_overs_per_second(&self) -> f64 {
        self.changes(self.in_time()) as f64 / self.seconds()
    }

    pub(super) fn per_second(&self) -> f64 {
        self.in_time().len() as f64 / self.seconds()
    }

    /// Includes waits that end after the measurement, which reveal starvation.
    pub(super) fn waits(&self) -> Vec<u64> {
        let mut waits: Vec<u64> = self.turns.iter().map(|turn| turn.granted - turn.asked).collect();
        waits.sort_unstable();
        waits
    }

    /// Returns Jain's index of fairness (Jain, Chiu and Hawe, 1984): 1 for equally many turns of
    /// all `workers`, 1/`workers` if one had all.
    pub(super) fn jain(&self, workers: usize) -> Option<f64> {
        let by_task = self.are_of_one_process();
        let mut counts = vec![0_f64; workers];
        for turn in self.in_time() {
            let worker = if by_task { turn.task } else { turn.process };
            *counts.get_mut(worker)? += 1.0;
        }
        let (sum, squares) =
            counts.iter().fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
        (sum > 0.0).then(|| sum * sum / (workers as f64 * squares))
    }

    fn are_of_one_process(&self) -> bool {
        self.turns.iter().all(|turn| turn.process == 0)
    }

    fn changes(&self, turns: &[Turn]) -> usize {
        let by_task = self.are_of_one_process();
        let is_another = |pair: &&[Turn]| {
            let (before, after) = (&pair[0], &pair[1]);
            before.process != after.process || (by_task && before.task != after.task)
        };
        turns.windows(2).filter(is_another).count()
    }

    fn in_time(&self) -> &[Turn] {
        let first = self.turns.partition_point(|turn| turn.granted < self.start);
        let last = self.turns.partition_point(|turn| turn.granted <= self.end);
        &self.turns[first..last]
    }

    fn seconds(&self) -> f64 {
        (self.end - self.start) as f64 / 1e9
    }
}

pub(super) fn quantile(sorted: &[u64], q: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((q * last as f64).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(answers: &[&str]) -> Turns {
        Turns::parse(answers.iter().copied(), 100, 1_000_000_100).unwrap()
    }

    #[test]
    fn two_holders_at_once_are_seen() {
        assert_eq!(turns(&["0:100:110:120 0:125:140:150", "0:100:120:140"]).overlaps(), 0);
        assert_eq!(turns(&["0:100:110:120", "0:100:119:140"]).overlaps(), 1);
        assert_eq!(turns(&["0:100:110:200", "0:100:120:130", "0:100:150:160"]).overlaps(), 2);
    }

    #[test]
    fn lost_message_belonged_to_another() {
        let turns = turns(&["0:100:110:120:lost 0:121:130:140", "0:100:150:160"]);
        assert_eq!((turns.count(), turns.overlaps()), (3, 1));
    }

    #[test]
    fn a_hand_over_is_to_another_process_and_in_time() {
        let turns = turns(&[
            "0:100:110:120 0:121:122:123 0:200:300:310",
            "0:100:200:210 0:211:1000000200:1000000300",
        ]);
        assert_eq!((turns.count(), turns.hand_overs()), (5, 3));
        assert_eq!(turns.hand_overs_per_second(), 2.0);
        assert_eq!(turns.per_second(), 4.0);
        assert_eq!(turns.waits().last(), Some(&(1_000_000_200 - 211)), "the late task waited, too");
    }

    #[test]
    fn between_tasks_of_one_process_it_changes_hands_too() {
        let of = |answer: &str| turns(&[answer, ""]).hand_overs();
        assert_eq!(of("0:100:110:120 1:100:130:140 1:141:142:143 0:121:150:160"), 2);
        assert_eq!(of("0:100:110:120 0:121:130:140"), 0);
    }

    #[test]
    fn subject_with_all_turns_is_not_fair() {
        assert_eq!(turns(&["0:100:110:120 0:121:122:123", ""]).jain(2), Some(0.5));
        assert_eq!(turns(&["0:100:110:120", "0:100:130:140"]).jain(2), Some(1.0));
        assert_eq!(
            turns(&["0:100:110:120 1:100:130:140"]).jain(2),
            Some(1.0),
            "tasks, where there's one process"
        );
        assert_eq!(turns(&["", ""]).jain(2), None);
    }

    #[test]
    fn malformed_turn_is_reported() {
        for bad in ["0:1:2", "0:1:2:x", "0:3:2:4", "0:1:4:3"] {
            assert!(Turns::parse([bad].into_iter(), 0, 1).is_err(), "{bad}");
        }
    }
}
