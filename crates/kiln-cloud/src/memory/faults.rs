//! Calls that are to fail.

use crate::{Error, Result};

/// How a call fails.
#[derive(Debug, Clone)]
pub struct Fault {
    error: Error,
    /// How often yet; `None`: until it is taken back.
    left: Option<u32>,
}

impl Fault {
    pub fn always(error: Error) -> Fault {
        Fault { error, left: None }
    }

    pub fn times(count: u32, error: Error) -> Fault {
        Fault { error, left: Some(count) }
    }

    pub(super) fn meet(&mut self) -> Result<()> {
        match &mut self.left {
            Some(0) => Ok(()),
            Some(left) => {
                *left -= 1;
                Err(self.error.clone())
            }
            None => Err(self.error.clone()),
        }
    }
}
