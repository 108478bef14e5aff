//! What is true of a kind of cloud. Whoever has to treat clouds differently reads it here and does not ask for the kind.

/// One constant for each kind of cloud, in its own file.
#[derive(Debug, PartialEq, Eq)]
pub struct CloudFacts {
    /// As the file writes it.
    pub kind: &'static str,
    /// What people write who mean it, in lower case.
    pub also: &'static [&'static str],
    /// Several instances can have one volume at the same time.
    pub shares_volumes: bool,
    /// The cloud has file systems that it serves over NFS itself.
    pub has_file_storage: bool,
    /// Instances can delegate cgroups to Slurm.
    pub delegates_cgroups: bool,
    /// Instances run a kernel of their own: they have a clock to set, and the memory that they report is theirs. Elsewhere
    /// both are their host's.
    pub has_kernels: bool,
    /// The control node has no secret for the cloud: it signs as the instance that it is, with what its metadata say.
    pub signs_as_instance: bool,
    /// Kiln makes images of plain systems itself. Elsewhere a build starts from an image of the cloud, which has
    /// cloud-init in it.
    pub makes_source_images: bool,
    /// The cloud makes no smaller volumes.
    pub smallest_volume_gib: u64,
    pub hints: CloudHints,
}

/// How a person sees what there is in the cloud, where there is a way.
#[derive(Debug, PartialEq, Eq)]
pub struct CloudHints {
    pub flavors: Option<&'static str>,
    pub networks: Option<&'static str>,
    pub images: Option<&'static str>,
    /// For an image of the file that does not say where its build starts.
    pub source: Option<&'static str>,
}
