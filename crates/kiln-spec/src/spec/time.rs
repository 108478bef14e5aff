//! Where nodes get the time from, and how they show it.

use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TimeSettings {
    /// Empty: those of the image.
    pub servers: Vec<String>,
    /// `None`: that of the image.
    pub zone: Option<String>,
}
