//! `kiln image lock`

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use kiln_image::{Lock as ImageLock, LockFile, Recipe, images_of_kiln};
use serde::Serialize;

use super::{find_in, manifest_of};
use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Write down every package of an image, so that it can be built again just so
///
/// Writes name, version, architecture and SHA-256 of each package to the file with the ending `.lock` beside the cluster file.
/// `kiln image build --locked` builds from it.
#[derive(Debug, Args)]
pub struct Lock {
    /// Only this image of the file; default: all that the file builds
    image: Option<String>,
    /// The image of the cloud to write it from, by name or id. Default: the one that stands for the image of the file
    #[arg(long, requires = "image", value_name = "NAME")]
    from: Option<String>,
}

#[derive(Serialize)]
struct Locked {
    image: String,
    from: String,
    packages: usize,
    /// Whether the file has changed by it.
    changed: bool,
}

impl Lock {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let path = LockFile::path(&context.file);
        let mut file = LockFile::read(&path).map_err(advised)?.unwrap_or_default();
        let locked = cluster::with(context, async |deployment| {
            let images = images_of_kiln(&deployment.cloud).await?;
            let known: Vec<&str> = deployment.spec.images.keys().map(String::as_str).collect();
            let names: Vec<&str> = match &self.image {
                Some(name) if Recipe::of(deployment.spec, name).is_none() => {
                    return Err(anyhow!("the file builds no image {name}"))
                        .exit(Exit::Usage)
                        .hint(format!("it has {}", known.join(", ")));
                }
                Some(name) => vec![name],
                None => {
                    known.into_iter().filter(|name| Recipe::of(deployment.spec, name).is_some()).collect()
                }
            };
            let mut locked = Vec::new();
            for name in names {
                let image = find_in(deployment, &images, self.from.as_deref().unwrap_or(name))?;
                let lock = ImageLock::of(&image.name, &manifest_of(&image)?).map_err(advised)?;
                let packages = lock.packages.len();
                let changed = file.images.get(name).is_none_or(|before| before.digest() != lock.digest());
                locked.push(Locked { image: name.to_string(), from: image.name, packages, changed });
                file.images.insert(name.to_string(), lock);
            }
            Ok(locked)
        })?;
        file.write(&path)?;
        if context.printer.is_json() {
            context.printer.json(&locked)?;
            return Ok(Exit::Ok);
        }
        for Locked { image, from, packages, changed } in &locked {
            let news = if *changed { "" } else { ", the same as before" };
            context.printer.say(format!("{image}: {packages} packages of {from}{news}"));
        }
        context.printer.say(format!("{} is written; commit it with the cluster file", path.display()));
        Ok(Exit::Ok)
    }
}

/// The lock file, which must be there, and where it is.
pub fn read(context: &Context) -> anyhow::Result<(LockFile, PathBuf)> {
    let path = LockFile::path(&context.file);
    let file = LockFile::read(&path).map_err(advised)?;
    let file = file
        .ok_or_else(|| anyhow!("there is no {}", path.display()))
        .hint("`kiln image lock` writes it from the images that are there")?;
    Ok((file, path))
}

/// With the hint of the lock's own error.
fn advised(error: kiln_image::LockError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => match Err::<(), _>(error).hint(hint) {
            Err(error) => error,
            Ok(()) => anyhow!("a lock"),
        },
        None => error.into(),
    }
}
