//! Running other programs: an argument vector, never a shell; a fixed environment; bounded time and output.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const KEEP_BYTES: usize = 256 * 1024;
/// How long a program that has ended is expected to have said all.
const QUIET: Duration = Duration::from_millis(300);
/// For a daemon of its own that says ever more.
const FINISH_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("nothing to run")]
    Empty,
    #[error("cannot run `{program}`")]
    Start { program: String, source: std::io::Error },
    #[error("`{program}` did not end within {seconds} seconds")]
    Timeout { program: String, seconds: u64 },
    #[error("`{program}` {status}{said}")]
    Failed { program: String, status: String, said: String },
}

#[derive(Debug)]
pub(crate) struct Output {
    program: String,
    pub code: Option<i32>,
    pub status: String,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// For programs that get no secrets: their last words become part of the error.
    pub fn checked(self) -> Result<Output, ProcessError> {
        if self.success() {
            return Ok(self);
        }
        let said = tail(&self.stderr, 5);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        Err(ProcessError::Failed { program: self.program, status: self.status, said })
    }
}

/// The last lines that are not blank.
pub(crate) fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Runs a program that succeeds or explains itself, with no input.
pub(crate) fn call(argv: &[&str]) -> Result<Output, ProcessError> {
    run(argv, None, Duration::from_secs(120))?.checked()
}

/// The environment is the same at boot and over SSH, so that a bundle behaves the same.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs([("PATH", PATH), ("HOME", "/root"), ("LC_ALL", "C.UTF-8")]).current_dir("/");
    command
}

/// With the environment of [`command`].
pub(crate) fn run<T: AsRef<str>>(
    argv: &[T],
    stdin: Option<&str>,
    limit: Duration,
) -> Result<Output, ProcessError> {
    let program = argv.first().ok_or(ProcessError::Empty)?.as_ref().to_owned();
    let mut child = command(&program)
        .args(argv[1..].iter().map(AsRef::as_ref))
        .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| ProcessError::Start { program: program.clone(), source })?;

    let stdout = child.stdout.take().map(Collector::start);
    let stderr = child.stderr.take().map(Collector::start);
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), stdin) {
        let text = text.to_owned();
        // A program may end without reading all of it; its exit status tells whether that was well.
        thread::spawn(move || pipe.write_all(text.as_bytes()));
    }

    let Some(status) = wait(&mut child, limit) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(ProcessError::Timeout { program, seconds: limit.as_secs() });
    };
    Ok(Output {
        program,
        code: status.code(),
        status: status
            .code()
            .map_or_else(|| "was killed".to_owned(), |code| format!("ended with status {code}")),
        stdout: stdout.map(Collector::finish).unwrap_or_default(),
        stderr: stderr.map(Collector::finish).unwrap_or_default(),
    })
}

fn wait(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Reads a pipe to its end, keeping the last part.
struct Collector {
    kept: Arc<Mutex<Vec<u8>>>,
    /// The pipe, to see what has not been read.
    pipe: Option<OwnedFd>,
    thread: JoinHandle<()>,
}

impl Collector {
    fn start(mut pipe: impl Read + AsFd + Send + 'static) -> Self {
        let own = pipe.as_fd().try_clone_to_owned().ok();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&kept);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..count]);
                let excess = kept.len().saturating_sub(KEEP_BYTES);
                kept.drain(..excess);
            }
        });
        Collector { kept, pipe: own, thread }
    }

    /// A daemon the program left behind may hold the pipe open for ever, so the wait is short. It begins again with what
    /// is still to be read: on a busy machine the thread may be late.
    fn finish(self) -> String {
        let begun = Instant::now();
        let mut quiet = begun;
        while !self.thread.is_finished() && quiet.elapsed() < QUIET && begun.elapsed() < FINISH_LIMIT {
            let unread = self.pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
            if unread.is_some_and(|bytes| bytes > 0) {
                quiet = Instant::now();
            }
            thread::sleep(Duration::from_millis(1));
        }
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_output_and_status() {
        let output = run(&["cat"], Some("hello"), Duration::from_secs(60)).unwrap();
        assert!(output.success());
        assert_eq!(output.stdout, "hello");
        let error = run(&["ls", "/no/such"], None, Duration::from_secs(60)).unwrap().checked().unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let error = run(&["sleep", "60"], None, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, ProcessError::Timeout { .. }));
    }

    #[test]
    fn a_daemon_left_behind_does_not_hold_us_up() {
        let start = Instant::now();
        run(&["sh", "-c", "sleep 60 & echo up"], None, Duration::from_secs(60)).unwrap();
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn tails() {
        assert_eq!(tail("a\n\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("", 2), "");
    }
}
