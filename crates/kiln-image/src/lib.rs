//! Image recipes and the build sequence, over any cloud.

mod ask;
mod build;
mod catalog;
mod difference;
mod digest;
mod disk;
mod inspect;
mod lock;
mod locked;
mod login;
mod manifest;
mod newer;
mod progress;
mod recipe;
mod refusal;
mod sbom;
mod sequence;
mod steps;

pub use ask::{Ask, Choice, Question};
pub use build::{BuildError, Builder, instance_name};
pub use catalog::{
    built_as, built_image, descent, images_of_kiln, is_of_kiln, is_test, line, origin, promotion, standing,
};
pub use difference::{Change, Difference};
pub use disk::{DiskFormat, Export, ExportError, Exported, Sidecar, SidecarError, check as check_export};
pub use inspect::{Fault, InspectError, inspect, inspect_disk, inspect_root, work_dir};
pub use lock::{Lock, LockError, LockFile, LockedPackage};
pub use manifest::{Ancestor, Manifest, Package};
pub use newer::Newer;
pub use progress::{Event, Progress, State};
pub use recipe::{AddedSoftware, Recipe, Source};
pub use sbom::Sbom;

/// A script that installs the binary from its standard input; its argument is the SHA-256.
pub const INSTALL_KILN: &str = steps::INSTALL_KILN.script;
