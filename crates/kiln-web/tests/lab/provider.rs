//! A fake provider of OpenID Connect on this host: it believes everybody, signs with real keys, and can be told to do wrong.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub struct FakeProvider {
    pub issuer: String,
    rsa: RsaKeyPair,
    curve: EcdsaKeyPair,
    pub conduct: Mutex<Conduct>,
    /// Codes that were given out, with the challenge and nonce of each.
    codes: Mutex<HashMap<String, (String, String)>>,
    /// How often its keys were asked for.
    pub asked_for_keys: Mutex<usize>,
}

/// What it says and does.
#[derive(Clone)]
pub struct Conduct {
    /// Whoever comes is this one.
    pub claims: Value,
    /// `RS256`, `ES256` or `none`.
    pub algorithm: String,
    /// Of the key that it says it signs with; `None`: the right one.
    pub kid: Option<String>,
    /// Changes the token behind its signature.
    pub forges: bool,
    /// What browsers are sent back with instead of a code.
    pub error: Option<String>,
    pub is_down: bool,
}

impl FakeProvider {
    /// Serves for as long as the runtime lives.
    pub async fn start() -> Arc<FakeProvider> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let random = SystemRandom::new();
        let curve = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let made = Command::new("openssl")
            .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
            .output()
            .expect("openssl is installed");
        let pem = String::from_utf8(made.stdout).unwrap();
        let rsa: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let provider = Arc::new(FakeProvider {
            issuer: format!("http://{}", listener.local_addr().unwrap()),
            rsa: RsaKeyPair::from_pkcs8(&STANDARD.decode(rsa).unwrap()).expect("a key"),
            curve: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, curve.as_ref(), &random)
                .unwrap(),
            conduct: Mutex::new(Conduct {
                claims: json!({"preferred_username": "ann", "groups": ["admins"]}),
                algorithm: "RS256".into(),
                kid: None,
                forges: false,
                error: None,
                is_down: false,
            }),
            codes: Mutex::default(),
            asked_for_keys: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/keys", get(keys))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    pub fn conducts(&self, change: impl FnOnce(&mut Conduct)) {
        change(&mut lock(&self.conduct));
    }

    /// As somebody who is logged in there goes on: the address that the browser is sent back to.
    pub fn comes_back(&self, asked: &HashMap<String, String>) -> String {
        let conduct = lock(&self.conduct).clone();
        let (back, state) = (&asked["redirect_uri"], &asked["state"]);
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!(asked["response_type"], "code");
        assert!(asked["scope"].split(' ').any(|scope| scope == "openid"), "{asked:?}");
        if let Some(error) = conduct.error {
            return format!("{back}?error={error}&state={state}");
        }
        let code = hex::encode(rand::random::<[u8; 8]>());
        lock(&self.codes).insert(code.clone(), (asked["code_challenge"].clone(), asked["nonce"].clone()));
        format!("{back}?code={code}&state={state}")
    }

    fn id_token(&self, nonce: &str) -> String {
        let conduct = lock(&self.conduct).clone();
        let now = Timestamp::now().as_second();
        let mut claims = json!({
            "iss": self.issuer, "aud": "kiln", "sub": "0001", "nonce": nonce, "iat": now, "exp": now + 300,
        });
        for (name, value) in conduct.claims.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let kid = conduct.kid.unwrap_or_else(|| conduct.algorithm.clone());
        let head = json!({"alg": conduct.algorithm, "kid": kid, "typ": "JWT"});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(&claims));
        let signature = self.sign(&conduct.algorithm, signed.as_bytes());
        if conduct.forges {
            claims["groups"] = json!(["admins", "forged"]);
        }
        format!("{}.{}.{}", part(&head), part(&claims), URL_SAFE_NO_PAD.encode(signature))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match algorithm {
            "RS256" => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            "ES256" => self.curve.sign(&random, message).unwrap().as_ref().to_vec(),
            _ => Vec::new(),
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

type Provider = State<Arc<FakeProvider>>;

async fn discovery(State(provider): Provider) -> Response {
    if lock(&provider.conduct).is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let issuer = &provider.issuer;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
    }))
    .into_response()
}

async fn authorize(State(provider): Provider, Query(asked): Query<HashMap<String, String>>) -> Redirect {
    Redirect::to(&provider.comes_back(&asked))
}

async fn token(State(provider): Provider, headers: HeaderMap, body: String) -> Response {
    let sent = reqwest::Url::parse(&format!("http://form/?{body}")).unwrap();
    let sent: HashMap<String, String> = sent.query_pairs().into_owned().collect();
    // The secret, encoded as it has to be.
    let expected = format!("Basic {}", STANDARD.encode("kiln:s3cret%3A%26"));
    let known = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if known != Some(&expected) {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "invalid_client"}))).into_response();
    }
    // Each code is good once, for whoever knows what its challenge was made from.
    let given = lock(&provider.codes).remove(&sent["code"]);
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&sent["code_verifier"]));
    match given.filter(|(expected, _)| *expected == challenge) {
        Some((_, nonce)) => Json(json!({"id_token": provider.id_token(&nonce)})).into_response(),
        None => (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response(),
    }
}

async fn keys(State(provider): Provider) -> Json<Value> {
    *lock(&provider.asked_for_keys) += 1;
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let rsa = provider.rsa.public();
    let modulus: ring::rsa::PublicKeyComponents<Vec<u8>> = rsa.into();
    let point = provider.curve.public_key().as_ref();
    Json(json!({"keys": [
        {"kty": "OKP", "kid": "another", "crv": "Ed25519", "x": "AA"},
        {"kty": "RSA", "kid": "RS256", "use": "sig", "n": encode(&modulus.n), "e": encode(&modulus.e)},
        {"kty": "EC", "kid": "ES256", "use": "sig", "alg": "ES256", "crv": "P-256",
         "x": encode(&point[1..33]), "y": encode(&point[33..])},
    ]}))
}
