//! A real terminal that a test can look at and type into: tmux, with a server of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

pub struct Tmux {
    folder: tempfile::TempDir,
}

const PATIENCE: Duration = Duration::from_secs(60);

#[allow(dead_code, reason = "not every test uses all of it")]
impl Tmux {
    /// Runs a line of shell on a terminal of so many columns and rows.
    pub fn start(line: &str, (columns, rows): (u16, u16)) -> Tmux {
        let tmux = Tmux { folder: tempfile::tempdir().expect("a folder") };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        tmux.order(&["-f", "/dev/null", "-u", "new-session", "-d", "-x", &columns, "-y", &rows, line]);
        tmux
    }

    fn order(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.folder.path().join("socket"))
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .output()
            .expect("tmux runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What somebody in front of it sees.
    pub fn screen(&self) -> String {
        self.order(&["capture-pane", "-p"])
    }

    /// Keys by their names, such as `a`, `Enter` or `C-c`.
    pub fn press(&self, keys: &[&str]) {
        for key in keys {
            self.order(&["send-keys", key]);
        }
    }

    pub fn wait(&self, text: &str) {
        let mut seen = String::new();
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            seen = self.screen();
            if seen.contains(text) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("never seen: {text:?}\n{seen}");
    }

    pub fn wait_gone(&self, text: &str) {
        wait_until(&format!("{text:?} is gone"), || !self.screen().contains(text));
    }

    /// The file that gets all that is sent to the terminal from now on.
    pub fn record(&self) -> PathBuf {
        let file = self.folder.path().join("record");
        std::fs::write(&file, "").expect("a file");
        self.order(&["pipe-pane", &format!("cat >> '{}'", file.display())]);
        file
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let socket = self.folder.path().join("socket");
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

#[allow(dead_code, reason = "not every test uses all of it")]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
