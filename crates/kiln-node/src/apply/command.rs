//! Commands: run when something they wait for changed, or when their check fails.

use std::fmt::Write;
use std::time::{Duration, Instant};

use kiln_wire::bundle::Command;

use super::ApplyError;
use super::session::Session;
use crate::process::{self, Output, ProcessError};
use crate::verdict::Verdict;

/// Between two attempts: as long as the last one took, within these. What is waited for needs the processor, too.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// No command of a bundle takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(900);
/// Shorter words of the input are too common to hide.
const SECRET_WORD: usize = 8;

pub(super) fn apply(session: &mut Session, command: &Command, id: &str) -> Result<Verdict, ApplyError> {
    let Some(reason) = reason(session, command, id) else {
        return Ok(Verdict::unchanged());
    };
    if session.dry_run {
        return Ok(Verdict::changed(format!("would run: {reason}")));
    }
    // Whatever it does, systemd's states may differ afterwards.
    session.units.forget();
    let deadline = Instant::now() + Duration::from_secs(command.retry_seconds);
    let mut attempts = 1;
    loop {
        let begun = Instant::now();
        match process::run(&command.argv, command.stdin.as_deref(), LIMIT) {
            Ok(output) if output.success() => {
                return Ok(Verdict::changed(format!("ran: {reason}")));
            }
            // A program that is not there will not come by waiting.
            Err(error @ (ProcessError::Start { .. } | ProcessError::Empty)) => {
                return Err(error.into());
            }
            Err(error) if Instant::now() >= deadline => return Err(error.into()),
            Ok(output) if Instant::now() >= deadline => {
                return Err(failure(command, &output, attempts));
            }
            _ => {}
        }
        attempts += 1;
        std::thread::sleep(begun.elapsed().clamp(PAUSES.0, PAUSES.1));
    }
}

/// Why the command has to run; `None` when it has not.
fn reason(session: &Session, command: &Command, id: &str) -> Option<String> {
    let owed = session.owed(id);
    if !owed.is_empty() {
        let causes: Vec<String> = owed.into_iter().collect();
        return Some(format!("{} changed", causes.join(", ")));
    }
    match &command.unless {
        Some(check) => {
            let done = process::run(check, None, LIMIT).is_ok_and(|output| output.success());
            (!done).then(|| "its check failed".to_owned())
        }
        None => command.when_changed.is_empty().then(|| "every time".to_owned()),
    }
}

fn failure(command: &Command, output: &Output, attempts: u32) -> ApplyError {
    let mut text = output.status.clone();
    if attempts > 1 {
        let _ = write!(text, " after {attempts} attempts");
    }
    let words = match &command.stdin {
        // What a program prints when it was fed secrets may be those secrets.
        Some(stdin) => hide(&process::tail(&output.stderr, 20), stdin),
        None => process::tail(&format!("{}\n{}", output.stdout, output.stderr), 20),
    };
    if !words.is_empty() {
        text.push('\n');
        text.push_str(&words);
    }
    ApplyError::Refused(text)
}

/// Hides every line of the input, and every longer word of it: programs like to quote where they stopped.
fn hide(text: &str, stdin: &str) -> String {
    let lines = stdin.lines().map(str::trim).filter(|line| line.len() > 2);
    let words = stdin
        .split(|c: char| c.is_whitespace() || "'\"`;,()=:<>".contains(c))
        .filter(|word| word.len() >= SECRET_WORD);
    let mut secrets: Vec<&str> = lines.chain(words).collect();
    // Longest first, so that no part of a line survives because a word of it went before.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[hidden]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_words_of_the_input_are_hidden() {
        let stdin = "CREATE USER slurm\nIDENTIFIED BY 'hunter2hunter2';\nshort\n";
        let said = "near 'BY 'hunter2hunter2''\nIDENTIFIED BY 'hunter2hunter2';\nbad thing: short";
        let hidden = hide(said, stdin);
        assert!(!hidden.contains("hunter2") && !hidden.contains("short"), "{hidden}");
        assert!(hidden.contains("bad thing"));
    }
}
