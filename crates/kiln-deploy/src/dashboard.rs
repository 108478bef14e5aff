//! The way to the dashboard, which kilnd serves on control's loopback address alone.

use std::time::Duration;

use kiln_ssh::Forward;
use kiln_wire::dashboard::{Admission, Role, TokenReport};

use crate::control::Control;
use crate::deployment::Deployment;
use crate::error::Result;

pub struct Dashboard(Control);

impl Deployment<'_> {
    pub async fn dashboard(&self) -> Result<Dashboard> {
        Ok(Dashboard(self.control(&self.observe().await?)?))
    }
}

impl Dashboard {
    /// A word that lets this person in, once.
    pub async fn login(&self, name: &str, role: Role) -> Result<Admission> {
        self.0.ask(&["login", name, role.word()], b"").await
    }

    /// From a port of this host's loopback address, any free one if none is named.
    pub async fn open(&self, port: Option<u16>, to: u16) -> Result<Forward> {
        self.0.forward(port, to).await
    }

    pub async fn add_token(&self, name: &str, role: Role, life: Duration) -> Result<Admission> {
        self.0.ask(&["add-token", name, role.word(), &life.as_secs().to_string()], b"").await
    }

    pub async fn tokens(&self) -> Result<Vec<TokenReport>> {
        self.0.ask(&["tokens"], b"").await
    }

    /// Returns those that are left.
    pub async fn remove_token(&self, name: &str) -> Result<Vec<TokenReport>> {
        self.0.ask(&["remove-token", name], b"").await
    }
}
