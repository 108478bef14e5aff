//! Somebody in front of a terminal.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::lab::Lab;

/// How a question ends, and the prompt of root's shell.
const ASKS: [&str; 3] = ["a to abort: ", "to continue: ", ":~# "];

/// Runs `kiln` on a terminal, where somebody types these, each when there is a question or a shell.
pub fn at_terminal(lab: &Lab, arguments: &[&str], typed: &[&str]) -> String {
    let kiln = lab.kiln_command(arguments);
    let words = std::iter::once(kiln.get_program()).chain(kiln.get_args());
    let line: Vec<String> = words.map(|word| kiln_ssh::quote(&word.to_string_lossy())).collect();
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &line.join(" "), "/dev/null"]);
    command.envs(kiln.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = kiln.get_current_dir() {
        command.current_dir(dir);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script runs");
    let mut input = child.stdin.take().expect("standard input");
    let mut output = child.stdout.take().expect("standard output");
    let (mut said, mut answered) = (String::new(), 0);
    let mut typed = typed.iter();
    let mut part = [0_u8; 4096];
    while let Ok(length @ 1..) = output.read(&mut part) {
        said.push_str(&String::from_utf8_lossy(&part[..length]));
        let new = &said[answered..];
        if ASKS.iter().any(|sign| new.contains(sign))
            && let Some(answer) = typed.next()
        {
            answered = said.len();
            input.write_all(answer.as_bytes()).expect("typed");
        }
    }
    child.wait().expect("it ends");
    said
}
