//! The report of a run: a page of the book with pictures, and an HTML file.

mod about;
pub mod compare;
mod document;
mod findings;
mod html;
mod markdown;
mod names;
mod pictures;
mod plots;
pub mod statistics;
mod svg;
mod tables;
#[cfg(test)]
mod tests;
mod view;

use std::fs;
use std::io;
use std::path::Path;

use crate::results::{FORMAT, Results};
use document::{Block, Picture};
use view::View;

const TITLE: &str = "Benchmarks";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Without figures and distributions of time.
    Summary,
    Full,
}

/// Writes the report of `results` (from the file `json`): the page `markdown`, new `pictures`, and
/// the page `html`.
///
/// # Errors
/// If a file can't be written.
pub fn write(
    results: &Results,
    json: &Path,
    markdown: &Path,
    pictures: &Path,
    html: &Path,
) -> io::Result<()> {
    let blocks = write_page(results, json, markdown, pictures, Extent::Full)?;
    put(html, &html::page(&blocks, TITLE))
}

/// Writes only a summary, without HTML.
///
/// # Errors
/// If a file can't be written.
pub fn write_summary(
    results: &Results,
    json: &Path,
    markdown: &Path,
    pictures: &Path,
) -> io::Result<()> {
    write_page(results, json, markdown, pictures, Extent::Summary).map(drop)
}

fn write_page(
    results: &Results,
    json: &Path,
    markdown: &Path,
    pictures: &Path,
    extent: Extent,
) -> io::Result<Vec<Block>> {
    let view = View::of(results);
    let drawn = pictures::all(&view);
    let blocks = blocks(&view, json, &drawn, extent);
    let beside = markdown.parent().unwrap_or(Path::new(""));
    let seen_from_page = pictures.strip_prefix(beside).unwrap_or(pictures);
    fs::create_dir_all(pictures).map_err(|error| of(pictures, error))?;
    remove_old(pictures, &drawn)?;
    for picture in &drawn {
        put(&pictures.join(&picture.file), &picture.svg)?;
    }
    put(markdown, &markdown::page(&blocks, seen_from_page))?;
    Ok(blocks)
}

/// Reads a run's results.
///
/// # Errors
/// If the file can't be read or has another format.
pub fn read(path: &Path) -> io::Result<Results> {
    let text = fs::read_to_string(path).map_err(|error| of(path, error))?;
    let invalid = |problem: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {problem}", path.display()))
    };
    // The rest may differ in another format.
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

fn blocks(view: &View<'_>, json: &Path, pictures: &[Picture], extent: Extent) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(1, TITLE.to_owned())];
    blocks.extend(about::warning(view));
    blocks.extend(findings::blocks(view, extent));
    blocks.extend(tables::glance(view));
    blocks.extend(about::run(view, json));
    blocks.extend(about::method());
    blocks.extend(about::subjects(view, extent));
    blocks.extend(about::exclusion(view));
    for workload in view.workloads() {
        blocks.extend(tables::workload(view, workload, pictures, extent));
    }
    blocks
}

fn remove_old(folder: &Path, drawn: &[Picture]) -> io::Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| of(folder, error))? {
        let path = entry?.path();
        let is_drawn = drawn.iter().any(|picture| path.file_name() == Some(picture.file.as_ref()));
        let is_picture = path.extension().is_some_and(|extension| extension == "svg");
        if is_picture
            && !is_drawn
            && fs::read_to_string(&path).is_ok_and(|text| text.contains(svg::MADE))
        {
            fs::remove_file(&path).map_err(|error| of(&path, error))?;
        }
    }
    Ok(())
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
