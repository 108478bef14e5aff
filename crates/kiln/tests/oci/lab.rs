//! A cluster on a fake of its own.

use std::ops::Deref;

use kiln_cloud::Cloud;
use kiln_cloud::oci::fake::{COMPARTMENT, Fake};

use crate::cluster_dir::ClusterDir;

pub struct Lab {
    dir: ClusterDir,
    pub fake: Fake,
    /// Serves the fake; dropped after it.
    runtime: tokio::runtime::Runtime,
}

impl Deref for Lab {
    type Target = ClusterDir;

    fn deref(&self) -> &ClusterDir {
        &self.dir
    }
}

impl Lab {
    /// `groups`: the compute groups of the file.
    pub fn new(cluster: &str, groups: &str) -> Lab {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let fake = runtime.block_on(Fake::start()).unwrap();
        let mut dir = ClusterDir::new();
        dir.environment = crate::oracle_login::environment(&dir, &fake);
        dir.write_file(&format!(
            "[cluster]\nname = \"{cluster}\"\n\n\
             [cloud]\nkind = \"oci\"\ncompartment = \"{COMPARTMENT}\"\nsubnet = \"10.31.0.0/24\"\n\n\
             [image.default]\nprebuilt = \"image-a\"\n\n[control]\nflavor = \"VM.Standard.E5.Flex.2.24\"\n\n\
             [login.login]\nnodes = \"login-0\"\nflavor = \"VM.Standard.E5.Flex.1.16\"\n\n{groups}"
        ));
        Lab { dir, fake, runtime }
    }

    /// Somebody does something to the cloud behind Kiln's back, or looks at it.
    pub fn behind<T>(&self, work: impl AsyncFnOnce(&Cloud) -> kiln_cloud::Result<T>) -> T {
        let cloud = self.fake.cloud().unwrap();
        self.runtime.block_on(work(&cloud)).unwrap()
    }

    /// What a run that must fail says, without what is different every time.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.try_kiln(arguments);
        assert!(!output.status.success(), "kiln {arguments:?} did not fail");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let at = text.find("error: ").unwrap_or_else(|| panic!("no error in {text}"));
        self.steady(&text[at..])
    }

    /// Without what is different every time.
    pub fn steady(&self, text: &str) -> String {
        let text = text.replace(&self.path("oci-config").display().to_string(), "CONFIG");
        let text = text.replace(&self.path("cluster.toml").display().to_string(), "FILE");
        let text = text.replace(&self.path("").display().to_string(), "/DIRECTORY/");
        let mut parts = text.split("opc-request-id ");
        let first = parts.next().unwrap_or_default().to_string();
        let said = parts.fold(first, |said, part| {
            said + "opc-request-id ID" + part.trim_start_matches(|c: char| c.is_ascii_hexdigit())
        });
        said.trim_end().to_string()
    }
}
