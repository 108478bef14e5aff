//! How a job ended, in words: what Slurm's state and its exit code mean, and what its owner can do.

use crate::history::{ExitCode, Record};

/// One or two sentences; `None`: it is not over.
pub fn how(record: &Record) -> Option<String> {
    let exit = record.exit.unwrap_or_default();
    let words = match record.state.as_str() {
        "PENDING" | "RUNNING" | "CONFIGURING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "SIGNALING"
        | "STAGE_OUT" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" | "RESIZING" | "" => {
            return None;
        }
        "COMPLETED" => "It ended by itself and reported success.".into(),
        "FAILED" => failed(exit),
        "TIMEOUT" => "Slurm ended it, because its time limit was reached. A longer --time lets it run on, if the partition \
                      allows it."
            .into(),
        "OUT_OF_MEMORY" => "A process of it needed more memory than the job had asked for, and was ended. A larger --mem \
                            lets it have more."
            .into(),
        "CANCELLED" => cancelled(record),
        "NODE_FAIL" => "A node of it failed while it ran. That is not the job's fault: it can be submitted again.".into(),
        "BOOT_FAIL" => "A node that it was to run on did not boot. It can be submitted again.".into(),
        "PREEMPTED" => "Slurm took its nodes for a job that has precedence.".into(),
        "DEADLINE" => "It could not have ended before the deadline that it was submitted with.".into(),
        "REVOKED" => "Another cluster of the federation runs it.".into(),
        other => format!("Slurm calls its end {other}."),
    };
    Some(words)
}

fn cancelled(record: &Record) -> String {
    let by = match record.cancelled_by.as_deref() {
        Some("0") => " by root".to_string(),
        Some(user) => format!(" by the user with the number {user}"),
        None => String::new(),
    };
    match record.started {
        Some(_) => format!("It was cancelled{by} while it ran."),
        None => format!("It was cancelled{by} before it began."),
    }
}

fn failed(exit: ExitCode) -> String {
    let ExitCode { code, signal } = exit;
    match (code, signal) {
        (0, 0) => {
            "Slurm calls it failed, though its script reported success: one of its steps may have failed."
                .into()
        }
        (0, signal) => format!("It was ended by signal {}.", signal_words(signal)),
        (126, _) => "Its exit code is 126: a command of its script is not executable.".into(),
        (127, _) => {
            "Its exit code is 127: a command of its script was not found. A module may not have been loaded."
                .into()
        }
        // The shell adds 128 to the signal that ended a command.
        (code @ 129..=192, _) => {
            format!(
                "Its exit code is {code}: a command of its script was ended by signal {}.",
                signal_words(code - 128)
            )
        }
        (code, _) => format!("Its script reported failure with exit code {code}. What it printed says why."),
    }
}

fn signal_words(signal: u16) -> String {
    let words = match signal {
        1 => "SIGHUP, which says that the terminal is gone",
        2 => "SIGINT, which is what Ctrl-C sends",
        4 => "SIGILL: the program has instructions that this processor does not know",
        6 => "SIGABRT: the program gave up by itself",
        7 => "SIGBUS: it used memory that is not there",
        8 => "SIGFPE: a calculation that has no result",
        9 => "SIGKILL, which nothing can refuse; a lack of memory is a common cause",
        11 => "SIGSEGV: it used memory that is not its own",
        13 => "SIGPIPE: nobody read what it wrote",
        15 => "SIGTERM, which asks a process to end",
        24 => "SIGXCPU: a limit on processor time",
        25 => "SIGXFSZ: a limit on the size of files",
        _ => return signal.to_string(),
    };
    format!("{signal}, {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(state: &str, code: u16, signal: u16) -> String {
        let record =
            Record { state: state.into(), exit: Some(ExitCode { code, signal }), ..Record::default() };
        how(&record).unwrap_or_default()
    }

    #[test]
    fn every_end_has_its_words() {
        let rows = [
            ("COMPLETED", 0, 0, "reported success"),
            ("FAILED", 1, 0, "exit code 1."),
            ("FAILED", 127, 0, "was not found"),
            ("FAILED", 137, 0, "SIGKILL"),
            ("FAILED", 0, 11, "signal 11, SIGSEGV"),
            ("FAILED", 0, 40, "signal 40."),
            ("FAILED", 255, 0, "exit code 255"),
            ("TIMEOUT", 0, 15, "time limit"),
            ("OUT_OF_MEMORY", 0, 125, "--mem"),
            ("CANCELLED", 0, 15, "before it began"),
            ("SOMETHING_NEW", 0, 0, "SOMETHING_NEW"),
            ("RUNNING", 0, 0, ""),
        ];
        for (state, code, signal, part) in rows {
            let words = said(state, code, signal);
            assert!(words.contains(part) && (!part.is_empty() || words.is_empty()), "{state}: {words}");
        }
    }

    #[test]
    fn who_cancelled_it_is_told() {
        let record = Record {
            state: "CANCELLED".into(),
            cancelled_by: Some("2001".into()),
            started: Some(jiff::Timestamp::UNIX_EPOCH),
            ..Record::default()
        };
        assert_eq!(
            how(&record).as_deref(),
            Some("It was cancelled by the user with the number 2001 while it ran.")
        );
    }
}
