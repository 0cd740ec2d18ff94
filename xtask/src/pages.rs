//! Checks of the documentation.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut pages = Vec::new();
    collect(root, ".md", &mut pages)?;
    pages.sort();
    let mut problems = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page)?;
        for (line, target) in links(&text) {
            if let Some(problem) = wrong_with(page, &text, &target)? {
                let page = page.strip_prefix(root).unwrap_or(page);
                problems.push(format!("{}:{line}: {target}: {problem}", page.display()));
            }
        }
        for (line, source) in sources(&text) {
            // Relative to the root or to the page's folder.
            let beside = page.parent().is_some_and(|folder| folder.join(&source).exists());
            if !root.join(&source).exists() && !beside {
                let page = page.strip_prefix(root).unwrap_or(page);
                problems.push(format!("{}:{line}: there is no {source}", page.display()));
            }
        }
    }
    problems.extend(not_in_summary(&root.join("docs/src"), &pages)?);
    problems.extend(without_reason(
        &fs::read_to_string(root.join("Cargo.toml"))?,
        &fs::read_to_string(root.join("CONTRIBUTING.md"))?,
    ));
    problems.extend(untold(root)?);
    problems.extend(unexplained_findings(root)?);
    Ok(problems)
}

/// Returns the features and backends that complete lists lack.
fn untold(root: &Path) -> io::Result<Vec<String>> {
    let features = features(&root.join("Cargo.toml"))?;
    let mut backends: Vec<String> = match fs::read_dir(root.join("backends")) {
        Ok(folders) => folders
            .map(|folder| Ok(format!("backends/{}/", folder?.file_name().display())))
            .collect::<io::Result<_>>()?,
        Err(_) => Vec::new(),
    };
    backends.sort();
    let mut problems = Vec::new();
    for (page, what, names) in [
        ("README.md", "feature", &features),
        ("src/lib.rs", "feature", &features),
        ("docs/src/architecture.md", "backend", &backends),
    ] {
        let text = fs::read_to_string(root.join(page)).unwrap_or_default();
        let lacking = names.iter().filter(|name| !text.contains(&format!("`{name}`")));
        problems.extend(lacking.map(|name| format!("{page}: nothing about the {what} {name}")));
    }
    let schemes = schemes(&fs::read_to_string(root.join("src/connect.rs")).unwrap_or_default());
    for page in ["README.md", "docs/src/guide.md"] {
        let text = fs::read_to_string(root.join(page)).unwrap_or_default();
        let lacking = schemes.iter().filter(|scheme| !text.contains(&format!("`{scheme}:")));
        problems.extend(lacking.map(|scheme| format!("{page}: no URL that begins with {scheme}:")));
    }
    for page in ["docs/src/cli.md", "docs/src/guarantees.md", "docs/src/operations.md"] {
        let text = fs::read_to_string(root.join(page)).unwrap_or_default().to_lowercase();
        // PostgreSQL also contains its scheme.
        let lacking = schemes.iter().filter(|scheme| !text.contains(scheme.as_str()));
        problems.extend(lacking.map(|scheme| format!("{page}: nothing about {scheme}")));
    }
    Ok(problems)
}

fn schemes(connect: &str) -> Vec<String> {
    let entries = connect.split("schemes: [").skip(1).map(str::trim_start);
    let first = entries.filter_map(|entry| entry.strip_prefix('"')?.split('"').next());
    first.map(str::to_owned).collect()
}

fn features(manifest: &Path) -> io::Result<Vec<String>> {
    Ok(feature_table(manifest)?.into_iter().map(|(name, _)| name).collect())
}

/// The others have no code of their own.
pub(crate) fn features_with_code(manifest: &Path) -> io::Result<Vec<String>> {
    let table = feature_table(manifest)?.into_iter();
    let with_code = table.filter(|(_, enables)| enables.contains("dep:") || enables.contains('/'));
    Ok(with_code.map(|(name, _)| name).collect())
}

fn feature_table(manifest: &Path) -> io::Result<Vec<(String, String)>> {
    let text = fs::read_to_string(manifest)?;
    let table = text.lines().skip_while(|line| line.trim() != "[features]").skip(1);
    Ok(table
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .map(|(name, enables)| (name.trim().to_owned(), enables.to_owned()))
        .filter(|(name, _)| !name.starts_with('#') && name != "default")
        .collect())
}

fn unexplained_findings(root: &Path) -> io::Result<Vec<String>> {
    let mut sources = Vec::new();
    collect(&root.join("backends"), ".rs", &mut sources)?;
    let page = fs::read_to_string(root.join("docs/src/operations.md"))?;
    let mut problems = Vec::new();
    for source in sources {
        let text = fs::read_to_string(source)?;
        let codes = text.split("code: \"").skip(1).filter_map(|rest| rest.split('"').next());
        problems.extend(
            codes
                .filter(|code| !page.contains(&format!("`{code}`")))
                .map(|code| format!("docs/src/operations.md: nothing about the finding {code}")),
        );
    }
    Ok(problems)
}

fn without_reason(manifest: &str, contributing: &str) -> Vec<String> {
    let table = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    table
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.trim())
        .filter(|name| !name.starts_with('#') && !name.starts_with("lockwright"))
        .filter(|name| !contributing.contains(&format!("| `{name}` |")))
        .map(|name| format!("CONTRIBUTING.md: no reason for the dependency {name}"))
        .collect()
}

/// Except in build folders and hidden folders.
fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "book" {
                collect(&path, ending, files)?;
            }
        } else if name.ends_with(ending) {
            files.push(path);
        }
    }
    Ok(())
}

fn wrong_with(page: &Path, text: &str, target: &str) -> io::Result<Option<String>> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let mut there = text.to_owned();
    if !path.is_empty() {
        let file = page.parent().unwrap_or(Path::new("")).join(path);
        if !file.exists() {
            return Ok(Some("there is no such file".into()));
        }
        if anchor.is_empty() || file.extension().is_none_or(|extension| extension != "md") {
            return Ok(None);
        }
        there = fs::read_to_string(&file)?;
    }
    if anchor.is_empty() || anchors(&there).contains(anchor) {
        return Ok(None);
    }
    Ok(Some("there is no such heading".into()))
}

fn not_in_summary(book: &Path, pages: &[PathBuf]) -> io::Result<Vec<String>> {
    let summary = match fs::read_to_string(book.join("SUMMARY.md")) {
        Ok(summary) => summary,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let named: BTreeSet<PathBuf> =
        links(&summary).into_iter().map(|(_, target)| normal(&book.join(target))).collect();
    Ok(pages
        .iter()
        .filter(|page| page.starts_with(book) && !page.ends_with("SUMMARY.md"))
        .filter(|page| !named.contains(&normal(page)))
        .map(|page| {
            format!("{}: not in SUMMARY.md", page.strip_prefix(book).unwrap_or(page).display())
        })
        .collect())
}

fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// `[text](target)` and `[name]: target` outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
            && !name.starts_with("[^")
        {
            found.push((number, target.trim().to_owned()));
            continue;
        }
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            found.push((number, target.split_whitespace().next().unwrap_or("").to_owned()));
            rest = after;
        }
    }
    found
}

fn sources(text: &str) -> Vec<(usize, String)> {
    let names = |line: &str| -> Vec<String> {
        let code = line.split('`').skip(1).step_by(2);
        code.filter(|name| name.ends_with(".rs") && name.contains('/'))
            .filter(|name| !name.contains(['*', ' ']))
            .map(str::to_owned)
            .collect()
    };
    prose(text)
        .flat_map(|(number, line)| names(line).into_iter().map(move |name| (number, name)))
        .collect()
}

/// Outside fenced code, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return false;
        }
        !in_code
    })
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// As mdBook generates them.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .chars()
                .filter_map(|c| match c {
                    ' ' => Some('-'),
                    '-' | '_' => Some(c),
                    c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_of_features_have_no_code() {
        let folder =
            std::env::temp_dir().join(format!("lockwright-features-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let manifest = folder.join("Cargo.toml");
        let table = "[features]\ndefault = [\"a\"]\na = [\"dep:a\"]\nb = [\"a?/b\"]\nall = [\"a\", \"b\"]\n";
        fs::write(&manifest, table).unwrap();
        let (all, with_code) = (features(&manifest), features_with_code(&manifest));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(all.unwrap(), ["a", "b", "all"]);
        assert_eq!(with_code.unwrap(), ["a", "b"]);
    }

    #[test]
    fn links_in_prose_are_found_and_those_in_code_are_not() {
        let text = "see [a](a.md) and [b](b.md#part \"title\")\n\
                    ```\n[no](no.md)\n```\n\
                    `[no](no.md)` but [c](c.md)\n\
                    [d]: d.md\n";
        let targets: Vec<_> = links(text);
        let expected = [(1, "a.md"), (1, "b.md#part"), (5, "c.md"), (6, "d.md")];
        assert_eq!(targets, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn headings_become_anchors_as_mdbook_makes_them() {
        let found = anchors("# What's `TTL`?\n## Step 1: the _start_\n");
        assert!(found.contains("whats-ttl"), "{found:?}");
        assert!(found.contains("step-1-the-_start_"), "{found:?}");
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let manifest = "[workspace.dependencies]\nlockwright-core = { path = \"core\" }\n\n\
                        # Reasons.\nserde = \"1\"\nleft-pad = { version = \"1\" }\n[other]\nx = \"1\"\n";
        let problems = without_reason(manifest, "| `serde` | core | settings |\n");
        assert_eq!(problems, ["CONTRIBUTING.md: no reason for the dependency left-pad"]);
    }

    #[test]
    fn what_is_wrong_with_pages_is_found() {
        let folder = crate::folders::logs().join(format!("self-test-pages-{}", std::process::id()));
        let book = folder.join("docs/src");
        fs::create_dir_all(&book).unwrap();
        fs::create_dir_all(folder.join("backends/x")).unwrap();
        fs::write(folder.join("backends/x/doctor.rs"), "code: \"known\", code: \"new\"").unwrap();
        fs::write(folder.join("Cargo.toml"), "[features]\ndefault = []\n# x\nnew = []\n").unwrap();
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(
            folder.join("src/connect.rs"),
            "$(schemes: [$a]) schemes: [\"x\"], schemes: [\"new\", \"other\"]",
        )
        .unwrap();
        for page in ["cli.md", "guarantees.md", "guide.md"] {
            fs::write(book.join(page), "# X\n`x:`\n").unwrap();
        }
        fs::write(folder.join("CONTRIBUTING.md"), "").unwrap();
        fs::write(
            folder.join("README.md"),
            "[x](docs/src/a.md) [y](docs/src/none.md) `x:y` `new:`\n",
        )
        .unwrap();
        fs::write(
            book.join("SUMMARY.md"),
            "[A](a.md) [O](operations.md) [C](cli.md) [T](guarantees.md) [G](guide.md)\n",
        )
        .unwrap();
        fs::write(book.join("operations.md"), "| `known` | what X does |\n").unwrap();
        fs::write(
            book.join("a.md"),
            "# Top\n[up](#top) [no](#bottom) [b](./b.md#b)\n`core/x.rs`, `x.rs`\n",
        )
        .unwrap();
        fs::write(book.join("b.md"), "# B\n[web](https://example.org/)\n").unwrap();
        let problems = check(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let problems = problems.unwrap();
        assert_eq!(problems.len(), 12, "{problems:#?}");
        assert!(problems[0].contains("README.md:1: docs/src/none.md: there is no such file"));
        assert!(problems[1].contains("a.md:2: #bottom: there is no such heading"));
        assert!(problems[2].contains("a.md:3: there is no core/x.rs"));
        assert!(problems[3].contains("b.md: not in SUMMARY.md"));
        assert!(problems[4].contains("README.md: nothing about the feature new"));
        assert!(problems[5].contains("src/lib.rs: nothing about the feature new"));
        assert!(problems[6].contains("architecture.md: nothing about the backend backends/x/"));
        assert_eq!(problems[7], "docs/src/guide.md: no URL that begins with new:");
        assert_eq!(problems[8], "docs/src/cli.md: nothing about new");
        assert_eq!(problems[9], "docs/src/guarantees.md: nothing about new");
        assert_eq!(problems[10], "docs/src/operations.md: nothing about new");
        assert!(problems[11].contains("nothing about the finding new"));
    }
}
