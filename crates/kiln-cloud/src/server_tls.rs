//! Showing a certificate of one's own to others.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// From a key, its certificate and those that signed it, in PEM. What is wrong is told without any of them.
pub fn server_tls(pem: &str) -> Result<Arc<ServerConfig>, String> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| "there is no private key in PEM")?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let chain = chain.map_err(|_| "the certificate is not PEM")?;
    if chain.is_empty() {
        return Err("there is no certificate".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let built = builder.with_no_client_auth().with_single_cert(chain, key);
    let mut config = built.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => "the key does not belong to the certificate".to_string(),
        other => format!("key and certificate cannot be used: {other}"),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
