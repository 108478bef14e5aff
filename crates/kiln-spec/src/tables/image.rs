//! `[image.NAME]`: a root disk with all software and no cluster configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::image_build::{self, BuildTable, PropertiesTable};
use super::role;
use crate::CloudFacts;
use crate::diagnostic::Findings;
use crate::merge::{Merged, default_text};
use crate::nearest::did_you_mean;
use crate::validate::{names, unknown};
use crate::words::{and_list, or_list};
use crate::written::table::table;
use crate::written::{At, List, Named, Text};
use crate::{ImageSoftware, ImageSource, ImageSpec, Role, SYSTEM_SOURCES, Software, System};

table! {
    /// An image: a root disk with all software and no cluster configuration.
    ImageTable {
        /// Where the build starts: another image of this file; or, on `local`, a release of Debian (`bookworm`, `trixie`, `forky`) or Ubuntu (`noble`); or, on `openstack`, an image of the cloud by name or id.
        "source" => source: Text, otherwise "`bookworm` on `local`, required on `openstack`";
        /// An existing image of the cloud, by name or id, that is used as it is. Nothing is built, and no other key is allowed but `roles` and `system`.
        "prebuilt" => prebuilt: Text;
        /// Roles whose software is installed. An image that is built upon another one has that image's software already; the software of roles that the other lacks is added.
        "roles" => roles: List<At<Role>>, otherwise "those of the image that it is built upon, or all three";
        /// The system of the image of the cloud that `source` or `prebuilt` names: `bookworm`, `trixie`, `forky`, Ubuntu's `noble`, or one of the EL family: `rocky9`, `rocky10`, `alma9`, `alma10`. Kiln has never run on a real EL system: see [images.md](images.md#systems).
        "system" => system: Text, otherwise "`bookworm`, or that of the image that it is built upon";
        /// Sets of software to add: Kiln's own (`apptainer`, `chrony`, `directory`, `monitoring`, `mpi`, `nvidia`, `sssd`), those of tables `[software.NAME]`, and names of roles, which mean the same as in `roles`.
        "software" => software: List<Text>;
        /// Packages to add. `NAME=VERSION` pins a version.
        "packages" => packages: List<Text>;
        /// Packages of the image that keep their version: neither nodes nor images that are built upon this one update them. Names alone.
        "hold" => hold: List<Text>;
        /// Shell commands that run as root at the end of the build, in order. The build fails if one of them fails.
        "commands" => commands: List<Text>;
        /// Where packages come from during the build: names of tables `[source.NAME]`, and `system` for the repositories that the source image has itself.
        "sources" => sources: List<Text>, otherwise "those of the image that it is built upon, or `system`";
        /// The machine that it is built on.
        "build" => build: BuildTable, otherwise "a machine like the control node";
        /// What the cloud is told of the image.
        "properties" => properties: PropertiesTable, otherwise "nothing: it has the cloud's defaults, and on OpenStack what the source image has";
    }
}

pub(crate) struct MergedImage {
    pub name: Text,
    pub source: Text,
    /// Whether the user wrote the source.
    pub written: bool,
    pub table: ImageTable,
}

const DEFAULT_NAME: &str = "default";

/// With the one that Kiln makes if the file has none.
pub(crate) fn merge(written: Named<ImageTable>) -> Vec<MergedImage> {
    let written = if written.is_empty() {
        vec![(default_text(DEFAULT_NAME, &(0..0)), ImageTable::default())]
    } else {
        written
    };
    (written.into_iter())
        .map(|(name, mut table)| {
            let written = table.source.is_some();
            let source =
                table.source.take().unwrap_or_else(|| default_text(System::ALL[0].name(), &name.span));
            MergedImage { name, source, written, table }
        })
        .collect()
}

/// The image of nodes that name none.
pub(crate) struct UsualImage {
    name: Option<String>,
    all: Vec<String>,
}

impl UsualImage {
    pub fn of(images: &[MergedImage]) -> Self {
        let all: Vec<String> = images.iter().map(|image| image.name.value.clone()).collect();
        let name = match all.as_slice() {
            [only] => Some(only.clone()),
            all => all.iter().find(|name| *name == DEFAULT_NAME).cloned(),
        };
        UsualImage { name, all }
    }

    /// What was written, else the usual image, else an error at the table that needed it.
    pub fn unless(
        &self,
        written: Option<Text>,
        whose: &str,
        at: &Range<usize>,
        findings: &mut Findings<'_>,
    ) -> Option<Text> {
        if written.is_some() {
            return written;
        }
        if let Some(name) = &self.name {
            return Some(default_text(name, at));
        }
        let message = format!("{whose} has no `image`, and no image is named `{DEFAULT_NAME}`");
        (findings.error("missing-key", at.clone(), message))
            .expected(format!("`image = ...` for {whose}"))
            .hint(format!("the file has the images {}", and_list(&self.all)));
        None
    }
}

pub(crate) fn validate(merged: &Merged, findings: &mut Findings<'_>) -> BTreeMap<String, ImageSpec> {
    let names: Vec<&str> = merged.images.iter().map(|image| image.name.value.as_str()).collect();
    for image in &merged.images {
        names::check_name("image", &image.name, findings);
        if System::of(&image.name.value).is_some() {
            let message = format!("an image cannot be named `{}`: that is a system", image.name.value);
            findings.error("reserved-name", image.name.span.clone(), message).expected("another name");
        }
    }
    // Without a kind, which was reported, its images could be anything.
    let elsewhere = merged.cloud.facts().filter(|facts| !facts.makes_source_images);
    let local = merged.cloud.facts().filter(|facts| facts.makes_source_images);
    let mut images: BTreeMap<String, ImageSpec> = (merged.images.iter())
        .map(|image| (image.name.value.clone(), one(image, &names, elsewhere, local, findings)))
        .collect();
    report_cycles(merged, findings);
    inherit(merged, &mut images, |_| false, |image| &mut image.system);
    for image in &merged.images {
        let system = images[&image.name.value].system;
        role::packages(image.table.packages.as_ref(), &[system], findings);
        check_held(image.table.hold.as_ref(), system, findings);
    }
    check_sources(merged, findings);
    check_software(merged, findings);
    inherit(merged, &mut images, names_roles, |image| &mut image.roles);
    inherit(merged, &mut images, |table| table.sources.is_some(), |image| &mut image.sources);
    add_sources_of_software(merged, &mut images);
    check_el_sources(merged, &images, findings);
    images
}

fn one(
    image: &MergedImage,
    names: &[&str],
    elsewhere: Option<&CloudFacts>,
    local: Option<&CloudFacts>,
    findings: &mut Findings<'_>,
) -> ImageSpec {
    let table = &image.table;
    let source = source(image, names, elsewhere, findings);
    let mut roles: Vec<Role> =
        table.roles.iter().flat_map(|list| &list.value).map(|role| role.value).collect();
    roles.extend(named_software(table).filter_map(|name| Role::of(&name.value)));
    if !names_roles(table) {
        roles = Role::ALL.to_vec();
    }
    roles.sort_unstable();
    roles.dedup();
    ImageSpec {
        name: image.name.value.clone(),
        system: system(image, &source, findings),
        source,
        roles,
        software: software(table),
        packages: table.packages.as_ref().map(names_of).unwrap_or_default(),
        hold: table.hold.as_ref().map(names_of).unwrap_or_default(),
        commands: role::commands(table.commands.as_ref(), findings),
        sources: table.sources.as_ref().map_or_else(|| vec![SYSTEM_SOURCES.to_string()], names_of),
        build: image_build::build(table.build.as_ref(), local, findings),
        properties: image_build::properties(table.properties.as_ref(), findings),
    }
}

/// The version is the one that the build has installed.
fn check_held(written: Option<&List<Text>>, system: System, findings: &mut Findings<'_>) {
    let names = written.into_iter().flat_map(|list| &list.value);
    let is_name = |text: &str| system.is_package(text) && !text.contains([':', '=']);
    for name in names.filter(|name| !is_name(&name.value)) {
        let message = format!("`{}` is not the name of a package", name.value);
        (findings.error("bad-package", name.span.clone(), message))
            .expected("a name without version and architecture; `packages` pins a version");
    }
}

fn named_software(table: &ImageTable) -> impl Iterator<Item = &Text> {
    table.software.iter().flat_map(|list| &list.value)
}

/// A role's name means the same in both lists.
fn names_roles(table: &ImageTable) -> bool {
    table.roles.is_some() || named_software(table).any(|name| Role::of(&name.value).is_some())
}

/// Each once, besides the roles.
fn software(table: &ImageTable) -> Vec<ImageSoftware> {
    let mut sets: Vec<ImageSoftware> = Vec::new();
    for name in named_software(table).map(|name| &name.value).filter(|name| Role::of(name).is_none()) {
        let set = Software::of(name).map_or_else(|| ImageSoftware::Site(name.clone()), ImageSoftware::Kiln);
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

/// Those of the file, of Kiln, and of the roles.
fn check_software(merged: &Merged, findings: &mut Findings<'_>) {
    let own = merged.software.iter().map(|(name, _)| name.value.as_str());
    let roles = Role::ALL.map(Role::as_str);
    let known: Vec<&str> = own.chain(Software::ALL.map(Software::name)).chain(roles).collect();
    for image in &merged.images {
        for name in named_software(&image.table).filter(|name| !known.contains(&name.value.as_str())) {
            unknown("software", name, &known, findings);
        }
        check_files(merged, image, findings);
    }
}

/// Sets of one image must not write the same file.
fn check_files(merged: &Merged, image: &MergedImage, findings: &mut Findings<'_>) {
    let mut seen: BTreeMap<&str, (&str, &Text)> = BTreeMap::new();
    for name in named_software(&image.table) {
        let tables = merged.software.iter().filter(|(set, _)| set.value == name.value);
        for path in tables.flat_map(|(_, table)| &table.file.value).filter_map(|file| file.path.as_ref()) {
            let Some((other, first)) = seen.insert(&path.value, (&name.value, path)) else { continue };
            if other != name.value {
                let message = format!(
                    "image `{}` has software `{other}` and `{}`, which both write `{}`",
                    image.name.value, name.value, path.value
                );
                (findings.error("duplicate-file", path.span.clone(), message))
                    .expected("each file in one of them")
                    .related(first.span.clone(), "first here");
            }
        }
    }
}

/// An image has the sources of its software in addition to its own, and also those of the images below where it has their
/// sources. Else a repository that nodes are to keep would be lost on the way.
fn add_sources_of_software(merged: &Merged, images: &mut BTreeMap<String, ImageSpec>) {
    let said = |name: &str| merged.images.iter().any(|i| i.name.value == name && i.table.sources.is_some());
    let mut added: Vec<(String, Vec<String>)> = Vec::new();
    for name in images.keys() {
        let mut sources: Vec<String> = Vec::new();
        let mut at = Some(name);
        // A cycle was reported elsewhere; here it must only not go on for ever.
        for _ in 0..images.len() {
            let Some(image) = at.and_then(|name| images.get(name)) else { break };
            let tables = merged.software.iter().filter(|(set, _)| {
                image.software.iter().any(|s| matches!(s, ImageSoftware::Site(name) if *name == set.value))
            });
            sources.extend(tables.flat_map(|(_, table)| names_of(&table.sources)));
            at = match &image.source {
                ImageSource::Image(parent) if !said(&image.name) => Some(parent),
                _ => None,
            };
        }
        added.push((name.clone(), sources));
    }
    for (name, sources) in added {
        if let Some(image) = images.get_mut(&name) {
            for source in sources {
                if !image.sources.contains(&source) {
                    image.sources.push(source);
                }
            }
        }
    }
}

/// An image that is built upon another one has what it says nothing of from there.
fn inherit<T: Clone>(
    merged: &Merged,
    images: &mut BTreeMap<String, ImageSpec>,
    is_said: impl Fn(&ImageTable) -> bool,
    part: impl Fn(&mut ImageSpec) -> &mut T,
) {
    let is_said = |name: &str| merged.images.iter().any(|i| i.name.value == name && is_said(&i.table));
    for name in merged.images.iter().map(|image| &image.name.value).filter(|name| !is_said(name)) {
        let mut at = name.clone();
        // A cycle was reported elsewhere; here it must only not go on for ever.
        for _ in 0..images.len() {
            match images.get(&at).map(|image| &image.source) {
                Some(ImageSource::Image(parent)) if !is_said(&at) => at.clone_from(parent),
                _ => break,
            }
        }
        if let Some(inherited) = images.get_mut(&at).map(|image| part(image).clone())
            && let Some(image) = images.get_mut(name)
        {
            *part(image) = inherited;
        }
    }
}

fn source(
    image: &MergedImage,
    names: &[&str],
    elsewhere: Option<&CloudFacts>,
    findings: &mut Findings<'_>,
) -> ImageSource {
    let source = &image.source;
    if let Some(prebuilt) = &image.table.prebuilt {
        check_prebuilt(image, prebuilt, findings);
        return ImageSource::Prebuilt(prebuilt.value.clone());
    }
    if names.contains(&source.value.as_str()) {
        return ImageSource::Image(source.value.clone());
    }
    if let Some(facts) = elsewhere {
        if image.written {
            names::check_one_line("`source`", source, findings);
        } else {
            let message = format!("image `{}` has no `source`", image.name.value);
            (findings.error("missing-key", image.name.span.clone(), message))
                .expected("`source = \"...\"`: an image of the cloud, by name or id")
                .maybe_hint(facts.hints.source.map(String::from));
        }
        return ImageSource::Cloud(source.value.clone());
    }
    let made = System::names(System::is_made_by_local);
    let system = System::of(&source.value).unwrap_or_else(|| {
        let own = names.iter().copied().filter(|name| *name != image.name.value);
        let known: Vec<&str> = made.iter().copied().chain(own).collect();
        unknown("image", source, &known, findings);
        System::ALL[0]
    });
    if !system.is_made_by_local() {
        let message = format!("this cloud cannot make an image of `{}`", system.name());
        (findings.error("bad-image", source.span.clone(), message)).expected(or_list(&made)).hint(format!(
            "an image of it that the cloud has can be used: `prebuilt = \"...\"` and `system = \"{}\"`",
            system.name()
        ));
    }
    ImageSource::System(system)
}

/// Of an image that is built upon another one, until it has that one's: the default.
fn system(image: &MergedImage, source: &ImageSource, findings: &mut Findings<'_>) -> System {
    let written = image.table.system.as_ref();
    let found = written.and_then(|text| System::of(&text.value));
    if let (Some(text), None) = (written, found) {
        let known = System::names(|_| true);
        let message = format!("there is no system `{}`", text.value);
        (findings.error("unknown-system", text.span.clone(), message))
            .expected(or_list(&known))
            .maybe_hint(did_you_mean(&text.value, known.iter().copied()));
    }
    let follows_from = match source {
        ImageSource::System(system) => return report_system(written, "its `source`", *system, findings),
        ImageSource::Image(_) => "the image that it is built upon",
        ImageSource::Cloud(_) | ImageSource::Prebuilt(_) => return found.unwrap_or(System::ALL[0]),
    };
    report_system(written, follows_from, System::ALL[0], findings)
}

/// One that was written where it follows from something else.
fn report_system(written: Option<&Text>, from: &str, system: System, findings: &mut Findings<'_>) -> System {
    if let Some(text) = written {
        (findings.error("bad-image", text.span.clone(), format!("the system follows from {from}")))
            .expected("no `system` here");
    }
    system
}

/// Nothing is built, so nothing can go in.
fn check_prebuilt(image: &MergedImage, prebuilt: &Text, findings: &mut Findings<'_>) {
    names::check_one_line("`prebuilt`", prebuilt, findings);
    let table = &image.table;
    let others = [
        image.written.then(|| ("source", image.source.span.clone())),
        table.software.as_ref().map(|list| ("software", list.span.clone())),
        table.packages.as_ref().map(|list| ("packages", list.span.clone())),
        table.hold.as_ref().map(|list| ("hold", list.span.clone())),
        table.commands.as_ref().map(|list| ("commands", list.span.clone())),
        table.sources.as_ref().map(|list| ("sources", list.span.clone())),
        table.build.as_ref().map(|table| ("build", table.at.clone())),
        table.properties.as_ref().map(|table| ("properties", table.at.clone())),
    ];
    for (key, span) in others.into_iter().flatten() {
        let message = format!("image `{}` is prebuilt and cannot have `{key}`", image.name.value);
        (findings.error("bad-image", span, message))
            .expected("`prebuilt` alone, or no `prebuilt`")
            .related(prebuilt.span.clone(), "prebuilt here");
    }
}

pub(crate) fn names_of(list: &List<Text>) -> Vec<String> {
    list.value.iter().map(|name| name.value.clone()).collect()
}

fn check_sources(merged: &Merged, findings: &mut Findings<'_>) {
    for list in merged.images.iter().filter_map(|image| image.table.sources.as_ref()) {
        if list.value.is_empty() {
            (findings.error("bad-image", list.span.clone(), "packages must come from somewhere"))
                .expected(format!("names of sources, such as [\"{SYSTEM_SOURCES}\"]"));
        }
        check_source_names(merged, list, findings);
    }
}

pub(crate) fn check_source_names(merged: &Merged, list: &List<Text>, findings: &mut Findings<'_>) {
    let own = merged.sources.iter().map(|(name, _)| name.value.as_str());
    let known: Vec<&str> = own.chain([SYSTEM_SOURCES]).collect();
    for name in list.value.iter().filter(|name| !known.contains(&name.value.as_str())) {
        unknown("source", name, &known, findings);
    }
}

/// dnf looks at the signatures of packages, with keys that it was given, and knows no suites.
fn check_el_sources(merged: &Merged, images: &BTreeMap<String, ImageSpec>, findings: &mut Findings<'_>) {
    for (name, table) in &merged.sources {
        let uses = |image: &&MergedImage| {
            let spec = &images[&image.name.value];
            matches!(spec.system, System::El(_)) && spec.sources.contains(&name.value)
        };
        let Some(image) = merged.images.iter().find(uses) else { continue };
        let used = format!("image `{}` is of an EL system", image.name.value);
        if table.key.is_none() {
            let message = format!("source `{}` has no `key` to check packages with", name.value);
            (findings.error("bad-source", name.span.clone(), message))
                .expected("`key = \"...\"`: a file with the key that its packages are signed with")
                .related(image.name.span.clone(), used.clone());
        }
        for list in [&table.suites, &table.components].into_iter().flatten() {
            let message = format!("source `{}` has parts that repositories of RPMs do not have", name.value);
            (findings.error("bad-source", list.span.clone(), message))
                .expected("a source of its own for every repository")
                .related(image.name.span.clone(), used.clone());
        }
    }
}

/// Each cycle is reported once, at its image that comes first in the file.
fn report_cycles(merged: &Merged, findings: &mut Findings<'_>) {
    let sources: BTreeMap<&str, &Text> = (merged.images.iter())
        .filter(|image| System::of(&image.source.value).is_none())
        .map(|image| (image.name.value.as_str(), &image.source))
        .collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for image in &merged.images {
        let mut trail: Vec<&str> = Vec::new();
        let mut at = image.name.value.as_str();
        while !done.contains(at) && !trail.contains(&at) {
            trail.push(at);
            match sources.get(at) {
                Some(source) => at = &source.value,
                None => break,
            }
        }
        if let Some(start) = trail.iter().position(|name| *name == at)
            && let Some(source) = sources.get(at)
        {
            let mut cycle = trail[start..].to_vec();
            cycle.push(at);
            (findings.error(
                "image-cycle",
                source.span.clone(),
                format!("image `{at}` is built from itself: {}", cycle.join(" -> ")),
            ))
            .expected(format!(
                "a chain of images that begins with {}",
                or_list(&System::names(System::is_made_by_local))
            ));
        }
        done.extend(trail);
    }
}

/// Every node's image must exist and have the software of the node's role.
pub(crate) fn check_use(merged: &Merged, images: &BTreeMap<String, ImageSpec>, findings: &mut Findings<'_>) {
    let mut uses: Vec<(&Text, Role)> =
        merged.control.image.iter().map(|image| (image, Role::Control)).collect();
    for group in merged.login.iter().chain(&merged.compute) {
        uses.extend(group.table.image.iter().map(|image| (image, group.role)));
        let overrides = group.table.overrides.iter().filter_map(|(_, table)| table.image.as_ref());
        uses.extend(overrides.map(|image| (image, group.role)));
    }
    let known: Vec<&str> = images.keys().map(String::as_str).collect();
    for (image, role) in uses {
        if !images.contains_key(&image.value) {
            unknown("image", image, &known, findings);
        } else if !has_role(images, &image.value, role) {
            report_role(merged, image, role, findings);
        }
    }
}

fn report_role(merged: &Merged, used: &Text, role: Role, findings: &mut Findings<'_>) {
    let Some(image) = merged.images.iter().find(|image| image.name.value == used.value) else {
        return;
    };
    let at = image.table.roles.as_ref().map_or(&image.name.span, |roles| &roles.span);
    let role = role.as_str();
    let message = format!("image `{}` has no software for {role} nodes", used.value);
    let finding = findings.error("image-role", at.clone(), message);
    finding.expected(format!("\"{role}\" among the roles, or another image for these nodes"));
    // An empty place means that the table it would be in was not written.
    if !used.span.is_empty() {
        finding.related(used.span.clone(), "used here");
    }
}

/// Whether the image or one that it is built on has the role's software.
fn has_role(images: &BTreeMap<String, ImageSpec>, name: &str, role: Role) -> bool {
    let mut at = images.get(name);
    // A cycle was reported elsewhere; here it must only not go on for ever.
    for _ in 0..images.len() {
        let Some(image) = at else { return true };
        if image.roles.contains(&role) {
            return true;
        }
        match &image.source {
            ImageSource::System(_) | ImageSource::Cloud(_) | ImageSource::Prebuilt(_) => return false,
            ImageSource::Image(source) => at = images.get(source),
        }
    }
    true
}
