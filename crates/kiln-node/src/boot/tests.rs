use super::*;
use kiln_wire::bundle::{Bundle, EVERYTHING, Resource};
use kiln_wire::make;
use kiln_wire::seal;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

/// A root, a config drive and a share in one temporary directory.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new(user_data: &str) -> Self {
        let fixture = Fixture { directory: tempfile::tempdir().unwrap() };
        let me = rustix::process::geteuid().as_raw();
        fixture.write("root/etc/passwd", format!("root:x:{me}:{me}::/root:/bin/sh\n"));
        fixture.write("root/etc/group", format!("root:x:{}:\n", rustix::process::getegid().as_raw()));
        fixture.write(
            "drive/meta_data.json",
            r#"{"uuid": "u", "name": "n", "public_keys": {"a": "ssh-ed25519 AAAA a"}}"#,
        );
        fixture.write("drive/user_data", user_data);
        fixture
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn boot(&self) -> Result<BootOutcome, BootError> {
        self.boot_within(Duration::ZERO)
    }

    fn boot_within(&self, patience: Duration) -> Result<BootOutcome, BootError> {
        self.boot_with(patience, patience)
    }

    fn boot_with(&self, share: Duration, bundle: Duration) -> Result<BootOutcome, BootError> {
        boot(&BootOptions { share_patience: share, bundle_patience: bundle, ..self.options() })
    }

    fn options(&self) -> BootOptions {
        BootOptions {
            root: self.path("root"),
            sources: Sources {
                directory: self.path("drive"),
                device: false,
                url: "http://127.0.0.1:1".into(),
                oci_url: "http://127.0.0.1:1".into(),
                patience: Duration::ZERO,
            },
            identity_patience: Duration::ZERO,
            share: self.path("share"),
            share_patience: Duration::ZERO,
            bundle_patience: Duration::ZERO,
            update: false,
        }
    }
}

fn compute(extra: &str) -> String {
    format!(
        r#"{{"kiln": {{"cluster": "demo", "node": "c1", "role": "compute", "domain": "d",
            "share": {{"volume": "share"}} {extra}}}}}"#
    )
}

fn bundle(node: &str) -> Bundle {
    Bundle {
        kiln: None,
        format: kiln_wire::Version,
        cluster: "demo".into(),
        node: node.into(),
        role: "compute".into(),
        resources: vec![Resource::File(make::file("/etc/slurm/x", "x\n"))],
    }
}

fn key(seed: u8) -> (String, String) {
    let (secret, public) = seal::seal_keypair(&[seed; 32]);
    (secret.expose_secret().to_owned(), public)
}

/// With the deploy host's key, which is that of seed 9.
fn sealed(bundle: &Bundle, recipient: &str) -> Vec<u8> {
    seal::seal(bundle, recipient, &key(9).0.into()).unwrap()
}

/// A compute node that opens bundles with this key.
fn compute_with(seal_key: &str) -> String {
    compute(&format!(r#", "seal_key": "{seal_key}", "sender_key": "{}""#, key(9).1))
}

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o7777
}

#[test]
fn a_build_stops_when_ssh_works() {
    let fixture = Fixture::new(&compute(r#", "build": true"#));
    fixture.write("root/root/.ssh/authorized_keys", "ssh-rsa MINE me\n");
    assert!(matches!(fixture.boot(), Ok(BootOutcome::Build)));
    let keys = fixture.read("root/root/.ssh/authorized_keys");
    assert!(keys.starts_with("ssh-rsa MINE me\n") && keys.contains("\nssh-ed25519 AAAA a\n"), "{keys}");
    assert_eq!(mode(&fixture.path("root/root/.ssh/authorized_keys")), 0o600);
    assert_eq!(fixture.read("root/etc/hostname"), "c1\n");
}

#[test]
fn the_given_host_key_is_installed() {
    let pair = ssh_key::private::Ed25519Keypair::from_seed(&[3; 32]);
    let private = ssh_key::PrivateKey::from(pair).to_openssh(ssh_key::LineEnding::LF).unwrap();
    let escaped = private.replace('\n', "\\n");
    let fixture = Fixture::new(&compute(&format!(r#", "build": true, "ssh_host_key": "{escaped}""#)));
    fixture.boot().unwrap();
    assert_eq!(fixture.read("root/etc/ssh/ssh_host_ed25519_key"), *private);
    assert_eq!(mode(&fixture.path("root/etc/ssh/ssh_host_ed25519_key")), 0o600);
    assert!(fixture.read("root/etc/ssh/ssh_host_ed25519_key.pub").starts_with("ssh-ed25519 AAAA"));
}

#[test]
fn a_compute_node_applies_its_bundle() {
    let (identity, recipient) = key(1);
    let fixture = Fixture::new(&compute_with(&identity));
    fixture.write("share/bundles/c1.age", sealed(&bundle("c1"), &recipient));
    assert!(matches!(fixture.boot(), Ok(BootOutcome::Configured(_))));
    assert_eq!(fixture.read("root/etc/slurm/x"), "x\n");
    assert_eq!(state::applied(&fixture.path("root")).unwrap().result, AppliedResult::Ok);
}

#[test]
fn a_bundle_that_fails_in_part_starts_nothing_that_needs_the_whole() {
    let (identity, recipient) = key(1);
    let fixture = Fixture::new(&compute_with(&identity));
    let mut bundle = bundle("c1");
    if let Resource::File(file) = &mut bundle.resources[0] {
        file.needs.push(EVERYTHING.into());
    }
    let site_commands = r#"{"kind": "command", "name": "site commands", "argv": ["false"], "stdin": null,
        "unless": null, "when_changed": [], "retry_seconds": 0}"#;
    bundle.resources.insert(0, serde_json::from_str(site_commands).unwrap());
    fixture.write("share/bundles/c1.age", sealed(&bundle, &recipient));
    let Err(error @ BootError::Apply(_)) = fixture.boot() else { panic!("it went well") };
    assert!(
        error.to_string().starts_with("1 of 2 resources failed, the first: command:site commands"),
        "{error}"
    );
    assert!(!fixture.path("root/etc/slurm/x").exists());
}

#[test]
fn a_rotated_key_counts_more_than_the_metadata() {
    let (old, _) = key(1);
    let (new, recipient) = key(2);
    let fixture = Fixture::new(&compute_with(&old));
    fixture.write("share/bundles/c1.age", sealed(&bundle("c1"), &recipient));
    assert!(matches!(fixture.boot(), Err(BootError::Seal(SealError::Open))));
    fixture.write("root/var/lib/kiln/seal-key", new);
    assert!(matches!(fixture.boot(), Ok(BootOutcome::Configured(_))));
}

#[test]
fn a_bundle_from_somebody_else_is_refused() {
    let (identity, recipient) = key(1);
    let fixture = Fixture::new(&compute_with(&identity));
    fixture.write("share/bundles/c1.age", seal::seal(&bundle("c1"), &recipient, &key(2).0.into()).unwrap());
    assert!(matches!(fixture.boot(), Err(BootError::Seal(SealError::Open))));
    // The deploy host's key was rotated.
    fixture.write("root/var/lib/kiln/sender-key", key(2).1);
    assert!(matches!(fixture.boot(), Ok(BootOutcome::Configured(_))));
}

#[test]
fn an_old_bundle_that_is_put_back_is_refused_once_a_key_was_rotated() {
    let (identity, recipient) = key(1);
    let old = sealed(&bundle("c1"), &recipient);
    for (path, rotated) in [("sender-key", key(8).1), ("seal-key", key(2).0)] {
        let fixture = Fixture::new(&compute_with(&identity));
        fixture.write("share/bundles/c1.age", &old);
        assert!(matches!(fixture.boot(), Ok(BootOutcome::Configured(_))));
        fixture.write(&format!("root/var/lib/kiln/{path}"), rotated);
        assert!(matches!(fixture.boot(), Err(BootError::Seal(SealError::Open))), "{path}");
    }
}

#[test]
fn without_the_senders_key_nothing_is_accepted() {
    let (identity, recipient) = key(1);
    let fixture = Fixture::new(&compute(&format!(r#", "seal_key": "{identity}""#)));
    fixture.write("share/bundles/c1.age", sealed(&bundle("c1"), &recipient));
    assert!(matches!(fixture.boot(), Err(BootError::NoSenderKey)));
}

#[test]
fn a_bundle_of_another_node_is_refused() {
    let (identity, recipient) = key(1);
    let fixture = Fixture::new(&compute_with(&identity));
    fixture.write("share/bundles/c1.age", sealed(&bundle("c2"), &recipient));
    assert!(matches!(fixture.boot(), Err(BootError::Seal(SealError::WrongNode { .. }))));
    assert!(!fixture.path("root/etc/slurm/x").exists());
}

#[test]
fn no_share_is_an_error_and_no_bundle_is_a_wait() {
    let fixture = Fixture::new(&compute(""));
    assert!(matches!(fixture.boot(), Err(BootError::Share { .. })));
    std::fs::create_dir(fixture.path("share")).unwrap();
    assert!(matches!(fixture.boot(), Ok(BootOutcome::WaitingForConfigure { .. })));
}

/// Control comes back, be it after hours. A bundle comes with the next `configure`, or not at all.
#[test]
fn a_share_is_waited_for_longer_than_a_bundle() {
    let fixture = Fixture::new(&compute(""));
    let never = Duration::MAX;
    assert!(matches!(fixture.boot_with(Duration::ZERO, never), Err(BootError::Share { .. })));
    fixture.write("share/bundles/c2.age", "another's");
    assert!(matches!(fixture.boot_with(never, Duration::ZERO), Ok(BootOutcome::WaitingForConfigure { .. })));
    // A share that cannot be read is not an empty one.
    std::fs::remove_dir_all(fixture.path("share")).unwrap();
    fixture.write("share/bundles", "no directory");
    assert!(matches!(fixture.boot_with(Duration::ZERO, never), Err(BootError::Share { .. })));
}

#[test]
fn a_share_that_comes_late_is_waited_for() {
    let (identity, recipient) = key(1);
    let fixture = Fixture::new(&compute_with(&identity));
    std::thread::scope(|scope| {
        let boot = scope.spawn(|| fixture.boot_within(Duration::from_secs(60)));
        // First the share, with nothing of this node on it, then its bundle.
        fixture.write("new/bundles/c2.age", "another's");
        fixture.write("new/mine", sealed(&bundle("c1"), &recipient));
        std::fs::rename(fixture.path("new"), fixture.path("share")).unwrap();
        assert!(!boot.is_finished() && !fixture.path("root/etc/slurm/x").exists());
        std::fs::rename(fixture.path("share/mine"), fixture.path("share/bundles/c1.age")).unwrap();
        assert!(matches!(boot.join().unwrap(), Ok(BootOutcome::Configured(_))));
    });
    assert_eq!(fixture.read("root/etc/slurm/x"), "x\n");
}

#[test]
fn control_waits_until_it_was_configured_once() {
    let control = r#"{"kiln": {"cluster": "demo", "node": "c1", "role": "control", "domain": "d"}}"#;
    let fixture = Fixture::new(control);
    assert!(matches!(fixture.boot(), Ok(BootOutcome::WaitingForConfigure { .. })));
    let options = ApplyOptions { root: fixture.path("root"), ..ApplyOptions::default() };
    assert!(apply(&bundle("c1"), &options, &mut |_| {}).ok());
    assert!(matches!(fixture.boot(), Ok(BootOutcome::AlreadyConfigured)));
}

/// Without a config drive. The first answers are as of a metadata service that is about to start.
#[test]
fn whoever_tells_a_node_who_it_is_may_be_late() {
    let fixture = Fixture::new("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..count]).into_owned();
            let (status, body) = match request.split(' ').nth(1) {
                _ if number < 2 => ("503 Service Unavailable", String::new()),
                Some("/meta_data.json") => ("200 OK", r#"{"uuid": "u", "name": "n"}"#.into()),
                Some("/user_data") => ("200 OK", compute(r#", "build": true"#)),
                _ => ("404 Not Found", String::new()),
            };
            write!(stream, "HTTP/1.0 {status}\r\n\r\n{body}").unwrap();
        }
    });
    let options = fixture.options();
    let sources = Sources {
        directory: "/no/such".into(),
        url: address.clone(),
        oci_url: format!("{address}/opc"),
        ..options.sources.clone()
    };
    let early = BootOptions { sources, ..options };
    assert!(matches!(boot(&early), Err(BootError::Metadata(_))));
    let patient = BootOptions { identity_patience: Duration::MAX, ..early };
    assert!(matches!(boot(&patient), Ok(BootOutcome::Build)));
    assert_eq!(fixture.read("root/etc/hostname"), "c1\n");
}

#[test]
fn foreign_user_data_is_a_wait() {
    let fixture = Fixture::new("#cloud-config\n");
    let Ok(BootOutcome::WaitingForConfigure { reason }) = fixture.boot() else { panic!("not waiting") };
    assert!(reason.contains("user data"));
}
