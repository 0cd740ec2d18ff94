mod about;
mod charts;
pub mod compare;
mod draw;
mod findings;
mod names;
mod page;
pub mod statistics;
mod tables;
#[cfg(test)]
mod tests;
mod view;

use std::fs;
use std::io;
use std::path::Path;

use crate::results::{FORMAT, Results};
use crate::workload::WORKLOADS;
use page::Page;
use view::View;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// No tables of figures.
    Summary,
    Full,
}

/// Writes the page `markdown`, and new pictures in `folder`. `results` are from the file `json`.
pub fn write(
    results: &Results,
    json: &Path,
    markdown: &Path,
    folder: &Path,
    extent: Extent,
) -> io::Result<()> {
    let view = View::of(results);
    let pictures = charts::all(&view).map_err(|error| io::Error::other(error.to_string()))?;
    for file in WORKLOADS.iter().flat_map(|workload| {
        charts::KINDS.map(|kind| folder.join(format!("{}-{kind}.svg", workload.id)))
    }) {
        let _ = fs::remove_file(file);
    }
    for picture in &pictures {
        put(&folder.join(&picture.file), &picture.svg)?;
    }
    let beside = markdown.parent().unwrap_or(Path::new(""));
    let seen_from_page = folder.strip_prefix(beside).unwrap_or(folder);
    let mut page = Page("# Benchmarks\n".to_owned());
    about::warning(&mut page, &view);
    findings::all(&mut page, &view);
    tables::glance(&mut page, &view);
    about::run(&mut page, &view, json);
    about::method(&mut page, &view);
    about::subjects(&mut page, &view, extent);
    about::exclusion(&mut page, &view);
    for workload in view.workloads() {
        page.heading(workload.title);
        page.paragraph(workload.what);
        if extent == Extent::Full {
            tables::figures(&mut page, &view, workload);
        }
        for picture in pictures.iter().filter(|picture| picture.workload == workload.id) {
            let target = seen_from_page.join(&picture.file);
            page.block(&format!("![{}]({})\n", picture.alt, target.display()));
        }
    }
    put(markdown, &page.0)
}

pub fn read(path: &Path) -> io::Result<Results> {
    let text = fs::read_to_string(path).map_err(|error| of(path, error))?;
    let invalid = |problem: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {problem}", path.display()))
    };
    // Results in another format may lack fields.
    let found: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
        invalid(format!("not JSON, so no results of `cargo xtask bench`: {error}"))
    })?;
    match found.get("format").and_then(serde_json::Value::as_u64) {
        None => {
            Err(invalid("JSON without a format: name a results.json of `cargo xtask bench`".into()))
        }
        Some(format) if format != u64::from(FORMAT) => Err(invalid(format!(
            "results of format {format}, and this program reads format {FORMAT}: measure again \
             with `cargo xtask bench`, or use the revision that made the file"
        ))),
        Some(_) => serde_json::from_value(found).map_err(|error| {
            invalid(format!("incomplete results: {error}; measure again with `cargo xtask bench`"))
        }),
    }
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| of(folder, error))?;
    }
    fs::write(path, text).map_err(|error| of(path, error))
}

fn of(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
