//! Trying whether messages arrive.

use kiln_wire::notify::NotifyReport;

use crate::deployment::Deployment;
use crate::error::Result;

impl Deployment<'_> {
    /// The control node sends one to everybody.
    pub async fn test_notify(&self) -> Result<Vec<NotifyReport>> {
        self.control(&self.observe().await?)?.ask(&["notify-test"], b"").await
    }
}
