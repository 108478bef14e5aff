//! How dnf is told of repositories.

use std::fmt::Write as _;

use kiln_spec::SourceSpec;

use crate::SourceFile;

fn key_path(source: &SourceSpec) -> String {
    format!("/etc/pki/rpm-gpg/kiln-{}", source.name)
}

/// What dnf must not do: pass over a repository that does not answer, or take a package that the key has not signed.
fn text(source: &SourceSpec) -> String {
    let name = &source.name;
    let mut text = format!(
        "# Written by Kiln.\n[kiln-{name}]\nname={name}\nbaseurl={}\nenabled=1\ngpgcheck=1\nskip_if_unavailable=0\n",
        source.address
    );
    if source.key.is_some() {
        let _ = writeln!(text, "gpgkey=file://{}", key_path(source));
    }
    text
}

/// The repository, and its key. One that has credentials is written with them.
pub fn files(source: &SourceSpec) -> Vec<SourceFile> {
    let key = source.key.as_ref().map(|key| SourceFile {
        path: key_path(source),
        mode: "0644",
        content: key.content.clone(),
    });
    let path = format!("/etc/yum.repos.d/kiln-{}.repo", source.name);
    let repository = SourceFile { path, mode: "0644", content: text(source).into_bytes() };
    key.into_iter().chain(source.credentials.is_none().then_some(repository)).collect()
}

/// dnf has no other place for them than the file of the repository. In an address they would get into its log.
pub fn credentials(source: &SourceSpec, user: &str, password: &str) -> SourceFile {
    SourceFile {
        path: format!("/run/kiln-sources/{}.repo", source.name),
        mode: "0600",
        content: format!("{}username={user}\npassword={password}\n", text(source)).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use kiln_spec::{Credentials, SigningKey};

    use super::*;

    fn source() -> SourceSpec {
        SourceSpec {
            name: "site".into(),
            address: "http://packages.example.org/el9/20260101".into(),
            snapshot: Some("20260101".into()),
            pulp: None,
            suites: vec![],
            components: vec![],
            key: Some(SigningKey { path: "site.asc".into(), content: b"-----BEGIN".to_vec() }),
            credentials: None,
            keep: false,
        }
    }

    const TEXT: &str = "# Written by Kiln.\n[kiln-site]\nname=site\nbaseurl=http://packages.example.org/el9/20260101\n\
                        enabled=1\ngpgcheck=1\nskip_if_unavailable=0\ngpgkey=file:///etc/pki/rpm-gpg/kiln-site\n";

    #[test]
    fn a_repository_has_to_answer_and_its_packages_have_to_be_signed() {
        let [key, repository] = files(&source()).try_into().unwrap();
        assert_eq!((key.path.as_str(), key.content), ("/etc/pki/rpm-gpg/kiln-site", b"-----BEGIN".to_vec()));
        assert_eq!(repository.path, "/etc/yum.repos.d/kiln-site.repo");
        assert_eq!(String::from_utf8(repository.content).unwrap(), TEXT);
    }

    #[test]
    fn credentials_are_in_memory_only() {
        let closed = SourceSpec { credentials: Some(Credentials::Environment("A".into())), ..source() };
        assert_eq!(files(&closed).len(), 1, "the key");
        let file = credentials(&closed, "me", "word");
        assert_eq!((file.path.as_str(), file.mode), ("/run/kiln-sources/site.repo", "0600"));
        assert_eq!(String::from_utf8(file.content).unwrap(), format!("{TEXT}username=me\npassword=word\n"));
    }

    /// An update of the package that the repositories belong to writes their files again.
    #[test]
    fn repositories_that_an_update_brings_back_are_put_aside_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let run = |script: &str, argument: &str| {
            let script = script
                .replace("/etc/", &format!("{}/", dir.path().display()))
                .replace("exec dnf", &format!("ls {} #", path("yum.repos.d").display()))
                .replace("/run/kiln-sources", "/nonexistent");
            let output =
                std::process::Command::new("sh").args(["-c", &script, "sh", argument]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let own = path("yum.repos.d/base.repo");
        std::fs::create_dir(path("yum.repos.d")).unwrap();
        std::fs::write(&own, "old").unwrap();
        let (settle, install) = (include_str!("settle-sources.sh"), include_str!("install.sh"));
        run(settle, "");
        std::fs::write(&own, "new").unwrap();
        assert_eq!(run(install, "munge"), "base.repo.kiln.disabled\nkiln-only\n");
        // Where the file wants the system's own, they are used as they are now.
        run(settle, "system");
        assert_eq!(run(install, "munge"), "base.repo\n");
        assert_eq!(std::fs::read_to_string(own).unwrap(), "new");
    }
}
