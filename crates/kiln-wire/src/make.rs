//! Short ways to write resources, with the defaults that nearly all of them have.

use crate::bundle::{Command, Directory, File, Resource, Service};

pub fn file(path: impl Into<String>, content: impl Into<String>) -> File {
    File {
        path: path.into(),
        content: content.into(),
        mode: 0o644,
        owner: "root".into(),
        group: "root".into(),
        secret: false,
        base64: false,
        check: Vec::new(),
        needs: Vec::new(),
    }
}

impl File {
    #[must_use]
    pub fn owned_by(mut self, user: &str, mode: u32) -> Self {
        self.owner = user.into();
        self.group = user.into();
        self.mode = mode;
        self
    }

    #[must_use]
    pub fn needs(mut self, id: &str) -> Self {
        self.needs.push(id.into());
        self
    }

    #[must_use]
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

pub fn directory(path: &str, owner: &str, mode: u32) -> Resource {
    Resource::Directory(Directory { path: path.into(), mode, owner: owner.into(), group: owner.into() })
}

pub fn command(name: &str, argv: &[&str]) -> Command {
    Command {
        name: name.into(),
        argv: words(argv),
        stdin: None,
        unless: None,
        when_changed: Vec::new(),
        retry_seconds: 0,
        needs: Vec::new(),
    }
}

impl Command {
    #[must_use]
    pub fn unless(mut self, argv: &[&str]) -> Self {
        self.unless = Some(words(argv));
        self
    }

    #[must_use]
    pub fn when_changed(mut self, ids: &[&str]) -> Self {
        self.when_changed = words(ids);
        self
    }

    #[must_use]
    pub fn needs(mut self, id: &str) -> Self {
        self.needs.push(id.into());
        self
    }

    #[must_use]
    pub fn retry(mut self, seconds: u64) -> Self {
        self.retry_seconds = seconds;
        self
    }
}

/// Enabled and running.
pub fn service(unit: &str, restart_on: &[&str]) -> Service {
    Service {
        unit: unit.into(),
        enabled: true,
        running: true,
        restart_on: words(restart_on),
        reload_on: Vec::new(),
        needs: Vec::new(),
    }
}

impl Service {
    /// A unit without an `[Install]` section cannot be enabled; it only has to run.
    #[must_use]
    pub fn running_only(mut self) -> Self {
        self.enabled = false;
        self
    }

    #[must_use]
    pub fn needs(mut self, id: &str) -> Self {
        self.needs.push(id.into());
        self
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}
