use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{self, Table};

use super::state::TopScreen;

const KEYS: &str = "n/l/w: sort by name, time left, waiters  r: reverse  /: filter  q: quit";

pub(super) fn draw(frame: &mut Frame<'_>, state: &mut TopScreen, now: Instant) {
    let heights = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)];
    let [title, table, foot] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Line::from(state.title()).bold(), title);
    let page = usize::from(table.height.saturating_sub(1));
    let rows = state.screen(page).into_iter().map(|row| {
        let waiters = row.waiters.map_or_else(String::new, |waiters| waiters.to_string());
        let (name, holder) = (row.name.clone(), row.holder.clone());
        widgets::Row::new([name, holder, row.since(now), row.left(), waiters])
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(18),
        Constraint::Length(7),
    ];
    let heading = widgets::Row::new(["NAME", "HELD BY", "SINCE", "LEFT", "WAITING"]).reversed();
    frame.render_widget(Table::new(rows, widths).header(heading), table);
    let foot_line = match &state.failure {
        Some(failure) => Line::from(format!("cannot read the locks, retrying: {failure}")).red(),
        None => Line::from(KEYS).dim(),
    };
    frame.render_widget(foot_line, foot);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::state::tests::{seen, typed};
    use super::*;
    use crate::Failure;

    #[test]
    fn screen_has_the_holds_and_the_failure() {
        let mut state = TopScreen::default();
        let mut terminal = Terminal::new(TestBackend::new(80, 5)).unwrap();
        let now = Instant::now();
        let mut screen = |state: &mut TopScreen| -> Vec<String> {
            terminal.draw(|frame| draw(frame, state, now)).unwrap();
            let lines = terminal.backend().to_string();
            lines.lines().map(|line| line.trim_matches(['"', ' ']).to_owned()).collect()
        };
        assert_eq!(screen(&mut state)[0], "loading …");
        let names = [("orders/1", Some(30), 3), ("orders/2", None, 0), ("stock", Some(7), 0)];
        state.update(Ok(names.map(|(name, left, waiters)| seen(name, left, waiters)).into()), now);
        typed(&mut state, "/ord\nr");
        assert_eq!(
            screen(&mut state),
            [
                "2 of 3 holds by name, reversed  /ord",
                "NAME                   HELD BY               SINCE    LEFT               WAITING",
                "orders/2               an unnamed client     >0 s     not known          0",
                "orders/1               an unnamed client     >0 s     ██████████ 30 s    3",
                KEYS,
            ]
        );
        state.update(Err(Failure::usage("connection refused")), now);
        assert_eq!(screen(&mut state)[4], "cannot read the locks, retrying: connection refused");
    }
}
