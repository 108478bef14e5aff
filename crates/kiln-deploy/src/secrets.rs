//! The cluster's secrets: generated once, never overwritten, each rotated by name. One file each, readable by the owner
//! alone, in `.kiln/secrets` beside the cluster file. The cluster's id is kept with them: it is no secret, but is made once
//! and lost together with them.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kiln_site::services::{CLUSTER_CA, dashboard};
use kiln_site::{Form, Secret, services};
use kiln_spec::Spec;
use kiln_wire::SecretText;
use rand::RngExt as _;
use ssh_key::{LineEnding, PrivateKey};

use crate::certificates::{self, Subject};
use crate::error::{Error, Result};

/// `None`: the site gives it, or others are needed to make it.
fn generate(form: Form) -> Result<Option<SecretText>> {
    let mut rng = rand::rng();
    Ok(Some(match form {
        Form::Hex => hex::encode(rng.random::<[u8; 32]>()).into(),
        Form::Base64(length) => {
            let mut bytes = vec![0; length];
            rng.fill(&mut bytes[..]);
            STANDARD.encode(bytes).into()
        }
        Form::SshKey => {
            let pair = ssh_key::private::Ed25519Keypair::from_seed(&rng.random::<[u8; 32]>());
            let key = PrivateKey::new(pair.into(), "kiln").map_err(|e| Error::Key(e.to_string()))?;
            key.to_openssh(LineEnding::LF).map_err(|e| Error::Key(e.to_string()))?.as_str().into()
        }
        Form::Authority | Form::Certificate | Form::Text => return Ok(None),
    }))
}

/// The name of its file.
const CLUSTER_ID: &str = "cluster-id";

#[derive(Debug, Clone)]
pub struct SecretStore {
    dir: PathBuf,
    /// Those that the cluster needs.
    pub secrets: Vec<&'static Secret>,
    /// Names of those that the site gives. They are never made here.
    given: Vec<&'static str>,
    /// Whom certificates are made for.
    subject: Subject,
    /// The same, for the dashboard.
    dashboard: Subject,
}

impl SecretStore {
    pub fn new(dir: impl Into<PathBuf>, spec: &Spec) -> Self {
        let (secrets, given) = (services::secrets_of(spec), services::given_secrets(spec));
        let subject = Subject::of(spec);
        let dashboard = subject.also(spec.dashboard.as_ref().and_then(kiln_spec::Dashboard::host));
        SecretStore { dir: dir.into(), secrets, given, subject, dashboard }
    }

    fn subject(&self, secret: &Secret) -> &Subject {
        if secret.name == dashboard::CERTIFICATE.name { &self.dashboard } else { &self.subject }
    }

    /// Whether the site gives it.
    pub fn is_given(&self, secret: &Secret) -> bool {
        self.given.contains(&secret.name)
    }

    pub fn path(&self, secret: &Secret) -> PathBuf {
        self.dir.join(secret.name)
    }

    /// The value before the last rotation, which nodes that do not have the new one yet still use.
    pub fn previous_path(&self, secret: &Secret) -> PathBuf {
        self.dir.join(format!("{}.previous", secret.name))
    }

    /// Generates those that are missing.
    pub fn ensure(&self) -> Result<()> {
        self.make_dir()?;
        self.check_given()?;
        for secret in self.secrets.iter().filter(|secret| !self.is_given(secret)) {
            self.make_missing(secret.name, || self.generate(secret))?;
        }
        self.renew_certificates()?;
        self.make_missing(CLUSTER_ID, || Ok(hex::encode(rand::rng().random::<[u8; 8]>()).into()))
    }

    /// An authority comes before what it signs.
    fn generate(&self, secret: &Secret) -> Result<SecretText> {
        match secret.form {
            Form::Authority => certificates::authority(&self.subject),
            Form::Certificate => certificates::certificate(self.subject(secret), &self.read(&CLUSTER_CA)?),
            other => generate(other)?.ok_or_else(|| Error::Key("it is the site's".into())),
        }
    }

    /// Replaces certificates that end soon, or are no longer those of the authority.
    fn renew_certificates(&self) -> Result<()> {
        for secret in self.secrets.iter().filter(|secret| secret.form == Form::Certificate) {
            let authority = self.read(&CLUSTER_CA)?;
            if !certificates::is_good(self.subject(secret), &authority, &self.read(secret)?, Timestamp::now())
            {
                let temporary = self.write_temporary(secret.name, self.generate(secret)?.expose_secret())?;
                let path = self.path(secret);
                fs::rename(temporary, &path).map_err(|source| Error::File {
                    path,
                    did: "written",
                    source,
                })?;
            }
        }
        Ok(())
    }

    /// What the site gives must be there.
    pub fn check_given(&self) -> Result<()> {
        for secret in self.secrets.iter().filter(|secret| self.is_given(secret)) {
            let path = self.path(secret);
            if !path.exists() {
                return Err(Error::SecretNotGiven { name: secret.name, path });
            }
        }
        Ok(())
    }

    fn make_missing(&self, name: &str, value: impl FnOnce() -> Result<SecretText>) -> Result<()> {
        let path = self.dir.join(name);
        if path.exists() {
            return Ok(());
        }
        let temporary = self.write_temporary(name, value()?.expose_secret())?;
        // A link fails if the name exists by now, so that two runs at once cannot overwrite each other.
        match fs::hard_link(&temporary, &path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(Error::File { path, did: "written", source: error })
            }
            _ => remove(&temporary),
        }
    }

    /// Which cluster of its name this is; `None`: nothing was made yet.
    pub fn cluster_id(&self) -> Result<Option<String>> {
        let path = self.dir.join(CLUSTER_ID);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|source| Error::File { path: path.clone(), did: "read", source })?,
        };
        let id = text.trim();
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(Error::Damaged { path, why: "it holds no id".into() });
        }
        Ok(Some(id.to_string()))
    }

    /// For a cluster whose `.kiln` was lost.
    pub fn set_cluster_id(&self, id: &str) -> Result<()> {
        self.make_dir()?;
        let path = self.dir.join(CLUSTER_ID);
        let temporary = self.write_temporary(CLUSTER_ID, id)?;
        fs::rename(temporary, &path).map_err(|source| Error::File { path, did: "written", source })
    }

    /// Replaces one secret. It reaches the nodes with the next `configure`; until then it is not replaced again, because only
    /// one earlier value is kept, and it may be the only one that some nodes accept.
    pub fn rotate(&self, secret: &Secret) -> Result<()> {
        if self.is_given(secret) {
            return Err(Error::SecretOfSite { name: secret.name, path: self.path(secret) });
        }
        if !self.secrets.iter().any(|own| own.name == secret.name) {
            return Err(Error::SecretNotUsed(secret.name));
        }
        self.ensure()?;
        let previous = self.previous_path(secret);
        if previous.exists() {
            return Err(Error::RotationPending(secret.name));
        }
        let temporary = self.write_temporary(secret.name, self.generate(secret)?.expose_secret())?;
        let path = self.path(secret);
        let failed = |path: &Path, source| Error::File { path: path.to_path_buf(), did: "written", source };
        fs::hard_link(&path, &previous).map_err(|e| failed(&previous, e))?;
        fs::rename(&temporary, &path).map_err(|e| failed(&path, e))
    }

    /// Forgets the values before the last rotation, once no node needs them any more.
    pub fn forget_previous(&self) -> Result<()> {
        for secret in services::secrets() {
            let path = self.previous_path(secret);
            if path.exists() {
                remove(&path)?;
            }
        }
        Ok(())
    }

    pub fn read(&self, secret: &Secret) -> Result<SecretText> {
        let path = self.path(secret);
        let text = fs::read_to_string(&path).map_err(|source| match (source.kind(), secret.form) {
            (std::io::ErrorKind::InvalidData, Form::Base64(_)) => not_base64(&path),
            _ => Error::File { path: path.clone(), did: "read", source },
        })?;
        if text.trim().is_empty() {
            return Err(Error::Damaged { path, why: "it is empty".into() });
        }
        if let Form::Base64(_) = secret.form {
            // A person may have written it.
            let text: String = text.split_whitespace().collect();
            let bytes = STANDARD.decode(&text).map_err(|_| not_base64(&path))?;
            return if (32..=1024).contains(&bytes.len()) { Ok(text.into()) } else { Err(not_base64(&path)) };
        }
        if secret.form == Form::Text && text.trim().contains(char::is_control) {
            return Err(Error::Damaged { path, why: "it has more than one line".into() });
        }
        Ok(text.into())
    }

    pub fn read_previous(&self, secret: &Secret) -> Option<SecretText> {
        fs::read_to_string(self.previous_path(secret)).ok().map(SecretText::from)
    }

    fn make_dir(&self) -> Result<()> {
        let failed = |source| Error::File { path: self.dir.clone(), did: "created", source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(failed)?;
        // A directory that was there before may be open to others.
        fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        // The cluster file belongs in version control; what is beside it here does not.
        let ignore = self.dir.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").map_err(failed)?;
        }
        Ok(())
    }

    fn write_temporary(&self, name: &str, value: &str) -> Result<PathBuf> {
        let path = self.dir.join(format!(".{name}.{}", std::process::id()));
        let failed = |source| Error::File { path: path.clone(), did: "written", source };
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        file.write_all(value.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(path)
    }
}

fn not_base64(path: &Path) -> Error {
    Error::Damaged { path: path.to_path_buf(), why: "it is not base64 of 32 to 1024 bytes".into() }
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|source| Error::File { path: path.to_path_buf(), did: "removed", source })
}

#[cfg(test)]
mod tests {
    use kiln_site::services::{CLOUD_TOKEN, NODE_SEED, SSH_KEY};

    use super::*;

    fn store(dir: &Path, tables: &str) -> SecretStore {
        let text = format!(
            "[cluster]\nname = \"x\"\n[cloud]\nkind = \"local\"\n[compute.x]\nnodes = \"x1\"\n\
             [image.default]\nsource = \"trixie\"\n{tables}"
        );
        SecretStore::new(dir, &kiln_spec::parse(&text, "cluster.toml").unwrap())
    }

    #[test]
    fn secrets_are_made_once_and_rotated_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir.path().join("secrets"), "[directory]\nkind = \"server\"\n");
        store.ensure().unwrap();
        let all = || store.secrets.iter().map(|secret| store.read(secret).unwrap());
        let before: Vec<SecretText> = all().collect();
        store.ensure().unwrap();
        assert_eq!(before, all().collect::<Vec<_>>());

        let token = store.read(&CLOUD_TOKEN).unwrap();
        let key = store.read(&SSH_KEY).unwrap();
        store.rotate(&CLOUD_TOKEN).unwrap();
        assert_ne!(store.read(&CLOUD_TOKEN).unwrap(), token);
        assert_eq!(store.read_previous(&CLOUD_TOKEN).as_ref(), Some(&token));
        assert_eq!(store.read(&SSH_KEY).unwrap(), key);

        let refused = store.rotate(&CLOUD_TOKEN).unwrap_err();
        assert!(matches!(refused, Error::RotationPending("cloud-token")), "{refused}");
        assert_eq!(store.read_previous(&CLOUD_TOKEN).as_ref(), Some(&token));

        for secret in &store.secrets {
            let mode = fs::metadata(store.path(secret)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", secret.name);
        }
        let left: Vec<_> = fs::read_dir(dir.path().join("secrets")).unwrap().collect();
        assert_eq!(left.len(), before.len() + 3, "no temporary files stay");
    }

    #[test]
    fn the_id_of_the_cluster_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), "");
        assert_eq!(store.cluster_id().unwrap(), None);
        store.ensure().unwrap();
        let id = store.cluster_id().unwrap();
        store.ensure().unwrap();
        assert!(id.is_some() && store.cluster_id().unwrap() == id);
        store.set_cluster_id("1a2b").unwrap();
        store.ensure().unwrap();
        assert_eq!(store.cluster_id().unwrap().as_deref(), Some("1a2b"));
        fs::write(dir.path().join(CLUSTER_ID), "a b").unwrap();
        assert!(matches!(store.cluster_id(), Err(Error::Damaged { .. })));
    }

    #[test]
    fn a_secret_of_the_site_is_never_made() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), "[accounting]\nhost = \"dbd.example.org\"\n");
        let munge = services::secrets().into_iter().find(|secret| secret.name == "munge-key").unwrap();
        assert!(matches!(store.ensure(), Err(Error::SecretNotGiven { name: "munge-key", .. })));
        assert!(!store.path(munge).exists());
        fs::write(store.path(munge), [0xff; 128]).unwrap();
        store.ensure().unwrap();
        assert!(!dir.path().join("database-password").exists(), "the database is the site's");
        let password = services::secrets().into_iter().find(|s| s.name == "database-password").unwrap();
        assert!(matches!(store.rotate(password), Err(Error::SecretNotUsed("database-password"))));
        let said = store.read(munge).unwrap_err().to_string();
        assert!(said.ends_with("is damaged: it is not base64 of 32 to 1024 bytes"), "{said}");
        // As `base64` writes it, in lines.
        let encoded = STANDARD.encode([7; 128]);
        fs::write(store.path(munge), format!("{}\n{}\n", &encoded[..76], &encoded[76..])).unwrap();
        assert_eq!(store.read(munge).unwrap().expose_secret(), encoded);
        assert!(matches!(store.rotate(munge), Err(Error::SecretOfSite { .. })));
        assert_eq!(store.read(munge).unwrap().expose_secret(), encoded);
    }

    #[test]
    fn the_dashboards_certificate_has_the_name_in_its_address() {
        let dir = tempfile::tempdir().unwrap();
        let names = |table: &str| {
            let store = store(dir.path(), table);
            store.ensure().unwrap();
            let text = store.read(&services::dashboard::CERTIFICATE).unwrap();
            text.expose_secret().lines().next().unwrap().to_string()
        };
        let (table, own) =
            ("[dashboard]\nfrom = [\"192.0.2.0/24\"]\n", names("[dashboard]\nfrom = [\"192.0.2.0/24\"]\n"));
        assert!(own.ends_with(", control, localhost"), "{own}");
        let named = names(&format!("{table}address = \"https://kiln.example.org\"\n"));
        assert_eq!(named, format!("{own}, kiln.example.org"));
    }

    #[test]
    fn a_certificate_follows_its_authority() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), "[directory]\nkind = \"server\"\n");
        store.ensure().unwrap();
        let read = || store.read(&services::directory::CERTIFICATE).unwrap();
        let before = read();
        store.rotate(&CLUSTER_CA).unwrap();
        store.ensure().unwrap();
        let after = read();
        assert!(before != after, "the certificate of an authority that is gone was kept");
        store.ensure().unwrap();
        assert!(after == read(), "a good certificate was replaced");
    }

    #[test]
    fn the_password_of_a_sites_directory_is_the_sites() {
        let dir = tempfile::tempdir().unwrap();
        let table =
            "[directory]\nkind = \"ldap\"\nuri = [\"ldaps://a\"]\nbase = \"dc=a\"\nbind_dn = \"cn=k,dc=a\"\n";
        let store = store(dir.path(), table);
        let password = &services::directory::BIND_PASSWORD;
        assert!(matches!(store.ensure(), Err(Error::SecretNotGiven { name: "directory-bind-password", .. })));
        fs::write(store.path(password), "two\nlines\n").unwrap();
        assert!(matches!(store.read(password), Err(Error::Damaged { .. })));
        fs::write(store.path(password), "s3cret\n").unwrap();
        store.ensure().unwrap();
        assert!(matches!(store.rotate(password), Err(Error::SecretOfSite { .. })));
    }

    #[test]
    fn an_emptied_secret_is_reported_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), "");
        store.ensure().unwrap();
        fs::write(store.path(&NODE_SEED), "").unwrap();
        store.ensure().unwrap();
        let error = store.read(&NODE_SEED).unwrap_err();
        assert!(error.to_string().ends_with("is damaged: it is empty"), "{error}");
    }
}
