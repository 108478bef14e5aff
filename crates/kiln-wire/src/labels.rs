//! Names of the labels and image properties by which Kiln finds in a cloud what it made there.

/// On every resource that belongs to a cluster.
pub const CLUSTER: &str = "kiln_cluster";
/// Which cluster of that name: names are chosen by people, and two may choose the same.
pub const ID: &str = "kiln_id";
pub const NODE: &str = "kiln_node";
pub const ROLE: &str = "kiln_role";
/// The role of an instance that builds an image, and of what is made for it.
pub const BUILD_ROLE: &str = "build";
pub const GROUP: &str = "kiln_group";
/// The image a node should have, where Slurm is to move it there.
pub const TARGET_IMAGE: &str = "kiln_target_image";
/// The image Kiln last gave an instance, for clouds that cannot say it: the root disk is a volume there.
pub const IMAGE: &str = "kiln_image";

/// On volumes that Kiln created: `no` until an instance gets one for the first time, then `yes` for ever. Only a volume that
/// says `no` certainly holds no data.
pub const USED: &str = "kiln_used";
pub const USED_NO: &str = "no";
pub const USED_YES: &str = "yes";

/// On the volume of the share: the address of the control node, which a new control node gets again.
pub const CONTROL_ADDRESS: &str = "kiln_control_address";

/// On the volume of the share, which outlives every instance: whether the cluster sleeps.
pub const SLEEP: &str = "kiln_sleep";

/// On the volume of the state, which outlives the control node, while an upgrade of Slurm is half done: how far it is, what
/// it has noted, and the image to go back to.
pub const UPGRADE: &str = "kiln_upgrade";

/// On the volume of the state: the release of the Slurm that writes there.
pub const SLURM: &str = "kiln_slurm";

/// Properties of images.
pub mod image {
    pub const RECIPE: &str = "kiln_recipe";
    pub const MANIFEST: &str = "kiln_manifest";
    /// The name the image has in the file it was built from.
    pub const NAME: &str = "kiln_image";
    /// The recipe that the image stands for, whatever it was built from, and since when: `DIGEST TIME`.
    pub const STANDS_FOR: &str = "kiln_stands_for";
    /// The image was built to be tested: it stands for no recipe until it is promoted.
    pub const TEST: &str = "kiln_test";
    /// Id of the cluster that it was built for.
    pub const BUILT_FOR: &str = "kiln_built_for";
    /// How the image was made: on uploaded images, and on clouds that list an image before its data is complete.
    pub const MADE_BY: &str = "kiln_made_by";
}
