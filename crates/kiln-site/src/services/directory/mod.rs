//! Users and groups from a directory: a server on the control node if the file asks for one, and sssd, which asks it or the site's, on every node.

mod client;
mod server;
mod sssd_conf;

use kiln_spec::{Directory, LdapDirectory, Spec};

pub use client::{BIND_PASSWORD, CLIENT, SITE_PASSWORD};
pub use server::{CERTIFICATE, DIRECTORY_PASSWORD, SERVER};

/// What the server's certificate is checked with.
const CA_FILE: &str = "/etc/kiln/directory-ca.pem";

fn has_server(spec: &Spec) -> bool {
    spec.directory.as_ref().is_some_and(Directory::is_server)
}

/// The site's own server.
fn of_site(spec: &Spec) -> Option<&LdapDirectory> {
    match &spec.directory {
        Some(Directory::Ldap(ldap)) => Some(ldap),
        _ => None,
    }
}

/// Where the server is.
fn uris(spec: &Spec) -> Vec<String> {
    match of_site(spec) {
        Some(ldap) => ldap.uris.clone(),
        // By the name that its certificate has.
        None => vec![format!("ldaps://{}.{}", spec.control.node, spec.domain)],
    }
}
