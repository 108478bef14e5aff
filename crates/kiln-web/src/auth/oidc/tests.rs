//! The whole flow with a fake provider, and what attackers and mistakes would make of it.

use std::collections::HashMap;
use std::sync::Arc;

use kiln_wire::dashboard::Role;
use reqwest::Url;
use serde_json::{Value, json};

use super::{Back, Fault, Oidc, Person};
use crate::provider::{Conduct, FakeProvider};

struct Lab {
    provider: Arc<FakeProvider>,
    oidc: Oidc,
}

impl Lab {
    async fn new() -> Lab {
        let provider = FakeProvider::start().await;
        let oidc = Oidc::new(&crate::lab::oidc(&provider.issuer), "https://control:6831").unwrap();
        Lab { provider, oidc }
    }

    /// What a browser comes back from the provider with, and the state in its cookie.
    async fn goes_there(&self) -> (Back, String) {
        let (address, state) = self.oidc.begin().await.unwrap();
        let asked = pairs(&address);
        assert_eq!(asked["redirect_uri"], "https://control:6831/login/oidc/back");
        let back = pairs(&self.provider.comes_back(&asked));
        let field = |name: &str| back.get(name).cloned();
        let back = Back { state: field("state"), code: field("code"), error: field("error"), iss: None };
        (back, state.expose_secret().to_string())
    }

    async fn logs_in(&self) -> Result<Person, Fault> {
        let (back, kept) = self.goes_there().await;
        self.oidc.finish(&back, Some(&kept)).await
    }

    /// What comes of it when the provider does this.
    async fn with(&self, change: impl FnOnce(&mut Conduct)) -> Result<Person, Fault> {
        let before = self.provider.conduct.lock().unwrap().clone();
        self.provider.conducts(change);
        let judged = self.logs_in().await;
        *self.provider.conduct.lock().unwrap() = before;
        judged
    }
}

fn pairs(address: &str) -> HashMap<String, String> {
    Url::parse(address).unwrap().query_pairs().into_owned().collect()
}

fn is_untrusted(judged: Result<Person, Fault>, what: &str) {
    match judged {
        Err(Fault::Untrusted(why)) => assert!(why.contains(what), "{why}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[tokio::test]
async fn whoever_the_provider_knows_gets_the_role_of_their_group() {
    let lab = Lab::new().await;
    let ann = Person { name: "ann".into(), role: Role::Operator };
    assert_eq!(lab.logs_in().await, Ok(ann.clone()));
    assert_eq!(lab.with(|conduct| conduct.algorithm = "ES256".into()).await, Ok(ann));
    let viewer = lab.with(|conduct| conduct.claims["groups"] = json!(["users"])).await;
    assert_eq!(viewer.unwrap().role, Role::Viewer);
    assert_eq!(
        *lab.provider.asked_for_keys.lock().unwrap(),
        1,
        "keys that are known are not asked for again"
    );
    let nobody = lab.with(|conduct| conduct.claims["groups"] = json!(["others"])).await;
    assert_eq!(nobody, Err(Fault::NoRole("ann".into())));
}

#[tokio::test]
async fn a_login_ends_where_it_began_and_once() {
    let lab = Lab::new().await;
    let (back, kept) = lab.goes_there().await;
    // Begun in one browser, finished in another; or with a state that nobody began with.
    let (other, _) = lab.goes_there().await;
    assert_eq!(lab.oidc.finish(&other, Some(&kept)).await, Err(Fault::Unknown));
    assert_eq!(lab.oidc.finish(&back, None).await, Err(Fault::Unknown));
    let invented = Back { state: Some("0".repeat(64)), code: back.code.clone(), ..Back::default() };
    assert_eq!(lab.oidc.finish(&invented, invented.state.as_deref()).await, Err(Fault::Unknown));
    assert_eq!(lab.oidc.finish(&Back::default(), None).await, Err(Fault::Unknown));
    // None of these has spoilt it.
    assert!(lab.oidc.finish(&back, Some(&kept)).await.is_ok());
    assert_eq!(lab.oidc.finish(&back, Some(&kept)).await, Err(Fault::Unknown), "the same again");
    // A code that was used already, with a state of its own.
    let (again, kept) = lab.goes_there().await;
    let replayed = Back { code: back.code, ..again };
    assert_eq!(lab.oidc.finish(&replayed, Some(&kept)).await, Err(Fault::Refused("invalid_grant".into())));
    // Somebody else's code, which was asked for with another challenge.
    let ((mine, kept), (theirs, _)) = (lab.goes_there().await, lab.goes_there().await);
    let injected = Back { code: theirs.code, ..mine };
    assert_eq!(lab.oidc.finish(&injected, Some(&kept)).await, Err(Fault::Refused("invalid_grant".into())));
    // An answer that another provider says is its own.
    let (back, kept) = lab.goes_there().await;
    let mixed = Back { iss: Some("https://evil.example".into()), ..back };
    is_untrusted(lab.oidc.finish(&mixed, Some(&kept)).await, "another provider");
}

#[tokio::test(start_paused = true)]
async fn a_login_does_not_wait_forever_and_only_so_many_do() {
    let lab = Lab::new().await;
    let (back, kept) = lab.goes_there().await;
    tokio::time::advance(super::PATIENCE).await;
    assert_eq!(lab.oidc.finish(&back, Some(&kept)).await, Err(Fault::Unknown));
    let (first, kept) = lab.goes_there().await;
    for number in 0..super::MOST {
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
        let begun = super::Begun { at: tokio::time::Instant::now(), nonce: "".into(), verifier: "".into() };
        lab.oidc.remember(&number.to_string(), begun);
    }
    assert_eq!(lab.oidc.begun.lock().unwrap().len(), super::MOST);
    assert_eq!(lab.oidc.finish(&first, Some(&kept)).await, Err(Fault::Unknown));
}

#[tokio::test]
async fn a_token_is_believed_only_if_all_of_it_is_right() {
    let lab = Lab::new().await;
    let now = jiff::Timestamp::now().as_second();
    let claims: [(&str, Value, &str); 12] = [
        ("nonce", json!("0"), "nonce"),
        ("nonce", Value::Null, "nonce"),
        ("aud", json!("another"), "audience"),
        ("aud", json!(["kiln", "another"]), "authorized party"),
        ("aud", Value::Null, "audience"),
        ("azp", json!("another"), "authorized party"),
        ("iss", json!("https://evil.example"), "issuer"),
        ("exp", json!(now - 120), "time of expiry"),
        ("exp", Value::Null, "time of expiry"),
        ("iat", json!(now + 3600), "time of issue"),
        ("nbf", json!(now + 3600), "beginning"),
        ("sub", json!(""), "subject"),
    ];
    for (name, value, what) in claims {
        is_untrusted(lab.with(|conduct| conduct.claims[name] = value).await, what);
    }
    let several = json!(["another", "kiln"]);
    let judged = lab.with(|conduct| {
        conduct.claims["aud"] = several;
        conduct.claims["azp"] = json!("kiln");
    });
    assert!(judged.await.is_ok());
}

#[tokio::test]
async fn a_signature_is_the_providers_own() {
    let lab = Lab::new().await;
    for algorithm in ["none", "HS256", "RS384", ""] {
        is_untrusted(lab.with(|conduct| conduct.algorithm = algorithm.into()).await, "algorithm");
    }
    is_untrusted(lab.with(|conduct| conduct.forges = true).await, "signature");
    is_untrusted(lab.with(|conduct| conduct.kid = Some("nobody".into())).await, "a key that the provider");
    // One kind of key for the other kind of signature.
    is_untrusted(lab.with(|conduct| conduct.kid = Some("ES256".into())).await, "a key that the provider");
}

#[tokio::test]
async fn a_provider_that_refuses_or_is_down_is_told_apart() {
    let lab = Lab::new().await;
    lab.provider.conducts(|conduct| conduct.is_down = true);
    assert!(matches!(lab.oidc.begin().await, Err(Fault::Unreachable(_))));
    lab.provider.conducts(|conduct| conduct.is_down = false);
    let refused = lab.with(|conduct| conduct.error = Some("access_denied".into())).await;
    assert_eq!(refused, Err(Fault::Refused("access_denied".into())));
    // What is known of it is good enough while it does not tell again.
    lab.provider.conducts(|conduct| conduct.is_down = true);
    assert!(lab.oidc.begin().await.is_ok());
}

#[tokio::test]
async fn a_provider_is_who_it_says_and_reached_safely() {
    let lab = Lab::new().await;
    let host = lab.provider.issuer.replace("127.0.0.1", "localhost");
    let renamed = Oidc::new(&crate::lab::oidc(&host), "https://control:6831").unwrap();
    assert!(matches!(renamed.begin().await, Err(Fault::Unreachable(why)) if why.contains("it calls itself")));
    let elsewhere =
        Oidc::new(&crate::lab::oidc(&format!("{}/realm", lab.provider.issuer)), "https://control:6831");
    assert!(matches!(elsewhere.unwrap().begin().await, Err(Fault::Unreachable(why)) if why.contains("404")));
    for unsafe_one in ["http://sso.example.org", "ftp://127.0.0.1", "sso"] {
        assert!(Oidc::new(&crate::lab::oidc(unsafe_one), "https://control:6831").is_err(), "{unsafe_one}");
    }
}
