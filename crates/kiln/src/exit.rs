//! The exit codes, which scripts rely on.

use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Ok = 0,
    Failed = 1,
    /// Wrong usage, or an invalid input file.
    Usage = 2,
    /// `plan --detailed-exitcode`: there is something to do. `up`, `apply`: nodes that are to go wait for their jobs. `stop`: the
    /// cluster waits for them.
    Changes = 3,
    Interrupted = 130,
}

impl Exit {
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
