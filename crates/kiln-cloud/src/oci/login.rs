//! Credentials as Oracle's own tools have them: a profile of `~/.oci/config`, over which the variables of the `oci` command
//! have precedence.

use std::path::{Path, PathBuf};

use kiln_wire::SecretText;

use super::ini;
use super::key::PrivateKey;
use super::region::Endpoints;
use super::sign::Signer;
use crate::{Error, Result};

/// Who calls, and where.
#[derive(Debug, Clone)]
pub struct Login {
    pub identity: Identity,
    pub endpoints: Endpoints,
    /// `None` for an instance, which learns it from its certificate.
    pub tenancy: Option<String>,
    pub region: Option<String>,
    /// CA certificates in PEM; `None`: the system's.
    pub ca_bundle: Option<Vec<u8>>,
    /// Where this comes from, for messages.
    pub origin: String,
}

#[derive(Debug, Clone)]
pub enum Identity {
    /// A person's API key, or a session of `oci session authenticate`.
    Key(Signer),
    /// The instance that this process runs on.
    Instance { metadata: String },
}

/// Where instances ask who they are.
pub const METADATA: &str = "http://169.254.169.254/opc/v2";

/// The environment, as tests can make it.
pub struct Surroundings<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    pub home: Option<PathBuf>,
}

impl Login {
    /// `profile` and `region`: as the cluster file names them.
    pub fn find(profile: Option<&str>, region: Option<&str>) -> Result<Login> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from);
        Self::find_in(profile, region, &Surroundings { variable: &variable, home })
    }

    pub fn find_in(profile: Option<&str>, region: Option<&str>, around: &Surroundings<'_>) -> Result<Login> {
        let values = Values::read(profile, around)?;
        let region = region.map(String::from).or_else(|| values.get("region"));
        let ca_bundle = match (around.variable)("OCI_CLI_CERT_BUNDLE") {
            Some(path) => Some(read(&expand(&path, around), "the CA bundle of OCI_CLI_CERT_BUNDLE")?),
            None => None,
        };
        let one = (around.variable)("OCI_CLI_ENDPOINT");
        let auth = (around.variable)("OCI_CLI_AUTH");
        if auth.as_deref() == Some("instance_principal") {
            let metadata = (around.variable)("OCI_METADATA_BASE_URL").unwrap_or(METADATA.into());
            let tenancy = values.get("tenancy");
            let region = region.ok_or_else(|| values.lacks("region"))?;
            let endpoints = match one {
                Some(url) => Endpoints::One(url),
                None => Endpoints::of(&region, tenancy.as_deref().unwrap_or_default())?,
            };
            let origin = "OCI_CLI_AUTH=instance_principal".to_string();
            let identity = Identity::Instance { metadata };
            return Ok(Login { identity, endpoints, tenancy, region: Some(region), ca_bundle, origin });
        }
        let by_session = match auth.as_deref() {
            None => values.get("security_token_file").is_some() && values.get("user").is_none(),
            Some("api_key") => false,
            Some("security_token") => true,
            Some(other) => {
                return Err(Error::unsupported(format!("OCI_CLI_AUTH is `{other}`, which Kiln cannot use"))
                    .with_hint("api_key, security_token and instance_principal are known"));
            }
        };
        let tenancy = values.need("tenancy")?;
        let region = region.ok_or_else(|| values.lacks("region"))?;
        let key = values.key(around)?;
        let key_id = if by_session {
            let file = values.need("security_token_file")?;
            let token = read(&expand(&file, around), "the session's token")?;
            format!("ST${}", String::from_utf8_lossy(&token).trim())
        } else {
            let (user, fingerprint) = (values.need("user")?, values.need("fingerprint")?);
            let own = key.fingerprint();
            if !fingerprint.eq_ignore_ascii_case(&own) {
                return Err(Error::no_rights(format!(
                    "the private key has the fingerprint {own}, but {} says {fingerprint}",
                    values.origin
                ))
                .with_hint("the console lists the keys of a user by their fingerprints"));
            }
            format!("{tenancy}/{user}/{own}")
        };
        let endpoints = match one {
            Some(url) => Endpoints::One(url),
            None => Endpoints::of(&region, &tenancy)?,
        };
        Ok(Login {
            identity: Identity::Key(Signer { key_id, key }),
            endpoints,
            tenancy: Some(tenancy),
            region: Some(region),
            ca_bundle,
            origin: values.origin,
        })
    }
}

/// A profile, and the variables over it.
struct Values<'a> {
    section: ini::Section,
    origin: String,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Values<'a> {
    fn read(profile: Option<&str>, around: &Surroundings<'a>) -> Result<Values<'a>> {
        let variable = around.variable;
        let named = profile.map(String::from).or_else(|| variable("OCI_CLI_PROFILE"));
        let wanted = named.clone().unwrap_or(ini::DEFAULT.into());
        let at_home = around.home.as_ref().map(|home| home.join(".oci/config"));
        // In this order the `oci` command and the SDKs look for it.
        let path = match variable("OCI_CLI_CONFIG_FILE") {
            Some(path) => Some(expand(&path, around)),
            None => match (at_home.filter(|path| path.exists()), variable("OCI_CONFIG_FILE")) {
                (Some(path), _) => Some(path),
                (None, other) => other.map(|path| expand(&path, around)),
            },
        };
        let Some(path) = path else {
            let origin = "the OCI_CLI_* variables (there is no ~/.oci/config)".to_string();
            return Ok(Values { section: ini::Section::new(), origin, variable });
        };
        let text = String::from_utf8_lossy(&read(&path, "Oracle's configuration")?).into_owned();
        let section = match ini::section(&text, &wanted) {
            Some(section) => section,
            // Variables alone may be enough.
            None if named.is_none() => ini::Section::new(),
            None => {
                let there = ini::names(&text).join(", ");
                return Err(Error::no_rights(format!("{} has no profile {wanted}", path.display()))
                    .with_hint(format!("it has: {there}")));
            }
        };
        if section.contains_key("key_content") {
            return Err(Error::no_rights(format!(
                "profile {wanted} of {} has `key_content`: keys belong in files of their own (`key_file`)",
                path.display()
            )));
        }
        Ok(Values { section, origin: format!("profile {wanted} of {}", path.display()), variable })
    }

    fn get(&self, key: &str) -> Option<String> {
        let variables: &[&str] = match key {
            "user" => &["OCI_CLI_USER"],
            "fingerprint" => &["OCI_CLI_FINGERPRINT"],
            "tenancy" => &["OCI_CLI_TENANCY"],
            "region" => &["OCI_CLI_REGION"],
            "key_file" => &["OCI_CLI_KEY_FILE"],
            "key_content" => &["OCI_CLI_KEY_CONTENT"],
            "pass_phrase" => &["OCI_CLI_PASSPHRASE"],
            "security_token_file" => &["OCI_CLI_SECURITY_TOKEN_FILE"],
            _ => &[],
        };
        let set = variables.iter().find_map(|name| (self.variable)(name));
        let written = || self.section.get(key).filter(|value| !value.is_empty()).cloned();
        let last = || (key == "region").then(|| (self.variable)("OCI_REGION")).flatten();
        set.or_else(written).or_else(last)
    }

    fn need(&self, key: &str) -> Result<String> {
        self.get(key).ok_or_else(|| self.lacks(key))
    }

    fn lacks(&self, key: &str) -> Error {
        let variable = format!("OCI_CLI_{}", key.to_uppercase());
        Error::no_rights(format!("no `{key}` in {}", self.origin)).with_hint(format!(
            "`oci setup config` writes ~/.oci/config; {variable} is taken as well; `profile` in [cloud] names another profile"
        ))
    }

    fn key(&self, around: &Surroundings<'_>) -> Result<PrivateKey> {
        let passphrase = self.get("pass_phrase").map(SecretText::from);
        let (text, whose) = if let Some(text) = self.get("key_content") {
            (SecretText::from(text), "the key of OCI_CLI_KEY_CONTENT".to_string())
        } else {
            let path = expand(&self.need("key_file")?, around);
            let content = read(&path, "the private key")?;
            let text = SecretText::from(String::from_utf8_lossy(&content).into_owned());
            (text, path.display().to_string())
        };
        PrivateKey::from_pem(text.expose_secret(), passphrase.as_ref())
            .map_err(|error| Error::no_rights(format!("{whose} {error}")))
    }
}

fn expand(path: &str, around: &Surroundings<'_>) -> PathBuf {
    match (path.strip_prefix("~/"), &around.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::no_rights(format!("{what} ({}) cannot be read", path.display())).because(error)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::oci::vectors::vectors;

    struct Home {
        directory: tempfile::TempDir,
        variables: BTreeMap<&'static str, String>,
    }

    impl Home {
        /// With a key, and a file with this content.
        fn with(config: &str) -> Home {
            let directory = tempfile::tempdir().unwrap();
            let vectors = vectors();
            let oci = directory.path().join(".oci");
            std::fs::create_dir(&oci).unwrap();
            std::fs::write(oci.join("key.pem"), &vectors.keys["pkcs8"]).unwrap();
            std::fs::write(oci.join("sealed.pem"), &vectors.keys["pkcs8 pbkdf2"]).unwrap();
            std::fs::write(oci.join("token"), "jwt\n").unwrap();
            if !config.is_empty() {
                let config = config.replace("FINGERPRINT", &vectors.fingerprint);
                std::fs::write(oci.join("config"), config).unwrap();
            }
            Home { directory, variables: BTreeMap::new() }
        }

        fn set(mut self, name: &'static str, value: &str) -> Home {
            self.variables.insert(name, value.into());
            self
        }

        fn find(&self, profile: Option<&str>) -> Result<Login> {
            let variable = |name: &str| self.variables.get(name).cloned();
            let home = Some(self.directory.path().to_path_buf());
            Login::find_in(profile, None, &Surroundings { variable: &variable, home })
        }

        /// With the directory's name taken out.
        fn told(&self, profile: Option<&str>) -> String {
            let error = self.find(profile).unwrap_err();
            error.to_string().replace(&self.directory.path().display().to_string(), "HOME")
        }
    }

    const CONFIG: &str = "[DEFAULT]\nuser=u\nfingerprint=FINGERPRINT\ntenancy=ocid1.tenancy.oc1..t\n\
                          region=us-ashburn-1\nkey_file=~/.oci/key.pem\n[lab]\nregion=uk-london-1\n\
                          [session]\nuser=\nsecurity_token_file=~/.oci/token\n\
                          [sealed]\nkey_file=~/.oci/sealed.pem\n";

    fn key_id(login: &Login) -> String {
        match &login.identity {
            Identity::Key(signer) => signer.key_id.clone(),
            Identity::Instance { metadata } => metadata.clone(),
        }
    }

    #[test]
    fn a_profile_has_what_the_default_one_has() {
        let home = Home::with(CONFIG);
        let login = home.find(Some("lab")).unwrap();
        let fingerprint = vectors().fingerprint;
        assert_eq!(key_id(&login), format!("ocid1.tenancy.oc1..t/u/{fingerprint}"));
        assert_eq!(login.region.as_deref(), Some("uk-london-1"));
        assert_eq!(home.find(None).unwrap().region.as_deref(), Some("us-ashburn-1"));
    }

    #[test]
    fn variables_have_precedence() {
        let home = Home::with(CONFIG).set("OCI_CLI_REGION", "eu-zurich-1").set("OCI_CLI_PROFILE", "lab");
        assert_eq!(home.find(None).unwrap().region.as_deref(), Some("eu-zurich-1"));
        let home = Home::with(CONFIG).set("OCI_REGION", "eu-zurich-1");
        assert_eq!(home.find(None).unwrap().region.as_deref(), Some("us-ashburn-1"));
    }

    #[test]
    fn variables_alone_are_enough() {
        let vectors = vectors();
        let home = Home::with("")
            .set("OCI_CLI_USER", "u")
            .set("OCI_CLI_TENANCY", "ocid1.tenancy.oc1..t")
            .set("OCI_CLI_FINGERPRINT", &vectors.fingerprint)
            .set("OCI_CLI_KEY_CONTENT", &vectors.keys["pkcs8 pbkdf2"])
            .set("OCI_CLI_PASSPHRASE", &vectors.passphrase)
            .set("OCI_REGION", "us-phoenix-1")
            .set("OCI_CLI_ENDPOINT", "http://127.0.0.1:1");
        let login = home.find(None).unwrap();
        assert_eq!(login.endpoints, Endpoints::One("http://127.0.0.1:1".into()));
        assert!(!format!("{login:?}").contains("PRIVATE"));
    }

    #[test]
    fn a_session_is_known_by_its_token() {
        assert_eq!(key_id(&Home::with(CONFIG).find(Some("session")).unwrap()), "ST$jwt");
        let forced = Home::with(CONFIG).set("OCI_CLI_AUTH", "security_token");
        assert!(
            forced.told(None).contains("no `security_token_file` in profile DEFAULT of HOME/.oci/config")
        );
    }

    #[test]
    fn an_instance_needs_no_key() {
        let home =
            Home::with("").set("OCI_CLI_AUTH", "instance_principal").set("OCI_CLI_REGION", "us-phoenix-1");
        assert_eq!(key_id(&home.find(None).unwrap()), METADATA);
    }

    #[test]
    fn what_is_missing_is_told_with_where_it_was_looked_for() {
        assert_eq!(
            Home::with(CONFIG).told(Some("other")),
            "the cloud refuses the credentials: HOME/.oci/config has no profile other"
        );
        assert_eq!(
            Home::with("").told(None),
            "the cloud refuses the credentials: no `tenancy` in the OCI_CLI_* variables (there is no ~/.oci/config)"
        );
        assert_eq!(
            Home::with(CONFIG).told(Some("sealed")),
            "the cloud refuses the credentials: HOME/.oci/sealed.pem is encrypted, and no passphrase is given \
             (`pass_phrase`, or OCI_CLI_PASSPHRASE)"
        );
        let wrong = Home::with(CONFIG).set("OCI_CLI_FINGERPRINT", "ab:cd");
        let told = wrong.told(None);
        assert!(told.ends_with("but profile DEFAULT of HOME/.oci/config says ab:cd"), "{told}");
        let inside = Home::with("[DEFAULT]\nkey_content=x\n");
        assert!(inside.told(None).contains("keys belong in files of their own"), "{}", inside.told(None));
    }
}
