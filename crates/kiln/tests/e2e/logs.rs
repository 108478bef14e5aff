//! Journals of many nodes.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::lab::Lab;

/// They are merged by time, chosen by node, unit and time, and followed.
pub fn of_many_nodes(lab: &mut Lab) {
    let say = |node: &str, words: &str| {
        lab.on(node, &["systemd-cat", "--identifier=e2e-mark", "echo", words]);
    };
    for (at, node) in ["standard-1", "login-0", "standard-0", "standard-1"].into_iter().enumerate() {
        say(node, &format!("mark {at}"));
        // It has the time at which journald takes it.
        lab.on(node, &["journalctl", "--sync"]);
    }
    let marks = |arguments: &[&str]| -> Vec<String> {
        let said = lab.kiln(&[&["logs"], arguments].concat());
        let marks = said.lines().filter(|line| line.contains("e2e-mark["));
        marks
            .map(|line| format!("{} {}", line.split(':').next().unwrap_or_default(), &line[line.len() - 6..]))
            .collect()
    };
    let all = ["standard-1 mark 0", "login-0 mark 1", "standard-0 mark 2", "standard-1 mark 3"];
    assert_eq!(marks(&["--since", "5m"]), all);
    assert_eq!(marks(&["standard-[0-1]", "--since", "5m"]), [all[0], all[2], all[3]]);
    assert_eq!(marks(&["--since", "5m", "--unit", "ssh"]), [""; 0]);

    let mut follow = lab.kiln_command(&["logs", "login-0", "standard-0", "--follow", "--lines", "0"]);
    let mut follow = follow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("kiln runs");
    let lines = BufReader::new(follow.stdout.take().expect("its output")).lines();
    let pid = follow.id().to_string();
    let interrupt = || std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let found = std::thread::scope(|scope| {
        // Written again and again, because nobody tells when both nodes are read.
        scope.spawn(move || {
            for _ in 0..300 {
                for node in ["login-0", "standard-0"] {
                    say(node, "followed");
                }
                if stopped.recv_timeout(std::time::Duration::from_millis(200)).is_ok() {
                    return;
                }
            }
            interrupt();
        });
        let mut seen: Vec<&str> = Vec::new();
        for line in lines.map_while(Result::ok).filter(|line| line.ends_with("]: followed")) {
            let node = if line.starts_with("login-0: ") { "login-0" } else { "standard-0" };
            if !seen.contains(&node) {
                seen.push(node);
            }
            if seen.len() == 2 {
                break;
            }
        }
        let _ = stop.send(());
        seen.len()
    });
    assert_eq!(found, 2, "both nodes are followed");
    interrupt();
    assert!(follow.wait().expect("it ends").success(), "Ctrl-C is its usual end");
}
