//! `kiln top` in a real terminal, with a cluster that is not there.

#[path = "../../../kiln-web/tests/lab/fake.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod fake;
#[path = "../../../kiln-web/tests/lab/port.rs"]
mod port;
#[path = "../lab/tmux.rs"]
mod tmux;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fake::Fake;
use kiln_web::auth::KeyKind;
use kiln_web::{Cluster as _, EventQuery};
use kiln_wire::dashboard::Role;
use tmux::Tmux;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// kilnd's window on a cluster, and `kiln top` in front of it.
struct Lab {
    fake: Arc<Fake>,
    port: u16,
    stop: CancellationToken,
    runtime: Runtime,
    tmux: Tmux,
    _folder: tempfile::TempDir,
}

impl Lab {
    fn new(nodes: usize, role: Role, size: (u16, u16)) -> Lab {
        let fake = Arc::new(Fake::lively(nodes));
        let port = port::free();
        let folder = tempfile::tempdir().expect("a folder");
        let token: PathBuf = folder.path().join("token");
        std::fs::write(&token, fake.admit(KeyKind::Token, "olga", role, Duration::from_secs(600)))
            .expect("a file");
        let line = format!(
            "'{}' top --address http://127.0.0.1:{port} --token-file '{}'; echo \"ended: $?\"; cat",
            env!("CARGO_BIN_EXE_kiln"),
            token.display()
        );
        let runtime = Runtime::new().expect("a runtime");
        let stop = serve(&runtime, &fake, port);
        let tmux = Tmux::start(&line, size);
        let lab = Lab { fake, port, stop, runtime, tmux, _folder: folder };
        lab.tmux.wait(&format!("demo  {nodes} nodes"));
        lab
    }
}

fn serve(runtime: &Runtime, fake: &Arc<Fake>, port: u16) -> CancellationToken {
    let stop = CancellationToken::new();
    runtime.spawn(kiln_web::serve(fake.clone(), port, stop.clone()));
    port::wait(port);
    stop
}

#[test]
fn it_shows_the_cluster_and_obeys_an_operator() {
    let lab = Lab::new(200, Role::Operator, (110, 32));
    let tmux = &lab.tmux;
    for text in ["standard  180 nodes", "Why jobs wait", "Findings, worst first", "Rollout 7"] {
        tmux.wait(text);
    }
    tmux.press(&["2"]);
    tmux.wait("node-0000");
    tmux.press(&["/", "f", "a", "n", "Enter"]);
    tmux.wait("only with \"fan\"");
    assert!(!tmux.screen().contains("node-0000"), "{}", tmux.screen());
    tmux.press(&["Enter"]);
    tmux.wait("Its life, newest first");
    tmux.press(&["Escape", "3", "j"]);
    tmux.wait("have a higher priority");
    tmux.press(&["4", "p"]);
    tmux.wait("Pause rollout 7?");
    tmux.press(&["n"]);
    tmux.wait("nothing was changed");
    assert_ne!(lab.fake.rollout(7).expect("a rollout").rollout.state, "paused");
    for (key, state) in [("p", "paused"), ("r", "running"), ("a", "aborting")] {
        tmux.press(&[key]);
        tmux.wait("Are you sure?");
        tmux.press(&["y"]);
        tmux.wait(&format!("rollout 7: {}", lab.words(state)));
    }
    let events = lab.fake.events(&EventQuery { most: 10, ..EventQuery::default() }).expect("events");
    let told = |outcome: &str| events.iter().any(|e| e.why == "asked by olga" && e.outcome == outcome);
    assert!(["paused", "resumed", "aborted"].into_iter().all(told), "{events:?}");
    tmux.press(&["5"]);
    tmux.wait("asked by olga");
    // The terminal is as it was.
    tmux.press(&["q"]);
    tmux.wait("ended: 0");
    assert!(!tmux.screen().contains("Overview"), "{}", tmux.screen());
}

impl Lab {
    /// How a state is told, once it is there.
    fn words(&self, state: &str) -> String {
        loop {
            let rollout = self.fake.rollout(7).expect("a rollout").rollout;
            if rollout.state == state {
                return rollout.message;
            }
            assert!(rollout.is_open, "{rollout:?}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_viewer_changes_nothing_and_a_lost_connection_comes_back() {
    let mut lab = Lab::new(20, Role::Viewer, (80, 24));
    lab.tmux.press(&["4", "a"]);
    lab.tmux.wait("this takes the role operator");
    lab.stop.cancel();
    lab.tmux.wait("Nothing new since");
    lab.stop = serve(&lab.runtime, &lab.fake, lab.port);
    lab.tmux.wait_gone("Nothing new since");
    lab.tmux.press(&["C-c"]);
    lab.tmux.wait("ended: 0");
}

/// What is sent to the terminal for an update is much less than a screen.
#[test]
fn a_slow_line_is_enough() {
    let lab = Lab::new(1000, Role::Viewer, (120, 40));
    lab.tmux.wait("node-0019");
    let record = lab.tmux.record();
    let from = lab.fake.looks();
    tmux::wait_until("two updates", || lab.fake.looks() >= from + 3);
    let sent = std::fs::metadata(&record).expect("a record").len();
    println!("two updates of 1000 nodes: {sent} bytes");
    assert!(sent > 0 && sent < 120 * 40, "{sent} bytes for two updates");
}

#[test]
fn without_a_terminal_or_a_safe_address_it_says_so() {
    let kiln = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(arguments)
            .output()
            .expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, words) = kiln(&["top"]);
    assert!(code == Some(2) && words.contains("draws on a terminal"), "{words}");
    let tmux = Tmux::start(
        &format!(
            "'{}' top --address http://control.example.org:6830 --token-file /dev/null; echo \"ended: $?\"; cat",
            env!("CARGO_BIN_EXE_kiln")
        ),
        (110, 10),
    );
    tmux.wait("ended: 2");
    assert!(tmux.screen().contains("is not an address that a token may be sent to"), "{}", tmux.screen());
}
