//! The report as an HTML file.

use std::fmt::Write as _;

use super::document::{Block, Line, Span, Table};
use super::svg::escaped;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --strong: #2f81f71f; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
nav { columns: 2; font-size: 14px; } nav a { display: block; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 2px 9px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th.word, td.word { text-align: left; } th { vertical-align: bottom; white-space: normal; }
tr.ours { background: var(--strong); font-weight: 600; } tr.first td { border-top: 2px solid var(--line); }
figure { margin: 1.5rem 0; } svg { max-width: 100%; height: auto; }
code { font-size: 90%; }
";

pub(super) fn page(blocks: &[Block], title: &str) -> String {
    let mut body = String::new();
    for (number, block) in blocks.iter().enumerate() {
        let _ = match block {
            Block::Heading(1, text) => {
                writeln!(body, "<h1>{}</h1>\n<nav>\n{}</nav>", escaped(text), contents(blocks))
            }
            Block::Heading(level, text) => {
                writeln!(body, "<h{level} id=\"part-{number}\">{}</h{level}>", escaped(text))
            }
            Block::Paragraph(line) => writeln!(body, "<p>{}</p>", running(line)),
            Block::List(items) => {
                body.push_str("<ul>\n");
                for item in items {
                    let below: String = item
                        .below
                        .iter()
                        .map(|line| format!("<li>{}</li>\n", running(line)))
                        .collect();
                    let below =
                        if below.is_empty() { below } else { format!("<ul>\n{below}</ul>") };
                    let _ = writeln!(body, "<li>{}{below}</li>", running(&item.line));
                }
                writeln!(body, "</ul>")
            }
            Block::Table(table) => writeln!(body, "{}", tabulated(table)),
            Block::Picture(picture) => writeln!(
                body,
                "<figure aria-label=\"{}\">\n{}</figure>",
                escaped(&picture.alt),
                picture.svg
            ),
        };
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

fn contents(blocks: &[Block]) -> String {
    let links = blocks.iter().enumerate().filter_map(|(number, block)| match block {
        Block::Heading(2, text) => {
            Some(format!("<a href=\"#part-{number}\">{}</a>\n", escaped(text)))
        }
        _ => None,
    });
    links.collect()
}

fn running(line: &Line) -> String {
    let span = |span: &Span| match span {
        Span::Text(text) => escaped(text),
        Span::Strong(text) => format!("<strong>{}</strong>", escaped(text)),
        Span::Code(text) => format!("<code>{}</code>", escaped(text)),
    };
    line.0.iter().map(span).collect()
}

fn tabulated(table: &Table) -> String {
    let cells = |tag: &str, cells: &[String]| -> String {
        let cell = |(column, text): (usize, &String)| {
            let class = if column < table.words { " class=\"word\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(text))
        };
        cells.iter().enumerate().map(cell).collect()
    };
    let mut rows = String::new();
    for row in &table.rows {
        let mut classes = Vec::new();
        if row.stands_out {
            classes.push("ours");
        }
        if row.cells.first().is_some_and(|first| !first.is_empty()) {
            classes.push("first");
        }
        let _ =
            writeln!(rows, "<tr class=\"{}\">{}</tr>", classes.join(" "), cells("td", &row.cells));
    }
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>",
        cells("th", &table.head)
    )
}
