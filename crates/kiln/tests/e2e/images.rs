//! Images of one local cloud for another: what one lane has built, the next need not build again. Layers are never
//! written to once an image has them, so hard links will do.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

/// More than a build takes on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(900);

fn records(root: &Path) -> Vec<(PathBuf, Value)> {
    let entries = fs::read_dir(root.join("state/images")).into_iter().flatten().flatten();
    let records =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    let read = |path: PathBuf| Some((path.clone(), serde_json::from_slice(&fs::read(path).ok()?).ok()?));
    records.filter_map(read).collect()
}

fn has_default(root: &Path) -> bool {
    records(root).iter().any(|(_, record)| record["image"]["properties"]["kiln_image"] == "default")
}

/// Waits until `from` has the image that clusters are raised from, for as long as anybody works on it.
pub fn await_default(from: &Path, to: &Path, is_working: impl Fn() -> bool) {
    let start = Instant::now();
    while !has_default(to) && !has_default(from) && is_working() && start.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Gives `to` all images of these, unless it has some. No daemon may be at work on `to`.
pub fn share(from: &[PathBuf], to: &Path) {
    if !records(to).is_empty() {
        return;
    }
    for folder in ["state/images", "layers"] {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(to.join(folder)).expect("a folder");
    }
    for (from, (path, record)) in
        from.iter().flat_map(|from| records(from).into_iter().map(move |r| (from, r)))
    {
        let layers = record["layers"].as_array().expect("layers").iter().filter_map(Value::as_str);
        let mut all =
            layers.map(|layer| link(&from.join("layers").join(layer), &to.join("layers").join(layer)));
        // One that has just been superseded loses its layers meanwhile.
        if all.all(|linked| linked) {
            let name = path.file_name().expect("a file's path");
            fs::write(to.join("state/images").join(name), record.to_string()).expect("a record");
        }
    }
}

fn link(from: &Path, to: &Path) -> bool {
    to.exists() || Command::new("cp").arg("-al").args([from, to]).status().expect("cp runs").success()
}
