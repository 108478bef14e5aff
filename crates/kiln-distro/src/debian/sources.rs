//! How apt is told of repositories.

use std::fmt::Write as _;

use kiln_spec::SourceSpec;

use crate::SourceFile;

/// The repository, and the key that is trusted for it alone.
pub fn files(source: &SourceSpec) -> Vec<SourceFile> {
    let name = &source.name;
    let key = source.key.as_ref().map(|key| {
        let ending = if key.content.is_ascii() { "asc" } else { "gpg" };
        SourceFile {
            path: format!("/etc/apt/keyrings/kiln-{name}.{ending}"),
            mode: "0644",
            content: key.content.clone(),
        }
    });
    let (suites, components) = match source.suites.as_slice() {
        [] => ("./".to_string(), String::new()),
        suites => (suites.join(" "), format!("Components: {}\n", source.components.join(" "))),
    };
    // Copies of repositories often lack the translations that their signed list of files names.
    let mut text = format!(
        "# Written by Kiln.\nTypes: deb\nURIs: {}\nSuites: {suites}\n{components}Targets: Packages\n",
        source.address
    );
    if let Some(key) = &key {
        let _ = writeln!(text, "Signed-By: {}", key.path);
    }
    // Both are written: a build may take old lists of the system's own sources, which must not hold for this one.
    let checked = if source.snapshot.is_some() { "no" } else { "yes" };
    let _ = writeln!(text, "Check-Valid-Until: {checked}");
    let path = format!("/etc/apt/sources.list.d/kiln-{name}.sources");
    key.into_iter().chain([SourceFile { path, mode: "0644", content: text.into_bytes() }]).collect()
}

/// apt takes credentials for plain HTTP only where the scheme is written too.
pub fn credentials(source: &SourceSpec, user: &str, password: &str) -> SourceFile {
    let machine = source.address.trim_end_matches('/');
    let machine = machine.strip_prefix("https://").unwrap_or(machine);
    SourceFile {
        path: format!("/run/kiln-sources/{}.conf", source.name),
        mode: "0600",
        content: format!("machine {machine}\nlogin {user}\npassword {password}\n").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use kiln_spec::SigningKey;

    use super::*;

    fn source() -> SourceSpec {
        SourceSpec {
            name: "site".into(),
            address: "http://packages.example.org/a".into(),
            snapshot: None,
            pulp: None,
            suites: vec!["bookworm".into(), "bookworm-updates".into()],
            components: vec!["main".into()],
            key: None,
            credentials: None,
            keep: false,
        }
    }

    fn text(source: &SourceSpec) -> String {
        let files = files(source);
        String::from_utf8(files.last().unwrap().content.clone()).unwrap()
    }

    #[test]
    fn only_a_snapshot_may_be_out_of_date() {
        let mut of_now = source();
        assert_eq!(
            text(&of_now),
            "# Written by Kiln.\nTypes: deb\nURIs: http://packages.example.org/a\n\
             Suites: bookworm bookworm-updates\nComponents: main\nTargets: Packages\nCheck-Valid-Until: yes\n"
        );
        of_now.snapshot = Some("20260101T000000Z".into());
        assert!(text(&of_now).contains("Check-Valid-Until: no\n"));
    }

    #[test]
    fn a_key_is_for_its_repository_alone() {
        let armored = SigningKey { path: "site.asc".into(), content: b"-----BEGIN".to_vec() };
        let mut signed = SourceSpec { key: Some(armored), suites: vec![], components: vec![], ..source() };
        assert_eq!(files(&signed)[0].path, "/etc/apt/keyrings/kiln-site.asc");
        let flat = text(&signed);
        assert!(flat.contains("Suites: ./\nTargets"), "{flat}");
        assert!(flat.contains("Signed-By: /etc/apt/keyrings/kiln-site.asc\n"), "{flat}");
        signed.key = Some(SigningKey { path: "site.gpg".into(), content: vec![0x99, 1] });
        assert!(text(&signed).contains("kiln-site.gpg"));
    }

    #[test]
    fn credentials_are_for_the_address() {
        let plain = credentials(&source(), "me", "word");
        assert_eq!(
            String::from_utf8(plain.content).unwrap(),
            "machine http://packages.example.org/a\nlogin me\npassword word\n"
        );
        assert_eq!(plain.mode, "0600");
        let secure = SourceSpec { address: "https://p.example.org/".into(), ..source() };
        assert!(credentials(&secure, "me", "word").content.starts_with(b"machine p.example.org\n"));
    }

    /// The names of apt's files after the step.
    fn settled(argument: &str, dir: &std::path::Path) -> Vec<String> {
        let script = include_str!("settle-sources.sh")
            .replace("/etc/apt", &dir.display().to_string())
            .replace("/run/kiln-sources", "/nonexistent")
            .replace("/etc/cloud", "/nonexistent");
        let status = std::process::Command::new("sh").args(["-c", &script, "sh", argument]).status();
        assert!(status.unwrap().success());
        let mut names = Vec::new();
        for within in [dir.to_path_buf(), dir.join("sources.list.d"), dir.join("auth.conf.d")] {
            let entries = std::fs::read_dir(within).unwrap().flatten();
            names
                .extend(entries.filter(|e| e.path().is_file()).map(|e| e.file_name().into_string().unwrap()));
        }
        names.sort();
        names
    }

    /// Elsewhere it would be waited for until the limit.
    #[test]
    fn cloud_init_is_waited_for_where_it_runs() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for folder in ["bin", "etc/apt"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        let tell = format!("[ \"$4\" != cloud-init-local.service ] || cat {}", at("state"));
        for (name, command) in [("cloud-init", format!("echo \"$@\" >{}", at("asked"))), ("systemctl", tell)]
        {
            let program = at("bin/") + name;
            std::fs::write(&program, format!("#!/bin/sh\n{command}\n")).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let script =
            include_str!("settle-sources.sh").replace("/etc/", &at("etc/")).replace("/run/", &at("run/"));
        let settle = |state: &str| {
            std::fs::write(at("state"), state).unwrap();
            let mut shell = std::process::Command::new("sh");
            let shell = shell.args(["-c", &script, "sh", ""]).env("PATH", at("bin") + ":/usr/bin:/bin");
            assert!(shell.status().unwrap().success());
            std::fs::read_to_string(at("asked")).ok()
        };
        for state in ["", "inactive\n"] {
            assert_eq!(settle(state), None, "{state}");
        }
        for state in ["active\n", "failed\n"] {
            assert_eq!(settle(state).as_deref(), Some("status --wait\n"), "{state}");
            std::fs::remove_file(at("asked")).unwrap();
        }
    }

    #[test]
    fn the_systems_own_sources_come_back_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sources.list.d")).unwrap();
        std::fs::create_dir(dir.path().join("auth.conf.d")).unwrap();
        let own = ["sources.list", "sources.list.d/debian.sources", "sources.list.d/a.list"];
        for name in own.iter().chain(&["sources.list.d/kiln-site.sources", "auth.conf.d/kiln-site.conf"]) {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let off = ["a.list.kiln.disabled", "debian.sources.kiln.disabled", "sources.list.kiln.disabled"];
        assert_eq!(settled("", dir.path()), off);
        assert_eq!(settled("", dir.path()), off);
        assert_eq!(settled("system", dir.path()), ["a.list", "debian.sources", "sources.list"]);
        assert_eq!(settled("system", dir.path()), ["a.list", "debian.sources", "sources.list"]);
        for name in own {
            assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), name);
        }
    }
}
