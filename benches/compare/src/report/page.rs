const WIDTH: usize = 100;

/// [`plain`] escapes text that isn't Markdown.
#[derive(Debug, Default)]
pub(super) struct Page(pub(super) String);

pub(super) type Item = (String, Vec<String>);

impl Page {
    pub(super) fn heading(&mut self, text: &str) {
        self.block(&format!("## {text}\n"));
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.block(&wrapped(text, "", ""));
    }

    pub(super) fn list(&mut self, items: impl IntoIterator<Item = Item>) {
        let items = items.into_iter().map(|(line, below)| {
            let below = below.iter().map(|line| wrapped(line, "  - ", "    "));
            wrapped(&line, "- ", "  ") + &below.collect::<String>()
        });
        let list: String = items.collect();
        if !list.is_empty() {
            self.block(&list);
        }
    }

    /// The first `words` columns contain words, the others figures.
    pub(super) fn table(&mut self, head: &[String], words: usize, rows: &[Vec<String>]) {
        let width = |column: usize| {
            let cells = rows.iter().map(|row| &row[column]).chain([&head[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column < words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let rule = widths.iter().enumerate().map(|(column, width)| {
            let end = if column < words { "-" } else { ":" };
            "-".repeat(width - 1) + end
        });
        let rule: Vec<String> = rule.collect();
        let rows: String = rows.iter().map(|row| line(row)).collect();
        self.block(&(line(head) + &line(&rule) + &rows));
    }

    pub(super) fn block(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0 += text;
    }
}

/// Doesn't wrap before a word that would be Markdown syntax at the start of a line.
fn wrapped(text: &str, first: &str, next: &str) -> String {
    let is_word = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || "*`\\(".contains(c));
    let (mut page, mut column) = (first.to_owned(), first.len());
    for (index, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > WIDTH && is_word(word) {
            page += &format!("\n{next}");
            column = next.len();
        } else if index > 0 {
            page.push(' ');
            column += 1;
        }
        page += word;
        column += length;
    }
    page + "\n"
}

pub(super) fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if "\\`*_<>[]|~$&#".contains(c) || (at == 0 && "-+".contains(c)) {
            escaped.push('\\');
        }
        escaped.push(if c.is_control() { ' ' } else { c });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Options, Parser, html};

    use super::*;

    fn html(markdown: &str) -> String {
        let mut html = String::new();
        html::push_html(&mut html, Parser::new_ext(markdown, Options::ENABLE_TABLES));
        html
    }

    #[test]
    fn text_stays_text() {
        for text in ["a*b <c> [d](e) f|g `h`", "snake_case _x_ - y &amp; # ~z~", "- no list\u{1b}"]
        {
            let html = html(&plain(text));
            let escaped = text.replace('\u{1b}', " ").replace('&', "&amp;");
            let escaped = escaped.replace('<', "&lt;").replace('>', "&gt;");
            assert!(html.contains(&format!("<p>{}</p>", escaped.trim_end())), "{html}");
        }
    }

    #[test]
    fn long_lines_are_broken_and_stay_in_their_item() {
        let mut page = Page::default();
        let line = format!("**redis**: {}- 1. # 5 %", "word ".repeat(60));
        page.list([(line.clone(), vec![line])]);
        assert!(page.0.lines().all(|line| line.chars().count() <= WIDTH + 15), "{}", page.0);
        assert!(page.0.starts_with("- **redis**: word") && page.0.contains("\n  - **redis**"));
        let html = html(&page.0);
        assert_eq!((html.matches("<li>").count(), html.matches("<h1>").count()), (2, 0), "{html}");
    }
}
