//! The report as a page of the book.

use std::path::Path;

use super::document::{Block, Line, Span, Table};

const WIDTH: usize = 100;

/// `pictures` is relative to the page.
pub(super) fn page(blocks: &[Block], pictures: &Path) -> String {
    let mut parts = Vec::new();
    for block in blocks {
        parts.push(match block {
            Block::Heading(level, text) => format!("{} {}\n", "#".repeat(*level), escaped(text)),
            Block::Paragraph(line) => wrapped(line, "", ""),
            Block::List(items) => {
                let mut list = String::new();
                for item in items {
                    list += &wrapped(&item.line, "- ", "  ");
                    for line in &item.below {
                        list += &wrapped(line, "  - ", "    ");
                    }
                }
                list
            }
            Block::Table(table) => tabulated(table),
            Block::Picture(picture) => {
                let target = pictures.join(&picture.file);
                format!("![{}]({})\n", escaped(&picture.alt), target.display())
            }
        });
    }
    parts.join("\n")
}

fn wrapped(line: &Line, first: &str, next: &str) -> String {
    let mut text = String::new();
    for span in &line.0 {
        match span {
            Span::Text(plain) => text += &escaped(plain),
            Span::Strong(plain) => text += &format!("**{}**", escaped(plain)),
            Span::Code(plain) => text += &format!("`{}`", plain.replace('`', "'")),
        }
    }
    let mut page = first.to_owned();
    let mut column = first.chars().count();
    let mut is_first = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if is_first {
            is_first = false;
        } else if column + 1 + length > WIDTH && !stays_in_line(word) {
            page += "\n";
            page += next;
            column = next.chars().count();
        } else {
            page.push(' ');
            column += 1;
        }
        page += word;
        column += length;
    }
    page + "\n"
}

/// It is markup there, or a unit.
fn stays_in_line(word: &str) -> bool {
    let unit = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '%');
    if ["%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB"].contains(&unit) {
        return true;
    }
    let number = word.trim_end_matches(['.', ')']);
    word.starts_with(['#', '>', '-', '+', '=', '|'])
        || (number != word && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

fn tabulated(table: &Table) -> String {
    let text = |row: &[String], stands_out: bool| -> Vec<String> {
        let mut cells: Vec<String> = row
            .iter()
            .map(|cell| escaped(cell).split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        if let Some(name) = cells.get_mut(table.words.saturating_sub(1))
            && stands_out
            && !name.is_empty()
        {
            *name = format!("**{name}**");
        }
        cells
    };
    let head = text(&table.head, false);
    let rows: Vec<_> = table.rows.iter().map(|row| text(&row.cells, row.stands_out)).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = widths.iter().enumerate().map(|(column, width)| {
            let cell = cells.get(column).map_or("", String::as_str);
            if column < table.words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(column, width)| {
        if column < table.words {
            "-".repeat(*width)
        } else {
            format!("{}:", "-".repeat(width - 1))
        }
    });
    let rule: Vec<String> = rule.collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{}{rows}", line(&head), line(&rule))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let characters: Vec<char> = text.chars().collect();
    let is_in_word = |at: Option<usize>| {
        at.and_then(|at| characters.get(at)).is_some_and(|c| c.is_alphanumeric())
    };
    for (at, c) in characters.iter().enumerate() {
        let needs = match c {
            '\\' | '`' | '*' | '<' | '>' | '[' | ']' | '|' | '~' | '$' => true,
            '_' => !(is_in_word(at.checked_sub(1)) && is_in_word(Some(at + 1))),
            // It would begin a link's target.
            '(' => at > 0 && characters[at - 1] == ']',
            '&' => {
                characters.get(at + 1).is_some_and(|next| next.is_alphanumeric() || *next == '#')
            }
            '#' | '+' | '-' => at == 0,
            _ => false,
        };
        if needs {
            escaped.push('\\');
        }
        escaped.push(if c.is_control() { ' ' } else { *c });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::{Item, Row};

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("a*b <c> [d](e) f|g"), "a\\*b \\<c\\> \\[d\\]\\(e) f\\|g");
        assert_eq!(escaped("snake_case _x_ - y"), "snake_case \\_x\\_ - y");
        assert_eq!(escaped("- no list\nand no line"), "\\- no list and no line");
    }

    #[test]
    fn long_lines_are_broken_and_stay_in_their_point() {
        let line = Line::default().strong("redis").text(format!(": {}", "word ".repeat(60)));
        let list = Block::List(vec![Item { line: line.clone(), below: vec![line] }]);
        let page = page(&[list], Path::new("x"));
        assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
        assert!(page.starts_with("- **redis**: word") && page.contains("\n  - **redis**: word"));
        assert!(page.lines().all(|line| line.starts_with("- ") || line.starts_with("  ")));
    }

    #[test]
    fn no_broken_line_begins_something_else() {
        let text = format!("{} - 1. # x {}", "y".repeat(WIDTH), "z".repeat(WIDTH));
        let page = page(&[Block::text(text)], Path::new("x"));
        assert_eq!(page.lines().count(), 3, "{page}");
        assert!(page.lines().all(|line| line.starts_with(['y', 'x', 'z'])), "{page}");
    }

    #[test]
    fn tables_are_aligned() {
        let row = |cells: [&str; 3], stands_out| Row {
            cells: cells.map(str::to_owned).to_vec(),
            stands_out,
        };
        let table = Table {
            head: ["backend", "subject", "two cores"].map(str::to_owned).to_vec(),
            words: 2,
            rows: vec![row(["redis", "ours", "12.3k/s"], true), row(["", "a|b", "–"], false)],
        };
        let expected = "\
| backend | subject  | two cores |
| ------- | -------- | --------: |
| redis   | **ours** |   12.3k/s |
|         | a\\|b     |         – |
";
        assert_eq!(page(&[Block::Table(table)], Path::new("x")), expected);
    }
}
