//! Settings of the operating system of every node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemSettings {
    pub locale: String,
    /// Certificate authorities that nodes trust besides their system's own.
    pub certificates: Vec<Certificate>,
    /// Empty: `/etc/resolv.conf` is not Kiln's.
    pub dns: Vec<IpAddr>,
    /// Domains that names without a dot are looked up in.
    pub search: Vec<String>,
    pub proxy: Option<Proxy>,
    /// Kernel parameters, by name.
    pub sysctl: BTreeMap<String, String>,
    /// In MiB: how much of a node's disk its journal may use.
    pub journal_mib: u64,
    /// Where nodes send their logs, too.
    pub syslog: Option<Syslog>,
}

/// A certificate of an authority of the site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// As it is called on the node, without an ending.
    pub name: String,
    /// PEM.
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proxy {
    pub url: String,
    /// Hosts and domains that are reached without it.
    pub except: Vec<String>,
}

/// A syslog server, reached over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Syslog {
    pub host: String,
    pub port: u16,
}
