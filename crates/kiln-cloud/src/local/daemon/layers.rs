//! Layers: the directories root file systems are stacked from. One is removed when no image or instance
//! uses it any more.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Daemon, store};
use crate::Result;
use crate::local::names;

impl Daemon {
    pub fn collect_layers(&self) {
        if let Err(error) = self.try_collect_layers() {
            tracing::warn!(%error, "cannot remove unused layers");
        }
    }

    fn try_collect_layers(&self) -> Result<()> {
        let trash = self.root.join("tmp");
        let mut doomed = Vec::new();
        {
            // Out of the way under the lock, so that nobody can start to use one; removed after it.
            let world = self.world();
            let mut used: HashSet<&str> = HashSet::new();
            used.extend(world.images.iter().flat_map(|i| i.layers.iter().map(String::as_str)));
            used.extend(world.instances.iter().flat_map(|i| i.layers.iter().map(String::as_str)));
            used.extend(world.instances.iter().map(|i| i.upper.as_str()));
            let Ok(entries) = fs::read_dir(self.root.join("layers")) else {
                return Ok(());
            };
            for entry in entries.flatten() {
                if !entry.file_name().to_str().is_some_and(|name| used.contains(name)) {
                    let to = trash.join(names::new_id());
                    if fs::rename(entry.path(), &to).is_ok() {
                        doomed.push(to);
                    }
                }
            }
        }
        doomed.iter().try_for_each(|path| store::remove_tree(path))
    }
}

/// What a tree takes on disk.
pub fn size(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => size(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
