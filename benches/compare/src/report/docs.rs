use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;

use super::{Extent, read, write};

fn docs(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/src", path].iter().collect()
}

#[test]
fn page_and_pictures_are_made_from_the_results() {
    let made = tempfile::tempdir().unwrap();
    let (json, page) = (docs("benchmarks/results.json"), made.path().join("benchmarks.md"));
    let pictures = made.path().join("benchmarks");
    write(&read(&json).unwrap(), &json, &page, &pictures, Extent::Summary).unwrap();
    let remedy = "`cargo xtask bench report docs/src/benchmarks/results.json` makes it again";
    let is_same = |is: PathBuf, made: PathBuf| {
        let same = read_to_string(&made).is_ok_and(|made| made == read_to_string(&is).unwrap());
        assert!(same, "{}: {remedy}", is.display());
    };
    is_same(docs("benchmarks.md"), page);
    for picture in read_dir(docs("benchmarks")).unwrap().map(|entry| entry.unwrap().path()) {
        if picture.extension().is_some_and(|extension| extension == "svg") {
            let made = pictures.join(picture.file_name().unwrap());
            is_same(picture, made);
        }
    }
}
