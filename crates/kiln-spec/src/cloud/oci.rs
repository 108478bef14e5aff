//! `kind = "oci"`: a compartment of Oracle Cloud.

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::networks::{check_subnet, ssh_from};
use super::{CloudFacts, CloudHints, CloudTable};
use crate::diagnostic::Findings;
use crate::validate::names;
use crate::written::table::table;
use crate::written::{List, Text};

pub(super) const FACTS: CloudFacts = CloudFacts {
    kind: "oci",
    also: &["oracle", "oracle-cloud", "oraclecloud"],
    shares_volumes: false,
    has_file_storage: true,
    delegates_cgroups: true,
    has_kernels: true,
    signs_as_instance: true,
    makes_source_images: false,
    smallest_volume_gib: 50,
    hints: CloudHints {
        flavors: Some(
            "set `flavor` for [control] and for each group: a shape, and for flexible ones OCPUs and GB of memory, e.g. \
             `VM.Standard.E5.Flex.4.64`; `oci compute shape list` shows them",
        ),
        networks: Some("`oci network subnet list` shows them; with `subnet` alone Kiln makes a network"),
        images: Some("`oci compute image list` shows them"),
        source: Some("`oci compute image list` shows them; `prebuilt = \"...\"` uses one as it is"),
    },
};

table! {
    /// A compartment of Oracle Cloud.
    OciTable {
        /// Oracle Cloud: the OCID of the compartment that the cluster is in.
        "compartment" => compartment: Text, required;
        /// Oracle Cloud: a profile of `~/.oci/config`.
        "profile" => profile: Text, otherwise "`OCI_CLI_PROFILE`, or `DEFAULT`";
        /// Oracle Cloud: the region.
        "region" => region: Text;
        /// Oracle Cloud: availability domain of nodes and volumes, by its name or its number: `1`, `AD-1`, `Uocm:PHX-AD-1`.
        "availability_domain" => availability_domain: Text, otherwise "the region's first for volumes and nodes that have some, any with room for others";
        /// Oracle Cloud: name or OCID of an existing subnet for the nodes.
        "network" => network: Text;
        /// Oracle Cloud: IPv4 networks from which SSH to login nodes is allowed.
        "ssh_from" => ssh_from: List<Text>, otherwise "everywhere";
    }
}

/// A compartment of Oracle Cloud, as the file describes it. The driver takes it as it is, and it travels to the control node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OciSpec {
    pub compartment: String,
    /// `None`: `OCI_CLI_PROFILE`, or `DEFAULT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// `None`: the region's first, or any with room for what has no volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_domain: Option<String>,
    /// Name or OCID of a subnet that exists; `None`: Kiln makes a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The subnet of Kiln's own network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Ipv4Net>,
    /// Who may connect to login nodes with SSH; empty: everyone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssh_from: Vec<Ipv4Net>,
}

impl OciSpec {
    pub(super) fn validate(
        cloud: &CloudTable,
        table: &OciTable,
        subnet: Option<Ipv4Net>,
        findings: &mut Findings<'_>,
    ) -> OciSpec {
        let mut text = |what: &str, text: &Option<Text>| {
            let text = text.as_ref()?;
            names::check_one_line(&format!("`{what}`"), text, findings);
            Some(text.value.clone())
        };
        let spec = OciSpec {
            compartment: text("compartment", &table.compartment).unwrap_or_default(),
            profile: text("profile", &table.profile),
            region: text("region", &table.region),
            availability_domain: text("availability_domain", &table.availability_domain),
            network: text("network", &table.network),
            subnet,
            ssh_from: table.ssh_from.as_ref().map(|list| ssh_from(list, findings)).unwrap_or_default(),
        };
        if let Some(compartment) = &table.compartment
            && !is_compartment(&compartment.value)
        {
            let message = format!("`{}` is not the OCID of a compartment", compartment.value);
            (findings.error("bad-ocid", compartment.span.clone(), message))
                .expected("`ocid1.compartment.oc1..`, and what follows; the root compartment has the tenancy's OCID")
                .hint("`oci iam compartment list --all` shows them");
        }
        if table.network.is_none() {
            check_subnet(cloud, "a subnet that exists", findings);
        }
        spec
    }

    pub(super) fn subnet(&self) -> Option<Ipv4Net> {
        self.subnet
    }

    pub(super) fn existing_network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    pub(super) fn ssh_from(&self) -> &[Ipv4Net] {
        &self.ssh_from
    }
}

fn is_compartment(text: &str) -> bool {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    plain && ["ocid1.compartment.", "ocid1.tenancy."].iter().any(|start| text.starts_with(start))
}
