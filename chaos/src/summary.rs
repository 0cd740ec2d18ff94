//! Sums of the record, as tables in Markdown.

use std::collections::BTreeMap;
use std::path::Path;

use crate::configuration::Configuration;
use crate::faults::Fault;

/// A line of the record that showed something.
struct Line {
    was_promised: bool,
    /// Operations, grants, hand-overs, longest wait, largest lag, refused writes, refused late writes.
    figures: [u64; 7],
    faults: Vec<Fault>,
}

/// Sums of lines.
#[derive(Default)]
struct Sum {
    schedules: u64,
    promised: u64,
    figures: [u64; 7],
}

/// The figures of which the largest counts, and not the sum.
const LARGEST: [usize; 2] = [3, 4];

impl Sum {
    fn add(&mut self, line: &Line) {
        self.schedules += 1;
        self.promised += u64::from(line.was_promised);
        for (at, (sum, figure)) in self.figures.iter_mut().zip(line.figures).enumerate() {
            *sum = if LARGEST.contains(&at) { (*sum).max(figure) } else { *sum + figure };
        }
    }
}

/// Returns the sums of each configuration, and of each configuration under each fault.
pub(crate) fn of(folder: &Path) -> String {
    let mut text = String::from(
        "| configuration | schedules | all promised | operations | grants | hand-overs | longest wait, ms | \
         largest lag, ms | writes refused | late writes refused |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut by_fault = String::from(
        "| configuration | fault | schedules | all promised | operations |\n|---|---|--:|--:|--:|\n",
    );
    for configuration in Configuration::ALL {
        let lines = read(&folder.join(format!("{configuration}.tsv")));
        let (mut all, mut faults) = (Sum::default(), BTreeMap::<Fault, Sum>::new());
        for line in &lines {
            all.add(line);
            line.faults.iter().for_each(|fault| faults.entry(*fault).or_default().add(line));
        }
        let figures = all.figures.map(|figure| figure.to_string()).join(" | ");
        text +=
            &format!("| {configuration} | {} | {} | {figures} |\n", all.schedules, all.promised);
        for (fault, Sum { schedules, promised, figures }) in faults {
            let operations = figures[0];
            by_fault += &format!(
                "| {configuration} | {fault} | {schedules} | {promised} | {operations} |\n"
            );
        }
    }
    text + "\n" + &by_fault
}

fn read(file: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().skip(1).filter_map(line).collect()
}

fn line(text: &str) -> Option<Line> {
    let columns: Vec<&str> = text.split('\t').collect();
    let [_, _, outcome, figures @ .., faults] = columns.as_slice() else { return None };
    let was_promised = match *outcome {
        "kept" => true,
        "not-promised" => false,
        _ => return None,
    };
    let figures: Vec<u64> = figures.iter().map_while(|figure| figure.parse().ok()).collect();
    let faults = faults.split("; ").filter_map(|fault| Fault::named(fault.split(':').next()?));
    Some(Line { was_promised, figures: figures.try_into().ok()?, faults: faults.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_and_those_that_showed_nothing_are_left_out() {
        let kept = "1\t1\tkept\t10\t5\t3\t100\t2\t1\t1\tclient-killed: x; throttled: 4 delayed";
        let other = "2\t1\tnot-promised\t20\t5\t3\t50\t7\t0\t0\tthrottled: 1 delayed";
        let none = "3\t1\tshowed-nothing\t20\t5\t3\t50\t7\t0\t0\tthrottled: no effect";
        let mut sum = Sum::default();
        [kept, other, none].into_iter().filter_map(line).for_each(|line| sum.add(&line));
        assert_eq!((sum.schedules, sum.promised), (2, 1));
        assert_eq!(sum.figures, [30, 10, 6, 100, 7, 1, 1]);
        let faults = line(kept).map(|line| line.faults);
        assert_eq!(faults, Some(vec![Fault::ClientKilled, Fault::Throttled]));
    }
}
