//! A dashboard that others on the network may look at: a certificate made for it, and a provider's settings.

use kiln_wire::{DashboardSettings, OidcSettings};

/// For `control` and 127.0.0.1.
pub fn settings(port: u16) -> DashboardSettings {
    let names = ["control".to_string(), "127.0.0.1".to_string()];
    let made = rcgen::generate_simple_self_signed(names.clone()).unwrap();
    DashboardSettings {
        port,
        address: format!("https://127.0.0.1:{port}"),
        names: names.into(),
        from: vec!["192.0.2.0/24".parse().unwrap()],
        certificate: (made.signing_key.serialize_pem() + &made.cert.pem()).into(),
        oidc: None,
    }
}

/// `admins` are operators, `users` viewers.
pub fn oidc(issuer: &str) -> OidcSettings {
    OidcSettings {
        issuer: issuer.into(),
        client_id: "kiln".into(),
        client_secret: "s3cret:&".into(),
        scopes: vec!["profile".into()],
        claim: "groups".into(),
        operators: vec!["admins".into()],
        viewers: vec!["users".into()],
        name: "preferred_username".into(),
        users: None,
        proxy: None,
    }
}
