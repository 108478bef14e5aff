//! Signed repositories of packages, served over HTTP to whoever has the password.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use base64::Engine as _;

pub struct Repository {
    dir: tempfile::TempDir,
    pub address: String,
    /// `USER:PASSWORD`
    pub login: String,
    /// What was asked for and answered, as `STATUS PATH`.
    asked: Arc<Mutex<Vec<String>>>,
}

pub const PASSWORD: &str = "kiln-e2e-Pa55word-of-the-repository";

fn run(program: &str, arguments: &[&str], home: &Path) -> Vec<u8> {
    let output = Command::new(program).args(arguments).env("GNUPGHOME", home).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl Repository {
    pub fn new() -> Repository {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("gnupg");
        fs::create_dir(&home).expect("a directory");
        let who = "Kiln's tests <tests@example.org>";
        let make =
            ["--batch", "--quiet", "--pinentry-mode=loopback", "--passphrase=", "--quick-generate-key", who];
        run("gpg", &[&make[..], &["ed25519", "sign", "never"]].concat(), &home);
        fs::create_dir(dir.path().join("www")).expect("a directory");
        let login = format!("site:{PASSWORD}");
        // Instances reach this machine at its own address.
        let probe = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        probe.connect("192.0.2.1:9").expect("a route");
        let own = probe.local_addr().expect("an address").ip();
        let listener = TcpListener::bind(SocketAddr::new(own, 0)).expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = Server { root: dir.path().join("www"), login: login.clone(), asked: asked.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || _ = server.serve(&stream));
            }
        });
        Repository { dir, address, login, asked }
    }

    /// The public key, for the cluster's directory.
    pub fn key(&self) -> Vec<u8> {
        run("gpg", &["--armor", "--export"], &self.dir.path().join("gnupg"))
    }

    /// Makes a suite at a path of exactly these packages. It is long out of date, as a snapshot is.
    pub fn publish(&self, path: &str, suite: &str, packages: &[Package]) {
        self.publish_until(path, suite, packages, "Valid-Until: Thu, 08 Jan 2026 00:00:00 UTC\n");
    }

    /// As [`Repository::publish`], of now.
    pub fn publish_current(&self, path: &str, suite: &str, packages: &[Package]) {
        self.publish_until(path, suite, packages, "");
    }

    fn publish_until(&self, path: &str, suite: &str, packages: &[Package], until: &str) {
        let base = self.dir.path().join("www").join(path);
        // What is no longer in the suite is gone.
        let _ = fs::remove_dir_all(base.join("pool"));
        fs::create_dir_all(base.join("pool")).expect("a directory");
        let index: String = packages.iter().map(|package| package.build(&base)).collect();
        self.write_suite(&base, suite, &index, until);
    }

    /// A suite of now, of the packages that a build has kept in a directory. They leave it.
    pub fn publish_kept(&self, path: &str, suite: &str, kept: &Path) {
        let base = self.directory(path);
        fs::create_dir_all(base.join("pool")).expect("a directory");
        let mut index = String::new();
        for line in fs::read_to_string(kept.join("Packages")).expect("the list").lines() {
            let Some(name) = line.strip_prefix("Filename: ./") else {
                // As apt shows it, with translations or without.
                let _ = writeln!(index, "{}", line.replacen("Description-en: ", "Description: ", 1));
                continue;
            };
            // With signs that nobody escapes when they ask for it.
            let plain = name.replace(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c), "-");
            fs::rename(kept.join(name), base.join("pool").join(&plain)).expect("a package");
            let _ = writeln!(index, "Filename: pool/{plain}");
        }
        self.write_suite(&base, suite, &index, "");
    }

    fn write_suite(&self, base: &Path, suite: &str, index: &str, until: &str) {
        let lists = base.join("dists").join(suite).join("main/binary-amd64");
        fs::create_dir_all(&lists).expect("a directory");
        fs::write(lists.join("Packages"), index).expect("a list");
        // With a translation that is not there, as in a copy.
        let release = format!(
            "Origin: kiln-tests\nSuite: {suite}\nCodename: {suite}\nArchitectures: amd64\nComponents: main\n\
             Date: Thu, 01 Jan 2026 00:00:00 UTC\n{until}SHA256:\n \
             {} {} main/binary-amd64/Packages\n {} 9 main/i18n/Translation-en\n",
            sha256(index.as_bytes()),
            index.len(),
            sha256(b"not there"),
        );
        let dist = base.join("dists").join(suite);
        let plain = dist.join("Release");
        fs::write(&plain, release).expect("a list");
        let signed = run(
            "gpg",
            &["--batch", "--clearsign", "--output", "-", &plain.display().to_string()],
            &self.dir.path().join("gnupg"),
        );
        fs::write(dist.join("InRelease"), signed).expect("a list");
    }

    /// Where what is served at a path is.
    pub fn directory(&self, path: &str) -> PathBuf {
        self.dir.path().join("www").join(path)
    }

    pub fn gnupg_home(&self) -> PathBuf {
        self.dir.path().join("gnupg")
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("requests").clone()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // gpg starts an agent, which would outlive the directory.
        let home = self.dir.path().join("gnupg");
        let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", home).status();
    }
}

pub struct Package {
    pub name: &'static str,
    pub version: &'static str,
    /// Path and content.
    pub file: (&'static str, &'static str),
}

impl Package {
    /// Its paragraph in the list of packages.
    fn build(&self, base: &Path) -> String {
        let tree = tempfile::tempdir().expect("a directory");
        let (path, content) = self.file;
        let file = tree.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        fs::write(file, content).expect("a file");
        fs::create_dir(tree.path().join("DEBIAN")).expect("a directory");
        let mut control = format!(
            "Package: {}\nVersion: {}\nArchitecture: all\nMaintainer: Kiln's tests <tests@example.org>\n\
             Description: made by a test\n",
            self.name, self.version
        );
        fs::write(tree.path().join("DEBIAN/control"), &control).expect("control");
        let name = format!("pool/{}_{}_all.deb", self.name, self.version);
        let to = base.join(&name).display().to_string();
        let from = tree.path().display().to_string();
        run("dpkg-deb", &["--root-owner-group", "--build", &from, &to], base);
        let content = fs::read(base.join(&name)).expect("the package");
        let _ =
            writeln!(control, "Filename: {name}\nSize: {}\nSHA256: {}\n", content.len(), sha256(&content));
        control
    }
}

fn sha256(content: &[u8]) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(content))
}

#[derive(Clone)]
struct Server {
    root: PathBuf,
    login: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream).lines();
        let mut stream = stream;
        while let Some(request) = lines.next().transpose()? {
            let path = request.split(' ').nth(1).unwrap_or_default().to_string();
            let headers: Vec<String> =
                lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let expected = base64::engine::general_purpose::STANDARD.encode(&self.login);
            let known = headers.iter().any(|line| line.ends_with(&format!("Basic {expected}")));
            let content = fs::read(self.root.join(path.trim_start_matches('/')));
            let (status, body) = match content {
                // Only what is below /closed needs the password.
                _ if path.starts_with("/closed") && !known => ("401 Unauthorized", Vec::new()),
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            self.asked.lock().expect("requests").push(format!("{} {path}", &status[..3]));
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len())?;
            if status.starts_with("401") {
                write!(stream, "WWW-Authenticate: Basic realm=\"site\"\r\n")?;
            }
            write!(stream, "\r\n")?;
            stream.write_all(&body)?;
        }
        Ok(())
    }
}
