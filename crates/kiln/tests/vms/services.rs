//! The services of the cloud: ended, held, and started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::services;

fn root() -> PathBuf {
    services().parent().expect("a directory").to_path_buf()
}

/// A signal to a service and to all its children.
fn signal(service: &str, signal: &str) {
    let note = fs::read_to_string(root().join(format!("run/{service}.pid"))).expect("the service's process");
    let id = note.split(' ').next().expect("a process");
    send(signal, &format!("-{id}"));
}

pub fn send(signal: &str, process: &str) {
    let status = Command::new("kill").args([signal, "--", process]).status();
    assert!(status.expect("kill runs").success(), "kill {signal} -- {process}");
}

pub fn kill(service: &str) {
    signal(service, "-KILL");
}

/// Of a network, without which nobody is given an address. The agent would start it again.
pub fn kill_dhcp(network: &str) {
    kill("neutron-dhcp");
    let note = root().join("data/neutron/dhcp").join(network).join("pid");
    send("-KILL", fs::read_to_string(note).expect("dnsmasq's process").trim());
}

/// Starts what does not run.
pub fn start() {
    let up = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/openstack-vms/up");
    let status = Command::new(up).env("OPENSTACK_ROOT", root()).status();
    assert!(status.expect("it runs").success(), "the services do not start");
}

/// A service that answers nobody, until this is dropped.
pub struct Held(&'static str);

pub fn hold(service: &'static str) -> Held {
    signal(service, "-STOP");
    Held(service)
}

impl Drop for Held {
    fn drop(&mut self) {
        signal(self.0, "-CONT");
    }
}

/// What libvirt says to a command.
pub fn virsh(arguments: &[&str]) -> String {
    let socket = root().join("run/libvirt/libvirt-sock");
    let output = Command::new("virsh")
        .args(["-q", "-c", &format!("qemu:///system?socket={}", socket.display())])
        .args(arguments)
        .output()
        .expect("virsh runs");
    assert!(output.status.success(), "virsh {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
