//! What goes into an image. Its digest is in `digest.rs`.

use std::collections::BTreeSet;

use kiln_cloud::Image;
use kiln_distro::Family;
use kiln_site::{services, software};
use kiln_slurm::Release;
use kiln_spec::{
    BuildSpec, ExtraFile, ImageProperties, ImageSoftware, ImageSource, ImageSpec, Role, SYSTEM_SOURCES,
    SourceSpec, Spec, System,
};
use kiln_wire::labels::image as property;
use serde::Serialize;

use crate::lock::Lock;
use crate::manifest::Manifest;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recipe {
    pub name: String,
    pub source: Source,
    /// What it adds to its source, in the words of the file: roles, then sets of software.
    pub software: Vec<AddedSoftware>,
    pub packages: Vec<String>,
    /// Of all packages, those that keep their version from then on.
    pub hold: Vec<String>,
    /// Written after the packages are installed.
    pub files: Vec<ExtraFile>,
    /// Run after the files are written, in order.
    pub commands: Vec<String>,
    /// Of Kiln's own sets of software: units that the image has disabled, like those of Kiln's services.
    pub disabled: Vec<String>,
    /// Whether packages come from the repositories of the source image.
    pub system_sources: bool,
    /// Other repositories, in the order of the file.
    pub sources: Vec<SourceSpec>,
    /// Exactly the packages that are to be in it.
    #[serde(skip)]
    pub lock: Option<Lock>,
    /// The machine that it is built on.
    pub build: BuildSpec,
    /// What the cloud is told of it.
    pub properties: ImageProperties,
    /// The source as it is, with what a disk needs to boot, and nothing else.
    pub bootable: bool,
}

/// Software that an image adds under one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddedSoftware {
    pub name: String,
    pub packages: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The plain image of a system.
    System(System),
    /// An image of the cloud, by name or id, and what it is said to be.
    Cloud(String, System),
    /// An extra image on top of this one.
    Image(Box<Recipe>),
}

impl Source {
    fn family(&self) -> &'static Family {
        match self {
            Source::System(system) | Source::Cloud(_, system) => Family::of_system(*system),
            Source::Image(parent) => parent.family(),
        }
    }
}

impl Recipe {
    /// `None` when the spec has no such image, or does not build it.
    pub fn of(spec: &Spec, name: &str) -> Option<Recipe> {
        let image = spec.images.get(name)?;
        let source = match &image.source {
            ImageSource::System(system) => Source::System(*system),
            ImageSource::Cloud(name) => Source::Cloud(name.clone(), image.system),
            ImageSource::Prebuilt(_) => return None,
            ImageSource::Image(parent) => match &spec.images.get(parent)?.source {
                ImageSource::Prebuilt(name) => Source::Cloud(name.clone(), image.system),
                _ => Source::Image(Box::new(Recipe::of(spec, parent)?)),
            },
        };
        let (system_sources, sources) = sources_of(spec, image);
        let family = source.family();
        let added = added(spec, family, image);
        let of_site = || image.software.iter().filter_map(|set| spec.software.get(set.name()));
        let commands = of_site().flat_map(|set| &set.commands).chain(&image.commands);
        Some(Recipe {
            name: name.to_string(),
            packages: packages(spec, family, image, &added),
            hold: image.hold.clone(),
            software: added,
            files: of_site().flat_map(|set| set.files.clone()).collect(),
            commands: commands.cloned().collect(),
            disabled: disabled(family, image),
            source,
            system_sources,
            sources,
            lock: None,
            build: image.build.clone(),
            properties: image.properties.clone(),
            bootable: false,
        })
    }

    /// What makes an image of the cloud bootable by itself, with the packages that it has. A disk may go to any cloud, so
    /// it also gets what nodes of its roles need on others.
    pub fn bootable(spec: &Spec, image: &Image) -> Recipe {
        let name = image.properties.get(property::NAME);
        let source = Source::Cloud(image.id.clone(), system_of(spec, image));
        let roles = match name.and_then(|name| spec.images.get(name)) {
            Some(image) => image.roles.clone(),
            // One that Kiln built, from another file.
            None if name.is_some() => Role::ALL.to_vec(),
            None => Vec::new(),
        };
        let (system_sources, sources) = match name.and_then(|name| spec.images.get(name)) {
            Some(image) => sources_of(spec, image),
            None => (true, Vec::new()),
        };
        let build = name.and_then(|name| spec.images.get(name)).map(|image| image.build.clone());
        let packages = services::packages_of_clouds(source.family(), &roles);
        Recipe {
            name: format!("{}-disk", name.unwrap_or(&image.name)),
            software: Vec::new(),
            packages: packages.into_iter().map(String::from).collect(),
            hold: Vec::new(),
            source,
            files: Vec::new(),
            commands: Vec::new(),
            disabled: Vec::new(),
            system_sources,
            sources,
            lock: None,
            build: build.unwrap_or_default(),
            properties: ImageProperties::default(),
            bootable: true,
        }
    }

    pub fn family(&self) -> &'static Family {
        self.source.family()
    }

    /// Whether packages come from a snapshot, which stays as it was at one time.
    pub fn is_snapshot(&self) -> bool {
        self.sources.iter().any(|source| source.snapshot.is_some())
    }

    /// The Slurm that its system brings, if that is known. The commands of the recipe may install another.
    pub fn slurm(&self) -> Option<Release> {
        match &self.source {
            Source::System(system) => Family::slurm_of(*system),
            Source::Cloud(..) => None,
            Source::Image(parent) => parent.slurm(),
        }
    }

    /// The software of the file that a package is for, if it is not for a role or named by the image itself.
    pub fn wanted_by(&self, package: &str) -> Option<&str> {
        let has = |software: &&AddedSoftware| software.packages.iter().any(|name| name == package);
        self.software.iter().find(has).map(|software| software.name.as_str())
    }

    /// The name of an image built at this time: readable, and different for every recipe and build.
    pub fn image_name(&self, built: jiff::Timestamp) -> String {
        format!("{}-{}-{}", self.name, &self.digest()[..8], built.strftime("%Y%m%dT%H%M%S"))
    }
}

/// The system of an image that Kiln built: the file's, or one of the family that its manifest names.
fn system_of(spec: &Spec, image: &Image) -> System {
    let of_file = image.properties.get(property::NAME).and_then(|name| spec.images.get(name));
    let of_manifest = || {
        let family = Manifest::of(image)?.family().name;
        System::ALL.into_iter().find(|system| Family::of_system(*system).name == family)
    };
    of_file.map(|image| image.system).or_else(of_manifest).unwrap_or(System::ALL[0])
}

/// Whether packages come from the repositories of the source image, and from which others.
fn sources_of(spec: &Spec, image: &ImageSpec) -> (bool, Vec<SourceSpec>) {
    let others = image.sources.iter().filter_map(|name| spec.sources.get(name));
    (image.sources.iter().any(|name| name == SYSTEM_SOURCES), others.cloned().collect())
}

fn packages(spec: &Spec, family: &Family, image: &ImageSpec, added: &[AddedSoftware]) -> Vec<String> {
    let mut all: BTreeSet<&str> = services::packages(spec, family, &image.roles, &roles_below(spec, image));
    for role in &image.roles {
        all.extend(spec.roles.of(*role).packages.iter().map(String::as_str));
    }
    all.extend(added.iter().flat_map(|set| &set.packages).map(String::as_str));
    all.extend(image.packages.iter().map(String::as_str));
    all.into_iter().map(String::from).collect()
}

/// Roles that the image below has not, and the sets of software.
fn added(spec: &Spec, family: &Family, image: &ImageSpec) -> Vec<AddedSoftware> {
    let below = roles_below(spec, image);
    let roles = image.roles.iter().filter(|role| !below.contains(role));
    let roles = roles.map(|role| AddedSoftware { name: role.as_str().to_string(), packages: Vec::new() });
    let sets = image.software.iter().map(|set| {
        let packages = match set {
            ImageSoftware::Kiln(set) => {
                software::packages(*set, family).into_iter().map(String::from).collect()
            }
            ImageSoftware::Site(name) => {
                spec.software.get(name).map(|set| set.packages.clone()).unwrap_or_default()
            }
        };
        AddedSoftware { name: set.name().to_string(), packages }
    });
    roles.chain(sets).collect()
}

fn disabled(family: &Family, image: &ImageSpec) -> Vec<String> {
    let units = image.software.iter().flat_map(|set| match set {
        ImageSoftware::Kiln(set) => software::units(*set, family),
        ImageSoftware::Site(_) => Vec::new(),
    });
    units.map(String::from).collect()
}

/// The roles whose software is in the image that this one is built on, or in those below it.
fn roles_below(spec: &Spec, image: &ImageSpec) -> Vec<Role> {
    let parent = |image: &ImageSpec| match &image.source {
        ImageSource::Image(name) => spec.images.get(name),
        ImageSource::System(_) | ImageSource::Cloud(_) | ImageSource::Prebuilt(_) => None,
    };
    std::iter::successors(parent(image), |image| parent(image))
        .flat_map(|image| image.roles.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages_of(images: &str, name: &str) -> String {
        let text = format!(
            "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[image.default]\n{images}\n\
             [compute.standard]\nnodes = \"standard-[0-1]\"\n[role.login]\npackages = [\"vim\"]\n"
        );
        let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        Recipe::of(&spec, name).unwrap().packages.join(" ")
    }

    #[test]
    fn a_role_that_the_image_below_lacks_is_added() {
        let lean = "[image.lean]\nroles = [\"compute\"]\n[image.top]\nsource = \"lean\"\n";
        let control = packages_of(&format!("{lean}roles = [\"control\"]"), "top");
        assert!(control.contains("slurmctld") && control.contains("mariadb-server"), "{control}");
        let both = packages_of(&format!("{lean}roles = [\"login\", \"compute\"]"), "top");
        assert!(both.contains("less") && both.contains("vim") && !both.contains("slurmd"), "{both}");
        // What is not said is what the image below has. What not every cluster has may not be in it.
        assert_eq!(packages_of(lean, "top"), "libpam-slurm");
        let tower = format!(
            "{lean}roles = [\"login\"]\n[image.peak]\nsource = \"top\"\nroles = [\"login\", \"compute\"]"
        );
        assert_eq!(packages_of(&tower, "peak"), "libpam-slurm vim");
    }

    #[test]
    fn a_disk_has_what_other_clouds_need() {
        let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[image.default]\n[image.lean]\n\
                    roles = [\"compute\"]\n[compute.standard]\nnodes = \"standard-[0-1]\"\n";
        let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let disk = |name: Option<&str>| {
            let name = name.map(|name| (property::NAME.to_string(), name.to_string()));
            let image = Image {
                id: "i-1".into(),
                name: "debian-bookworm".into(),
                labels: kiln_cloud::Labels::new(),
                properties: name.into_iter().collect(),
                size_bytes: 0,
                created: jiff::Timestamp::UNIX_EPOCH,
            };
            let recipe = Recipe::bootable(&spec, &image);
            format!("{}: {}", recipe.name, recipe.packages.join(" "))
        };
        let compute = "chrony libpam-slurm libpam-slurm-adopt nfs-common";
        assert_eq!(disk(Some("lean")), format!("lean-disk: {compute}"));
        assert_eq!(disk(Some("default")), format!("default-disk: {compute} nfs-kernel-server"));
        assert_eq!(disk(Some("other")), format!("other-disk: {compute} nfs-kernel-server"));
        assert_eq!(disk(None), "debian-bookworm-disk: ");
    }

    #[test]
    fn sets_of_software_bring_packages_sources_files_and_commands() {
        let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[image.default]\n\
                    [image.top]\nsource = \"default\"\nsoftware = [\"mpi\", \"monitoring\", \"site\"]\ncommands = [\"last\"]\n\
                    [image.peak]\nsource = \"top\"\n[image.bare]\nsource = \"top\"\nsources = [\"system\"]\n\
                    [image.lean]\nsoftware = [\"compute\", \"chrony\"]\n\
                    [image.more]\nsource = \"lean\"\nsoftware = [\"login\"]\n\
                    [software.site]\npackages = [\"htop\"]\nsources = [\"a\"]\ncommands = [\"first\"]\n\
                    file = [{ path = \"/etc/a\", content = \"b\" }]\n\
                    [source.a]\naddress = \"http://a.example.org\"\n\
                    [compute.standard]\nnodes = \"standard-[0-1]\"\n";
        let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let of = |name: &str| Recipe::of(&spec, name).unwrap();
        let names = |recipe: &Recipe| {
            recipe.software.iter().map(|set| set.name.clone()).collect::<Vec<_>>().join(" ")
        };
        // The image below has the software of the roles.
        let top = of("top");
        assert_eq!(names(&top), "mpi monitoring site");
        assert_eq!(
            top.packages.join(" "),
            "htop libopenmpi-dev libpam-slurm libpmix2 openmpi-bin prometheus prometheus-node-exporter"
        );
        assert_eq!(top.commands, ["first", "last"]);
        assert_eq!(top.disabled, ["prometheus-node-exporter.service", "prometheus.service"]);
        assert!(top.system_sources && top.sources[0].name == "a" && top.files[0].path == "/etc/a");
        assert_eq!((top.wanted_by("htop"), top.wanted_by("libpam-slurm")), (Some("site"), None));
        // What is built upon it has the sources of its software, unless it says which it has.
        assert_eq!((of("peak").sources.len(), of("bare").sources.len()), (1, 0));
        assert!(of("peak").files.is_empty() && of("peak").commands.is_empty());
        let lean = of("lean");
        assert_eq!(names(&lean), "compute chrony");
        let packages = lean.packages.join(" ");
        assert!(
            packages.contains("chrony") && packages.contains("slurmd") && !packages.contains("slurmctld")
        );
        // A role's software is added to an extra image.
        assert_eq!(names(&of("more")), "login");
        assert!(of("more").packages.contains(&"less".to_string()));
    }

    #[test]
    fn an_image_has_the_sources_of_the_one_below() {
        let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n\
                    [image.default]\nsources = [\"a\"]\n[image.top]\nsource = \"default\"\n\
                    [compute.standard]\nnodes = \"standard-[0-1]\"\n[source.a]\naddress = \"http://a.example.org\"\n";
        let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let top = Recipe::of(&spec, "top").unwrap();
        assert!(!top.system_sources && top.sources[0].address == "http://a.example.org");
    }
}
