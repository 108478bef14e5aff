//! The parts of a host that come before any configuration: SSH's keys, the host name, the machine id.

use std::collections::BTreeSet;
use std::path::Path;

use kiln_distro::Family;
use ssh_key::{LineEnding, PrivateKey};

use super::{BootError, say};
use crate::metadata::Metadata;
use crate::state::{self, process_owner};
use crate::systemd;
use crate::tree::{Tree, TreeError, permissions};
use crate::{explain, managed, process};

const AUTHORIZED_KEYS: &str = "/root/.ssh/authorized_keys";
const HOST_KEY: &str = "/etc/ssh/ssh_host_ed25519_key";

pub(super) fn is_live(root: &Path) -> bool {
    root == Path::new("/")
}

pub(super) fn prepare(tree: &Tree, root: &Path, metadata: &Metadata) -> Result<(), BootError> {
    let live = is_live(root);
    authorize(tree, &metadata.public_keys)?;
    if let Some(identity) = &metadata.identity {
        set_host_name(tree, live, &identity.node)?;
    }
    ensure_machine_id(tree, live)?;
    let given = metadata.identity.as_ref().and_then(|identity| identity.ssh_host_key.as_ref());
    let changed = match given {
        // A bundle brought a key of its own, maybe a newer one.
        Some(_) if state::applied(root).is_some() && tree.read(HOST_KEY)?.is_some() => false,
        Some(key) => install_host_key(tree, key.expose_secret())?,
        None if live => generate_host_keys(tree)?,
        None => false,
    };
    if changed && live {
        refresh_ssh();
    }
    Ok(())
}

/// With no keys given, those that are there stay: an empty answer must not lock the administrators out.
fn authorize(tree: &Tree, keys: &[String]) -> Result<(), TreeError> {
    if keys.is_empty() {
        return Ok(());
    }
    let entry = tree.make_entry("/root/.ssh")?;
    if entry.stat()?.is_none() {
        entry.make_directory(0o700, process_owner())?;
    }
    let before = tree.read(AUTHORIZED_KEYS)?;
    let text = String::from_utf8_lossy(before.as_deref().unwrap_or_default()).into_owned();
    let keys: Vec<&str> =
        keys.iter().flat_map(|key| key.lines()).filter(|line| !line.starts_with('#')).collect();
    write(tree, AUTHORIZED_KEYS, managed::replace(&text, &keys).as_bytes(), 0o600).map(|_| ())
}

fn set_host_name(tree: &Tree, live: bool, name: &str) -> Result<(), BootError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if name.is_empty() || name.len() > 63 || name.starts_with('-') || !name.bytes().all(allowed) {
        return Err(BootError::Host(format!("`{name}` cannot be a host name")));
    }
    write(tree, "/etc/hostname", format!("{name}\n").as_bytes(), 0o644)?;
    if live {
        rustix::system::sethostname(name.as_bytes())
            .map_err(|error| BootError::Host(format!("cannot set the host name: {error}")))?;
    }
    Ok(())
}

fn ensure_machine_id(tree: &Tree, live: bool) -> Result<(), BootError> {
    let id = tree.read("/etc/machine-id")?.unwrap_or_default();
    let id = String::from_utf8_lossy(&id);
    if live && (id.trim().is_empty() || id.trim() == "uninitialized") {
        process::call(&["systemd-machine-id-setup"]).map_err(|error| BootError::Host(explain(&error)))?;
    }
    Ok(())
}

/// Whether the key was not there yet.
fn install_host_key(tree: &Tree, key: &str) -> Result<bool, BootError> {
    let bad = |_| BootError::Host("the SSH host key of the metadata is not an OpenSSH private key".into());
    let key = PrivateKey::from_openssh(key.trim().as_bytes()).map_err(bad)?;
    let private = key.to_openssh(LineEnding::LF).map_err(bad)?;
    let mut public = key.public_key().to_openssh().map_err(bad)?;
    public.push('\n');
    let changed = write(tree, HOST_KEY, private.as_bytes(), 0o600)?;
    Ok(write(tree, &format!("{HOST_KEY}.pub"), public.as_bytes(), 0o644)? || changed)
}

fn generate_host_keys(tree: &Tree) -> Result<bool, BootError> {
    if tree.read(HOST_KEY)?.is_some() {
        return Ok(false);
    }
    match process::call(&["ssh-keygen", "-A"]) {
        Ok(_) => Ok(true),
        Err(process::ProcessError::Start { .. }) => {
            say("ssh-keygen is not installed, so no SSH host keys were generated");
            Ok(false)
        }
        Err(error) => Err(BootError::Host(explain(&error))),
    }
}

/// A server that started earlier has other keys, or failed because it had none.
fn refresh_ssh() {
    // The node does not know which system it is.
    let names: BTreeSet<&str> = Family::ALL.into_iter().map(|family| family.unit("sshd.service")).collect();
    let names: Vec<String> = names.into_iter().map(String::from).collect();
    let states = systemd::show(&names).unwrap_or_default();
    let Some((unit, state)) = states.into_iter().find(|(_, state)| state.exists()) else { return };
    let verb = match state.active.as_str() {
        "failed" | "activating" => "restart",
        _ => "try-restart",
    };
    let _ = process::call(&["systemctl", "--no-block", verb, &unit]);
}

/// Whether anything had to be written.
fn write(tree: &Tree, path: &str, content: &[u8], mode: u32) -> Result<bool, TreeError> {
    let entry = tree.make_entry(path)?;
    let same_mode = entry.stat()?.is_some_and(|stat| permissions(&stat) == mode);
    if same_mode && tree.read(path)?.as_deref() == Some(content) {
        return Ok(false);
    }
    entry.write(content, mode, process_owner())?;
    Ok(true)
}
