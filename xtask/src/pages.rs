use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use fs_err as fs;

pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut pages = Vec::new();
    collect(root, ".md", &mut pages)?;
    pages.sort();
    let mut problems = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let name = page.strip_prefix(root).unwrap_or(page).display();
        for (line, target) in links(&text) {
            if let Some(problem) = wrong_with(page, &text, &target)? {
                problems.push(format!("{name}:{line}: {target}: {problem}"));
            }
        }
        let folders = [Some(root), page.parent()];
        let exists =
            |source: &String| folders.iter().flatten().any(|folder| folder.join(source).exists());
        let missing = sources(&text).into_iter().filter(|(_, source)| !exists(source));
        problems
            .extend(missing.map(|(line, source)| format!("{name}:{line}: there is no {source}")));
    }
    problems.extend(not_in_summary(&root.join("docs/src"), &pages)?);
    problems.extend(without_reason(
        &fs::read_to_string(root.join("Cargo.toml"))?,
        &fs::read_to_string(root.join("CONTRIBUTING.md"))?,
    ));
    problems.extend(untold(root)?);
    problems.extend(unexplained_findings(root)?);
    problems.extend(different_metrics(root));
    Ok(problems)
}

/// Finds features, backends and URL schemes that a page must list but doesn't.
fn untold(root: &Path) -> io::Result<Vec<String>> {
    let read = |page: &str| std::fs::read_to_string(root.join(page)).unwrap_or_default();
    let features = features(&root.join("Cargo.toml"))?;
    let backends = std::fs::read_dir(root.join("backends")).into_iter().flatten().flatten();
    let mut backends: Vec<String> =
        backends.map(|folder| format!("backends/{}/", folder.file_name().display())).collect();
    backends.sort();
    let schemes = schemes(&read("src/connect.rs"));
    let mut problems = Vec::new();
    let mut check = |page: &str, text: &str, names: &[String], what: &str, shown: &str| {
        let lacking = names.iter().filter(|name| !text.contains(&shown.replace('N', name)));
        problems.extend(lacking.map(|name| format!("{page}: nothing about {what}{name}")));
    };
    for page in ["README.md", "src/lib.rs"] {
        check(page, &read(page), &features, "the feature ", "`N`");
    }
    let page = "docs/src/architecture.md";
    check(page, &read(page), &backends, "the backend ", "`N`");
    for page in ["README.md", "docs/src/guide.md"] {
        check(page, &read(page), &schemes, "URLs of ", "`N:");
    }
    for page in ["docs/src/cli.md", "docs/src/guarantees.md", "docs/src/operations.md"] {
        check(page, &read(page).to_lowercase(), &schemes, "", "N");
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

pub(crate) fn features_with_code(manifest: &Path) -> io::Result<Vec<String>> {
    let table = feature_table(manifest)?.into_iter();
    let with_code = table.filter(|(_, enables)| enables.contains("dep:") || enables.contains('/'));
    Ok(with_code.map(|(name, _)| name).collect())
}

fn feature_table(manifest: &Path) -> io::Result<Vec<(String, String)>> {
    let mut features = table(&fs::read_to_string(manifest)?, "[features]");
    features.retain(|(name, _)| name != "default");
    Ok(features)
}

fn table(manifest: &str, heading: &str) -> Vec<(String, String)> {
    let lines = manifest.lines().skip_while(|line| *line != heading).skip(1);
    let lines =
        lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(" = "));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn unexplained_findings(root: &Path) -> io::Result<Vec<String>> {
    let mut sources = Vec::new();
    collect(&root.join("backends"), ".rs", &mut sources)?;
    let page = fs::read_to_string(root.join("docs/src/operations.md"))?;
    let mut problems = Vec::new();
    for source in sources {
        let text = fs::read_to_string(source)?;
        let calls = text.split("finding::").skip(1).filter_map(|call| call.split_once('('));
        let calls = calls.filter_map(|(_, rest)| rest.trim_start().strip_prefix('"'));
        let codes = calls.filter_map(|rest| rest.split('"').next());
        let lacking = codes.filter(|code| !page.contains(&format!("`{code}`")));
        let problem = |code| format!("docs/src/operations.md: nothing about the finding {code}");
        problems.extend(lacking.map(problem));
    }
    Ok(problems)
}

fn different_metrics(root: &Path) -> Vec<String> {
    let names = |file: &str| -> BTreeSet<String> {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        let ends = |c: char| !c.is_ascii_lowercase() && c != '_';
        let names = text.split("lockwright_").skip(1).filter_map(|rest| rest.split(ends).next());
        names.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
    };
    let exported = names("core/src/client/export.rs");
    let (page, dashboard) = (names("docs/src/operations.md"), names("docs/src/grafana.json"));
    let problem = |file, name| format!("docs/src/{file}: nothing about the metric {name}");
    let unexplained = exported.difference(&page).map(|name| problem("operations.md", name));
    let unshown = exported.difference(&dashboard).map(|name| problem("grafana.json", name));
    let unknown = dashboard.difference(&exported);
    let unknown = unknown.map(|name| format!("docs/src/grafana.json: there is no metric {name}"));
    unexplained.chain(unshown).chain(unknown).collect()
}

fn without_reason(manifest: &str, contributing: &str) -> Vec<String> {
    let names = table(manifest, "[workspace.dependencies]").into_iter().map(|(name, _)| name);
    names
        .filter(|name| !name.starts_with("lockwright"))
        .filter(|name| !contributing.contains(&format!("| `{name}` |")))
        .map(|name| format!("CONTRIBUTING.md: no reason for the dependency {name}"))
        .collect()
}

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
    let summary = fs::read_to_string(book.join("SUMMARY.md"))?;
    let named: BTreeSet<PathBuf> =
        links(&summary).into_iter().map(|(_, target)| normal(&book.join(target))).collect();
    let of_book = pages.iter().filter_map(|page| Some((page, page.strip_prefix(book).ok()?)));
    let lacking = of_book
        .filter(|(page, name)| !name.ends_with("SUMMARY.md") && !named.contains(&normal(page)));
    Ok(lacking.map(|(_, name)| format!("{}: not in SUMMARY.md", name.display())).collect())
}

fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

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
        let manifest = tempfile::NamedTempFile::new().unwrap();
        let table = "[features]\ndefault = [\"a\"]\na = [\"dep:a\"]\nb = [\"a?/b\"]\nall = [\"a\", \"b\"]\n";
        fs::write(&manifest, table).unwrap();
        assert_eq!(features(manifest.path()).unwrap(), ["a", "b", "all"]);
        assert_eq!(features_with_code(manifest.path()).unwrap(), ["a", "b"]);
    }

    #[test]
    fn problems_of_pages_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("backends/x/doctor.rs", "finding::error(\"known\", finding::note(\n\"new\""),
            (
                "Cargo.toml",
                "[workspace.dependencies]\nlockwright-core = { path = \"core\" }\n# Reasons.\n\
                 serde = \"1\"\nleft-pad = { version = \"1\" }\n\
                 [features]\ndefault = []\n# x\nnew = []\n",
            ),
            ("src/connect.rs", "$(schemes: [$a]) schemes: [\"x\"], schemes: [\"new\", \"other\"]"),
            ("core/src/client/export.rs", "\"lockwright_a\" \"lockwright_new\""),
            ("docs/src/grafana.json", "lockwright_a_bucket[5m] lockwright_old"),
            ("docs/src/cli.md", "# X\n`x:`\n"),
            ("docs/src/guarantees.md", "# X\n`x:`\n"),
            ("docs/src/guide.md", "# X\n`x:`\n"),
            ("docs/src/operations.md", "| `known` | what X does |\n`lockwright_a`\n"),
            (
                "docs/src/a.md",
                "# What's `TTL`: the _top_?\n[up](#whats-ttl-the-_top_) [no](#bottom \"title\")\n\
                 [b](./b.md#b) `core/x.rs`, `x.rs`\n```\n[code](no.md)\n```\n\
                 `[code](no.md)` but [c](c.md)\n[d]: d.md\n",
            ),
            ("docs/src/b.md", "# B\n[web](https://example.org/)\n"),
            (
                "docs/src/SUMMARY.md",
                "[A](a.md) [O](operations.md) [C](cli.md) [T](guarantees.md) [G](guide.md)\n",
            ),
            ("CONTRIBUTING.md", "| `serde` | settings |\n"),
            ("README.md", "[x](docs/src/a.md) [y](docs/src/none.md) `x:y` `new:`\n"),
        ] {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let expected = [
            "README.md:1: docs/src/none.md: there is no such file",
            "docs/src/a.md:2: #bottom: there is no such heading",
            "docs/src/a.md:7: c.md: there is no such file",
            "docs/src/a.md:8: d.md: there is no such file",
            "docs/src/a.md:3: there is no core/x.rs",
            "b.md: not in SUMMARY.md",
            "CONTRIBUTING.md: no reason for the dependency left-pad",
            "README.md: nothing about the feature new",
            "src/lib.rs: nothing about the feature new",
            "docs/src/architecture.md: nothing about the backend backends/x/",
            "docs/src/guide.md: nothing about URLs of new",
            "docs/src/cli.md: nothing about new",
            "docs/src/guarantees.md: nothing about new",
            "docs/src/operations.md: nothing about new",
            "docs/src/operations.md: nothing about the finding new",
            "docs/src/operations.md: nothing about the metric new",
            "docs/src/grafana.json: nothing about the metric new",
            "docs/src/grafana.json: there is no metric old",
        ];
        assert_eq!(check(folder.path()).unwrap(), expected);
    }
}
