//! Runs the sessions that README.md and `docs/` show, and compares what is printed with what the page says.
//!
//! How a page is read, in order:
//!
//! - A block marked `console` is a session. A line `$ COMMAND` runs in a directory with the cluster file, with `kiln` in
//!   `PATH`. The lines below it are what it prints. A line `...` stands for any lines.
//! - A line `$ ssh OPTIONS USER@ADDRESS` begins a login. Lines `USER@NODE:~$ COMMAND` run with these options, at the
//!   node's own address, until the session ends.
//! - A block marked `toml` behind a line that ends with [`EDIT`] changes the cluster file: each of its keys is set in
//!   its table, which is added if the file has none.
//! - A session that begins with `kiln destroy` runs when all pages are through.
//!
//! What differs from run to run is masked on both sides: `mask.rs`. A command that only looks is repeated for a while
//! until it shows what the page says. The lines of `kiln exec` come in any order.

mod mask;
mod page;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::instance;
use crate::lab::{Lab, USER, cloud_root, read};
use page::{Piece, Prompt, Step};

/// The end of a line before a block that changes the cluster file.
const EDIT: &str = "`cluster.toml`:";

/// Commands that change nothing.
const LOOKS: &[&str] = &["sacct", "sinfo", "kiln status", "kiln doctor", "kiln ssh control sinfo"];

/// README from an empty directory on, to a cluster with all that it shows.
pub fn readme(lab: &mut Lab) {
    // A run that was cut off may have left the cluster, whose name is README's.
    lab.edit("name = \"e2e\"", "name = \"demo\"");
    lab.clear();
    std::fs::remove_file(lab.path("cluster.toml")).expect("the file of the lab");
    let _ = std::fs::remove_dir_all(lab.path(".kiln"));
    run(lab, "README.md", |step| !step.is_destroy());
}

pub fn operations(lab: &mut Lab) {
    run(lab, "docs/operations.md", |step| !step.is_destroy());
}

pub fn rebuild(lab: &mut Lab) {
    run(lab, "docs/rebuild.md", |step| !step.is_destroy());
}

/// The end of README.
pub fn destroy(lab: &mut Lab) {
    run(lab, "README.md", Step::is_destroy);
}

/// All differences of a page are shown, not only the first.
fn run(lab: &Lab, page: &str, wanted: impl Fn(&Step) -> bool) {
    let text = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page));
    let mut login = None;
    let mut different = 0;
    for piece in page::pieces(&text) {
        match piece {
            Piece::Edit(toml) => {
                // The session that takes all down needs no file but the last.
                if !wanted(&Step::nothing()) {
                    continue;
                }
                let file = lab.path("cluster.toml");
                let key = read(&lab.path("user_key.pub"));
                let toml = toml.replace("ssh-ed25519 AAAA... demo", key.trim());
                std::fs::write(&file, page::set(&read(&file), &toml)).expect("the cluster file");
            }
            Piece::Session(steps) => {
                for step in steps.iter().filter(|step| wanted(step)) {
                    match (&step.prompt, step.command.strip_prefix("ssh ")) {
                        (Prompt::Host, Some(options)) => login = Some(options.to_owned()),
                        _ => different += usize::from(!is_as_shown(lab, page, step, login.as_deref())),
                    }
                }
            }
        }
    }
    assert_eq!(different, 0, "{page} shows something else than what was printed");
}

fn is_as_shown(lab: &Lab, page: &str, step: &Step, login: Option<&str>) -> bool {
    let start = Instant::now();
    let looks = LOOKS.iter().any(|look| step.command.starts_with(look));
    loop {
        let printed = printed(lab, step, login);
        if mask::matches(&step.output, &printed, step.command.starts_with("kiln exec")) {
            println!("{page}:{}: {} ({:.1} s)", step.line, step.command, start.elapsed().as_secs_f64());
            return true;
        }
        if !looks || start.elapsed() > Duration::from_secs(180) {
            println!(
                "{page}:{}: {}\n--- the page says\n{}\n--- printed\n{printed}---",
                step.line, step.command, step.output
            );
            return false;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// What a command prints, to both of its outputs.
fn printed(lab: &Lab, step: &Step, login: Option<&str>) -> String {
    let command = match &step.prompt {
        Prompt::Host => step.command.clone(),
        Prompt::Login { node } => {
            let address = instance::address_of(node).expect("the node is up");
            let options =
                login.and_then(|options| options.rsplit_once(' ')).map_or("", |(options, _)| options);
            let quoted = step.command.replace('\'', r"'\''");
            format!(
                "ssh -T -i user_key -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes {options} {USER}@{address} '{quoted}'"
            )
        }
    };
    let kiln = Path::new(env!("CARGO_BIN_EXE_kiln")).parent().expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(lab.path(""))
        .env("PATH", format!("{}:{path}", kiln.display()))
        .env("KILN_LOCAL_ROOT", cloud_root())
        .env_remove("KILN_FILE")
        .stdin(Stdio::null())
        .output()
        .expect("bash runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
