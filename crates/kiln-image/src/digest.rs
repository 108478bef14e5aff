//! The digest of a recipe identifies its result: an unchanged recipe is not built again. It has what the file says and what Kiln
//! makes of it, down to the text of the scripts that a build runs. The `kiln` binary is not in it: nodes get the one of their
//! deploy host, whatever their image has.

use kiln_distro::Family;
use kiln_site::{ServiceUser, services};
use kiln_spec::SourceSpec;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::lock::Lock;
use crate::recipe::{Recipe, Source};
use crate::steps;

impl Recipe {
    pub fn digest(&self) -> String {
        self.digest_with(&steps::scripts_of(self))
    }

    /// The digest of the same recipe without any lock: what the image of the file is known by.
    pub fn unlocked_digest(&self) -> String {
        self.unlocked().digest()
    }

    fn unlocked(&self) -> Recipe {
        let source = match &self.source {
            Source::Image(parent) => Source::Image(Box::new(parent.unlocked())),
            other => other.clone(),
        };
        Recipe { source, lock: None, ..self.clone() }
    }

    /// The name is not part of what is inside.
    fn digest_with(&self, scripts: &[&str]) -> String {
        let family = self.family();
        let content = json!({
            "source": match &self.source {
                Source::System(system) => system.name().to_string(),
                Source::Cloud(name, _) => format!("cloud image {name}"),
                Source::Image(parent) => parent.digest(),
            },
            "users": ServiceUser::ALL.map(|user| (user.name, user.id)),
            "packages": self.packages,
            "hold": self.hold,
            "files": self.files,
            "commands": self.commands,
            "system_sources": self.system_sources,
            "sources": self.sources.iter().map(|source| source_content(family, source)).collect::<Vec<_>>(),
            "units": services::units_of_image(family),
            "disabled": self.disabled,
            "cleaned": services::leftovers(),
            "lock": self.lock.as_ref().map(Lock::digest),
            "scripts": scripts.iter().map(|script| sha256(script.as_bytes())).collect::<Vec<_>>(),
        });
        sha256(content.to_string().as_bytes())
    }
}

/// What of a repository decides what is inside. Its name does where nodes keep it; credentials never do.
fn source_content(family: &Family, source: &SourceSpec) -> Value {
    let kept = || {
        let files = (family.sources.files)(source).into_iter();
        files.map(|file| json!([file.path, file.mode, sha256(&file.content)])).collect::<Vec<_>>()
    };
    json!({
        "address": source.address,
        "snapshot": source.snapshot,
        "suites": source.suites,
        "components": source.components,
        "key": source.key.as_ref().map(|key| sha256(&key.content)),
        "kept": source.keep.then(kept),
    })
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kiln_spec::System;

    use super::*;

    /// `image`: of the table of the image; `tables`: other tables.
    fn recipe(tables: &str, image: &str) -> Recipe {
        let text = format!(
            "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[image.default]\n{image}\n\
             [compute.standard]\nnodes = \"standard-[0-1]\"\n{tables}"
        );
        let key = |path: &str| Ok(format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\n{path}").into_bytes());
        let (spec, _) = kiln_spec::parse_with_files(&text, "f", &key).unwrap_or_else(|e| panic!("{e}"));
        Recipe::of(&spec, "default").unwrap()
    }

    fn digest(tables: &str, image: &str) -> String {
        recipe(tables, image).digest()
    }

    /// An image of an older script is not taken for one of a newer.
    #[test]
    fn the_digest_has_every_script() {
        let recipe = recipe("", "");
        let scripts = steps::scripts_of(&recipe);
        let mut digests = BTreeSet::from([recipe.digest()]);
        for at in 0..scripts.len() {
            let newer = format!("{}\n: newer", scripts[at]);
            let mut scripts = scripts.clone();
            scripts[at] = &newer;
            digests.insert(recipe.digest_with(&scripts));
        }
        assert_eq!(digests.len(), scripts.len() + 1);
    }

    /// Of every kind of build, for a family.
    fn scripts_of_all_builds(system: System) -> String {
        let plain = Recipe { source: Source::Cloud("any".into(), system), ..recipe("", "") };
        let lock = Lock {
            image: String::new(),
            built: jiff::Timestamp::UNIX_EPOCH,
            family: plain.family().name.into(),
            source: String::new(),
            source_digest: String::new(),
            packages: Vec::new(),
        };
        let locked = Recipe { lock: Some(lock), hold: vec!["munge".into()], ..plain.clone() };
        let bootable = Recipe { bootable: true, ..plain };
        [locked, bootable].iter().flat_map(steps::scripts_of).collect()
    }

    /// A script that is added to a build has to be in the digest, too.
    #[test]
    fn no_script_is_forgotten() {
        let families = [("debian", System::ALL[0]), ("el", System::ALL.into_iter().find(is_el).unwrap())];
        let [own, of_families] = ["src/steps", "../kiln-distro/src"]
            .map(|folder| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
        for (family, system) in families {
            let all = scripts_of_all_builds(system);
            for folder in [&own, &of_families.join(family)] {
                let scripts = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
                let scripts: Vec<_> =
                    scripts.filter(|path| path.extension().is_some_and(|e| e == "sh")).collect();
                assert!(!scripts.is_empty(), "{}", folder.display());
                // It changes nothing in the image.
                for script in scripts.iter().filter(|path| !path.ends_with("keep-packages.sh")) {
                    let text = std::fs::read_to_string(script).unwrap();
                    assert!(all.contains(&text), "{} is not in the digest", script.display());
                }
            }
        }
    }

    fn is_el(system: &System) -> bool {
        Family::of_system(*system).name == "el"
    }

    #[test]
    fn the_digest_is_that_of_the_recipe_alone() {
        assert_eq!(digest("", "source = \"trixie\""), digest("", "source = \"trixie\""));
        assert_ne!(digest("", "source = \"trixie\""), digest("", "source = \"bookworm\""));
        assert_ne!(digest("", "hold = [\"munge\"]"), digest("", ""));
        assert_eq!(digest("", "build.timeout = \"9m\"\nproperties.firmware = \"uefi\""), digest("", ""));
    }

    #[test]
    fn the_digest_has_what_software_brings() {
        let software = "[software.a]\npackages = [\"htop\"]\n";
        let with = |more: &str| digest(&format!("{software}{more}"), "software = [\"a\"]");
        let others = ["", "commands = [\"x\"]", "file = [{ path = \"/etc/a\", content = \"b\" }]"].map(with);
        assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), 3);
        // It matters what is in, not under which name.
        assert_eq!(others[0], digest("", "packages = [\"htop\"]"));
        assert_ne!(
            digest("", "software = [\"sssd\"]"),
            digest("", "packages = [\"libnss-sss\", \"libpam-sss\", \"sssd-ldap\", \"sssd-tools\"]")
        );
    }

    #[test]
    fn the_digest_has_all_of_a_source_but_its_credentials() {
        let list = "sources = [\"system\", \"a\"]";
        let one = "[source.a]\naddress = \"http://a.example.org\"\nkey = \"a.asc\"\n";
        let digest_of = |more: &str| digest(&format!("{one}{more}"), list);
        let plain = digest_of("");
        let others = ["snapshot = \"1\"", "suites = [\"x\"]", "keep = true"].map(digest_of);
        let all: BTreeSet<&String> = others.iter().chain([&plain]).collect();
        assert_eq!(all.len(), 4);
        assert_ne!(digest(&one.replace("a.asc", "b.asc"), list), plain);
        assert_ne!(digest(one, "sources = [\"a\"]"), plain);
        assert_eq!(digest_of("credentials = \"env:A\""), plain);
        let renamed = digest(&one.replace("[source.a]", "[source.b]"), &list.replace("\"a\"", "\"b\""));
        assert_eq!(renamed, plain);
        // A source that the image does not use makes no difference.
        assert_eq!(digest(one, ""), digest("", "sources = [\"system\"]"));
    }
}
