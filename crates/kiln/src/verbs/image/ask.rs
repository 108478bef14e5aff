//! What to do about a step of a build that has failed, asked on the terminal.

use std::io::{BufRead as _, IsTerminal as _};
use std::process::Command;

use kiln_image::{Ask, Choice, Question};
use kiln_ssh::Ssh;

use crate::context::Context;
use crate::harmless::harmless;

/// Whether there is somebody to ask.
pub fn is_possible(context: &Context) -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !context.printer.is_json()
}

pub fn on_the_terminal(ssh: Ssh) -> Ask {
    Ask::new(move |question| ask(&ssh, question))
}

fn ask(ssh: &Ssh, question: &Question) -> Choice {
    anstream::eprintln!("failed: {}", harmless(&question.failure));
    loop {
        anstream::eprint!("Type r to run the step again, s for a shell on the build instance, a to abort: ");
        let mut answer = String::new();
        match std::io::stdin().lock().read_line(&mut answer) {
            // Nobody is there any more.
            Ok(0) | Err(_) => return Choice::Abort,
            Ok(_) => {}
        }
        match answer.trim() {
            "r" => return Choice::Retry,
            "a" => return Choice::Abort,
            "s" => {
                if let Err(error) = Command::new("ssh").args(ssh.arguments(&question.host)).status() {
                    anstream::eprintln!("cannot start ssh: {error}");
                }
            }
            _ => {}
        }
    }
}
