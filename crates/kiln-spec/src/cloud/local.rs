//! `kind = "local"`: instances on this machine.

use serde::Serialize;

use super::{CloudFacts, CloudHints, CloudTable};
use crate::diagnostic::Findings;
use crate::written::table::table;

pub(super) const FACTS: CloudFacts = CloudFacts {
    kind: "local",
    also: &[],
    shares_volumes: true,
    has_file_storage: false,
    delegates_cgroups: false,
    has_kernels: false,
    signs_as_instance: false,
    makes_source_images: true,
    smallest_volume_gib: 1,
    hints: CloudHints { flavors: None, networks: None, images: None, source: None },
};

table! {
    /// The local cloud has no keys of its own.
    LocalTable {}
}

/// The cluster's part of the local cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LocalSpec {
    /// `None`: the local cloud picks a free one.
    pub subnet: Option<ipnet::Ipv4Net>,
}

impl LocalSpec {
    pub(super) fn validate(
        _cloud: &CloudTable,
        _own: &LocalTable,
        subnet: Option<ipnet::Ipv4Net>,
        _findings: &mut Findings<'_>,
    ) -> LocalSpec {
        LocalSpec { subnet }
    }

    pub(super) fn subnet(&self) -> Option<ipnet::Ipv4Net> {
        self.subnet
    }

    #[allow(clippy::unused_self, reason = "other clouds have them")]
    pub(super) fn existing_network(&self) -> Option<&str> {
        None
    }

    #[allow(clippy::unused_self, reason = "other clouds have them")]
    pub(super) fn ssh_from(&self) -> &[ipnet::Ipv4Net] {
        &[]
    }
}
