//! What a node is for, and what a site adds to all nodes of a role.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Control,
    Login,
    Compute,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Control, Role::Login, Role::Compute];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Control => "control",
            Role::Login => "login",
            Role::Compute => "compute",
        }
    }

    pub fn of(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// What a site adds to the nodes of a role.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Roles {
    pub control: Extras,
    pub login: Extras,
    pub compute: Extras,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Extras {
    /// Packages, installed at image build.
    pub packages: Vec<String>,
    pub files: Vec<ExtraFile>,
    /// Run by `kiln node apply`, after everything else, whenever the list or a file of it changed.
    pub commands: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExtraFile {
    pub path: String,
    pub content: String,
    pub mode: u32,
    pub owner: String,
    pub group: String,
}

impl Roles {
    pub fn of(&self, role: Role) -> &Extras {
        match role {
            Role::Control => &self.control,
            Role::Login => &self.login,
            Role::Compute => &self.compute,
        }
    }
}
