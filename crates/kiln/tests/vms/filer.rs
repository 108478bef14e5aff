//! A file server of the site, outside the cluster: NFS-Ganesha on this machine, which maps root to nobody.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::lab::{USER, USER_ID, wait};

/// Where machines reach this one.
const ADDRESS: &str = "172.24.5.1";
/// Home directories of the cluster are there.
pub const HOMES: &str = "[volumes]\nhome = { mode = \"nfs\", source = \"172.24.5.1:/home\" }\n\n";

pub struct Filer {
    dir: PathBuf,
    server: Option<Child>,
}

impl Filer {
    /// Whoever runs it has made the homes, as root of the cluster cannot.
    pub fn new(dir: PathBuf) -> Filer {
        let home = dir.join("home").join(USER);
        fs::create_dir_all(&home).expect("a home directory");
        chown(&home, Some(USER_ID), Some(USER_ID)).expect("it is the user's");
        fs::create_dir_all(dir.join("recovery")).expect("a directory for the state of clients");
        fs::write(dir.join("ganesha.conf"), configuration(&dir)).expect("its file");
        let mut filer = Filer { dir, server: None };
        filer.start();
        filer
    }

    pub fn start(&mut self) {
        let path = |name: &str| self.dir.join(name);
        let log = path("ganesha.log");
        let _ = fs::remove_file(&log);
        // It ends with this process, however that ends.
        let server = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "ganesha.nfsd", "-F"])
            .args(["-f".as_ref(), path("ganesha.conf").as_os_str()])
            .args(["-L".as_ref(), log.as_os_str()])
            .args(["-p".as_ref(), path("ganesha.pid").as_os_str()])
            .spawn();
        let server = self.server.insert(server.expect("ganesha.nfsd runs"));
        wait("the file server serves", || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            assert!(server.try_wait().expect("its state").is_none(), "it has ended: {log}");
            log.contains("NFS SERVER INITIALIZED")
        });
    }

    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("it can be ended");
            server.wait().expect("it has ended");
        }
    }

    /// A file of the user, as the server has it.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join("home").join(USER).join(name)).unwrap_or_default()
    }
}

impl Drop for Filer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A server that is started again lets clients go on at once: there is nobody else whose locks it would have to wait for.
fn configuration(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; Bind_addr = {ADDRESS}; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSv4 {{ Graceless = true; Minor_Versions = 1, 2; Only_Numeric_Owners = true; \
         RecoveryBackend = fs_ng; RecoveryRoot = {dir}/recovery; }}\n\
         EXPORT {{ Export_Id = 1; Path = {dir}/home; Pseudo = /home; Access_Type = RW; Squash = root_squash; \
         SecType = sys; FSAL {{ Name = VFS; }} }}\n"
    )
}
