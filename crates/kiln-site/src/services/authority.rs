//! The cluster's own certificate authority. Its key does not leave the deploy host; what it has signed goes to nodes.

use crate::secret::{Form, Secret};

pub const CLUSTER_CA: Secret = Secret {
    name: "cluster-ca",
    purpose: "signs the certificates of the cluster's own services",
    form: Form::Authority,
    on_nodes: false,
};

/// The parts of a text in PEM that have this label, each whole.
pub(super) fn pem<'a>(text: &'a str, label: &str) -> Vec<&'a str> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----\n"));
    let parts = text.match_indices(&begin).filter_map(|(at, _)| {
        let rest = &text[at..];
        rest.find(&end).map(|length| &rest[..length + end.len()])
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_pem_are_found() {
        let text = "names: a\n-----BEGIN PRIVATE KEY-----\nk\n-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\n1\n-----END CERTIFICATE-----\n\
                    -----BEGIN CERTIFICATE-----\n2\n-----END CERTIFICATE-----\n";
        assert_eq!(pem(text, "PRIVATE KEY"), ["-----BEGIN PRIVATE KEY-----\nk\n-----END PRIVATE KEY-----\n"]);
        let certificates = pem(text, "CERTIFICATE");
        assert!(certificates.len() == 2 && certificates[1].contains("\n2\n"), "{certificates:?}");
        assert!(pem("-----BEGIN CERTIFICATE-----\ncut", "CERTIFICATE").is_empty());
    }
}
