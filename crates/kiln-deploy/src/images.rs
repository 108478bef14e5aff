//! The life of images after they were built: who uses them, which one an image of the file stands for, which may go.

use std::collections::{BTreeMap, BTreeSet};

use kiln_cloud::{Image, Kind};
use kiln_image::{
    Difference, Manifest, Recipe, built_as, built_image, images_of_kiln, is_test, origin, promotion, standing,
};
use kiln_spec::{ImageSource, Spec, hostlist};
use kiln_wire::labels;
use serde::Serialize;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::plan;
use crate::targets::targets;
use crate::upgrade::Open;

/// An image and why it stays; `None`: nothing needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub id: String,
    pub name: String,
    pub size_bytes: u64,
    pub kept: Option<String>,
}

/// What a promotion changes.
#[derive(Debug, Clone, Serialize)]
pub struct Promotion {
    /// The image of the file.
    pub image: String,
    pub from: Option<String>,
    pub to: String,
    /// Where both have a manifest.
    pub difference: Option<Difference>,
    /// Packages that the file wants and the image does not have.
    pub lacks: Vec<String>,
}

/// Everything that decides which images may go.
pub struct Needs<'a> {
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    /// Ids of images that instances run, of whatever cluster.
    pub used: &'a BTreeSet<String>,
    /// Names of the images that lock files were written from.
    pub locked: &'a [String],
    /// The cluster's id.
    pub cluster: &'a str,
    /// How many former images of each image of the file stay.
    pub former: usize,
}

/// Names of the nodes that run each image, by its id; of elastic groups those that are on.
pub fn nodes_by_image(observed: &Observed) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, instance) in observed.nodes() {
        if let Some(image) = &instance.image {
            all.entry(image).or_default().push(node);
        }
    }
    all
}

/// The images of the file that an image of the cloud is, or is the source of.
pub fn in_file<'s>(spec: &'s Spec, images: &[Image], image: &Image) -> Vec<&'s str> {
    let is_it = |name: &str| match spec.images.get(name).map(|known| &known.source) {
        Some(ImageSource::Prebuilt(named)) => *named == image.name || *named == image.id,
        _ => Recipe::of(spec, name)
            .and_then(|recipe| built_image(images, &recipe))
            .is_some_and(|i| i.id == image.id),
    };
    spec.images.keys().map(String::as_str).filter(|name| is_it(name)).collect()
}

impl Needs<'_> {
    /// For each image of Kiln's, in the order given.
    pub fn judge(&self, images: &[Image]) -> Vec<Verdict> {
        let reasons = self.reasons(images);
        let verdict = |image: &Image| Verdict {
            id: image.id.clone(),
            name: image.name.clone(),
            size_bytes: image.size_bytes,
            kept: reasons.get(image.id.as_str()).cloned(),
        };
        images.iter().map(verdict).collect()
    }

    /// The first reason that holds, by the image's id.
    fn reasons(&self, images: &[Image]) -> BTreeMap<String, String> {
        let mut reasons: BTreeMap<String, String> = BTreeMap::new();
        let mut keep = |id: &str, why: String| {
            reasons.entry(id.to_string()).or_insert(why);
        };
        for (id, nodes) in nodes_by_image(self.observed) {
            keep(id, format!("{} run it", hostlist::fold(nodes)));
        }
        let mut due: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (node, instance) in self.observed.nodes() {
            if let Some(target) = instance.labels.get(labels::TARGET_IMAGE) {
                due.entry(target).or_default().push(node);
            }
        }
        for (id, nodes) in due {
            keep(id, format!("{} are to get it", hostlist::fold(nodes)));
        }
        if let Some(open) = Open::of(self.spec, self.observed) {
            keep(&open.image, "an upgrade of Slurm that is not over may go back to it".to_string());
        }
        for id in self.used {
            keep(id, "instances of another cluster run it".to_string());
        }
        for name in self.spec.images.keys() {
            let now = self.stand_for(images, name);
            // Those of older recipes, too: the file may go back, and nodes of elastic groups that are off come back on the newest
            // that is there.
            let others =
                built_as(images, name, self.cluster).into_iter().filter(|image| !now.contains(image));
            for (at, image) in now.iter().copied().chain(others).take(1 + self.former).enumerate() {
                let what = if at == 0 && !now.is_empty() { "the image" } else { "a former image" };
                keep(&image.id, format!("{what} {name} of the file"));
            }
        }
        for image in images {
            if self.locked.contains(&image.name) {
                keep(&image.id, "a lock was written from it".to_string());
            }
            if self.is_named(image) {
                keep(&image.id, "the file names it".to_string());
            }
            if let Some(what) = origin(image) {
                keep(&image.id, format!("it is {what}: `kiln image delete` deletes it"));
            }
            match image.properties.get(labels::image::BUILT_FOR) {
                Some(id) if id == self.cluster => {}
                Some(_) => keep(&image.id, "it was built for another cluster".to_string()),
                None => keep(&image.id, "it does not say for which cluster it was built".to_string()),
            }
            if is_test(image) {
                keep(&image.id, "it is a test image: promote or delete it".to_string());
            }
        }
        reasons
    }

    fn stand_for<'i>(&self, images: &'i [Image], name: &str) -> Vec<&'i Image> {
        Recipe::of(self.spec, name).map(|recipe| standing(images, &recipe.digest())).unwrap_or_default()
    }

    fn is_named(&self, image: &Image) -> bool {
        self.spec.images.values().any(|of_file| match &of_file.source {
            ImageSource::Prebuilt(name) | ImageSource::Cloud(name) => {
                *name == image.name || *name == image.id
            }
            ImageSource::System(_) | ImageSource::Image(_) => false,
        })
    }
}

impl Deployment<'_> {
    /// What may go and what stays, and why.
    pub async fn judge_images(&self, former: usize, locked: &[String]) -> Result<Vec<Verdict>> {
        let (images, observed, used) = tokio::try_join!(
            async { Ok::<_, Error>(images_of_kiln(&self.cloud).await?) },
            Box::pin(self.observe()),
            async { Ok(self.cloud.used_images().await?) },
        )?;
        self.check_owner(&observed)?;
        let cluster = self.secrets.cluster_id()?.unwrap_or_default();
        let needs =
            Needs { spec: self.spec, observed: &observed, used: &used, locked, cluster: &cluster, former };
        Ok(needs.judge(&images))
    }

    /// What would change if an image of the cloud stood for one of the file. Refused where Slurm's rules forbid it.
    pub async fn promotion(&self, name: &str, image: &Image) -> Result<Promotion> {
        let recipe = Recipe::of(self.spec, name).ok_or_else(|| Error::NotPromoted {
            image: name.to_string(),
            why: "the file names an image that exists already".to_string(),
        })?;
        let mut observed = self.observe().await?;
        self.check_owner(&observed)?;
        self.ask_release(&mut observed).await;
        let manifest = Manifest::of(image).ok_or_else(|| Error::NotPromoted {
            image: image.name.clone(),
            why: "it has no manifest".to_string(),
        })?;
        let current = built_image(&observed.images, &recipe).cloned();
        let mut future = targets(self.spec, &observed);
        if let Some(target) = future.get_mut(name) {
            *target = Some(image.id.clone());
        }
        plan::check(self.spec, &observed, &future)?;
        let before = current.as_ref().and_then(Manifest::of);
        let has = |wanted: &&String| manifest.packages.iter().any(|package| package.name == bare(wanted));
        Ok(Promotion {
            image: name.to_string(),
            difference: before.map(|before| Difference::between(&before, &manifest)),
            lacks: recipe.packages.iter().filter(|wanted| !has(wanted)).cloned().collect(),
            from: current.map(|image| image.name),
            to: image.name.clone(),
        })
    }

    /// From now on this image stands for the file's.
    pub async fn promote(&self, name: &str, image: &Image) -> Result<()> {
        let recipe = Recipe::of(self.spec, name).ok_or_else(|| Error::ImageNotBuilt(name.to_string()))?;
        let property = [promotion(&recipe.digest())].into();
        Ok(self.cloud.label(Kind::Image, &image.id, property).await?)
    }
}

/// A package without the version and the architecture that a recipe may ask for.
fn bare(wanted: &str) -> &str {
    wanted.split(['=', ':', '/']).next().unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_cloud::{Instance, InstanceStatus, Labels, Volume};
    use kiln_wire::labels::image as property;

    const FILE: &str = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a[1-2]\"\n\
                        [image.default]\nsource = \"trixie\"\n[image.given]\nprebuilt = \"given\"\n";

    fn image(name: &str, second: i64, more: &[(&str, &str)]) -> Image {
        let more = more.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let built_for = (property::BUILT_FOR.to_string(), "id".to_string());
        Image {
            id: format!("{name}-id"),
            name: name.into(),
            labels: Labels::new(),
            properties: std::iter::once(built_for).chain(more).collect(),
            size_bytes: 0,
            created: jiff::Timestamp::from_second(second).unwrap(),
        }
    }

    fn node(name: &str, image: &str, target: &str) -> Instance {
        let labels = [(labels::NODE, name), (labels::TARGET_IMAGE, target)];
        Instance {
            image: Some(image.into()),
            labels: labels.map(|(key, value)| (key.to_string(), value.to_string())).into(),
            id: format!("{name}-id"),
            name: name.into(),
            status: InstanceStatus::Active,
            flavor: String::new(),
            address: None,
            public_address: None,
            volumes: Vec::new(),
            created: jiff::Timestamp::UNIX_EPOCH,
            built: None,
        }
    }

    #[test]
    fn every_image_that_something_needs_is_kept_and_says_why() {
        let spec = kiln_spec::parse(FILE, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let digest = Recipe::of(&spec, "default").unwrap().digest();
        let recipe = [(property::RECIPE, digest.as_str())];
        let other = [(property::RECIPE, "other")];
        let images = vec![
            image("new", 50, &recipe),
            image("former", 40, &recipe),
            image("older", 30, &recipe),
            image("run", 20, &other),
            image("due", 20, &other),
            image("elsewhere", 20, &other),
            image("locked", 20, &other),
            image("given", 20, &other),
            image("uploaded", 20, &[(property::MADE_BY, "upload")]),
            image("theirs", 20, &[(property::RECIPE, "other"), (property::BUILT_FOR, "another")]),
            image("test", 60, &[(property::RECIPE, digest.as_str()), (property::TEST, "yes")]),
            image("before", 20, &other),
            image("loose", 20, &other),
        ];
        let observed = Observed {
            instances: vec![node("a1", "run-id", "due-id"), node("a2", "run-id", "due-id")],
            volumes: vec![Volume {
                id: "state-id".into(),
                name: "demo-state".into(),
                size_gib: 1,
                labels: [(labels::UPGRADE.to_string(), "going 24.11-1 before-id".to_string())].into(),
                attached_to: Vec::new(),
                status: kiln_cloud::VolumeStatus::default(),
                served: None,
            }],
            ..Observed::default()
        };
        let used = BTreeSet::from(["run-id".to_string(), "elsewhere-id".to_string()]);
        let locked = ["locked".to_string()];
        let needs = Needs {
            spec: &spec,
            observed: &observed,
            used: &used,
            locked: &locked,
            cluster: "id",
            former: 1,
        };
        let lines: Vec<String> = (needs.judge(&images).into_iter())
            .map(|verdict| format!("{}: {}", verdict.name, verdict.kept.unwrap_or_else(|| "goes".into())))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        new: the image default of the file
        former: a former image default of the file
        older: goes
        run: a[1-2] run it
        due: a[1-2] are to get it
        elsewhere: instances of another cluster run it
        locked: a lock was written from it
        given: the file names it
        uploaded: it is uploaded: `kiln image delete` deletes it
        theirs: it was built for another cluster
        test: it is a test image: promote or delete it
        before: an upgrade of Slurm that is not over may go back to it
        loose: goes
        ");
    }

    /// The file, or Kiln itself, makes it another one than has been built. Nodes that are off still need what there is.
    #[test]
    fn images_of_older_recipes_are_kept_as_former_ones() {
        let spec = kiln_spec::parse(FILE, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let digest = Recipe::of(&spec, "default").unwrap().digest();
        let of = |name: &str, second: i64, recipe: &str| {
            image(name, second, &[(property::RECIPE, recipe), (property::NAME, "default")])
        };
        let kept = |images: &[Image], former: usize| {
            let (observed, used) = (Observed::default(), BTreeSet::new());
            let needs =
                Needs { spec: &spec, observed: &observed, used: &used, locked: &[], cluster: "id", former };
            let kept =
                needs.judge(images).into_iter().filter_map(|v| Some(format!("{}: {}", v.name, v.kept?)));
            kept.collect::<Vec<_>>()
        };
        let images = [of("new", 30, &digest), of("old", 20, "older"), of("oldest", 10, "oldest")];
        let (the, former) = ("the image default of the file", "a former image default of the file");
        assert_eq!(kept(&images, 1), [format!("new: {the}"), format!("old: {former}")]);
        assert_eq!(kept(&images, 0), [format!("new: {the}")]);
        assert_eq!(kept(&images[1..], 0), [format!("old: {former}")]);
    }

    #[test]
    fn what_a_recipe_asks_for_is_looked_for_by_name() {
        for wanted in ["munge", "munge=1.2", "munge:amd64", "munge/trixie"] {
            assert_eq!(bare(wanted), "munge");
        }
    }
}
