//! The dashboard from elsewhere: over TLS, with a token or a login of the site.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_web::auth::KeyKind;
use kiln_wire::DashboardSettings;
use kiln_wire::dashboard::Role;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::browser::Browser;
use crate::fake::Fake;
use crate::provider::FakeProvider;
use crate::{ONE, outside, port};

struct Lab {
    fake: Arc<Fake>,
    settings: DashboardSettings,
    stop: CancellationToken,
    _runtime: Runtime,
    _alone: MutexGuard<'static, ()>,
}

impl Lab {
    fn new(change: impl FnOnce(&Runtime, &mut DashboardSettings)) -> Lab {
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (fake, stop, runtime) =
            (Arc::new(Fake::new(60)), CancellationToken::new(), Runtime::new().unwrap());
        let mut settings = outside::settings(port::free());
        change(&runtime, &mut settings);
        fake.outside.send_replace(Some(settings.clone()));
        runtime.spawn(kiln_web::serve(fake.clone(), port::free(), stop.clone()));
        port::wait(settings.port);
        Lab { fake, settings, stop, _runtime: runtime, _alone: alone }
    }

    fn browser(&self) -> Browser {
        let key = rcgen::KeyPair::from_pem(self.settings.certificate.expose_secret()).unwrap();
        let digest = Sha256::digest(rcgen::PublicKeyData::subject_public_key_info(&key));
        let mut browser = Browser::trusting(&STANDARD.encode(digest));
        browser.size(1400, 1000);
        browser
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[test]
fn a_token_lets_somebody_in_over_tls_alone() {
    let lab = Lab::new(|_, _| {});
    let word = lab.fake.admit(KeyKind::Token, "olga", Role::Viewer, Duration::from_secs(600));
    let address = &lab.settings.address;
    let mut stranger = Browser::start();
    stranger.go(&format!("{address}/login"));
    stranger.wait("a warning", "!document.getElementById('token') && location.protocol === 'chrome-error:'");
    let mut browser = lab.browser();
    browser.go(&format!("{}/login", address.replace("https:", "http:")));
    browser.wait("nothing", "location.protocol === 'chrome-error:'");
    browser.go(&format!("{address}/login#{word}"));
    browser.wait_text("Why jobs wait");
    assert_eq!(browser.ask("location.protocol"), "https:");
    assert_eq!(browser.ask("document.cookie"), "");
    browser.ask("location.hash = '#/nodes/node-0019'");
    browser.wait_text("Linux version 6.12");
    browser.click("#logout");
    browser.wait_text("Run kiln dashboard on the deploy host");
    assert_eq!(browser.ask("document.getElementById('provider').hidden"), true);
}

#[test]
fn somebody_logs_in_at_the_sites_provider() {
    let mut provider = None;
    let lab = Lab::new(|runtime, settings| {
        let fake = runtime.block_on(FakeProvider::start());
        settings.oidc = Some(outside::oidc(&fake.issuer));
        provider = Some(fake);
    });
    let provider = provider.unwrap();
    let address = &lab.settings.address;
    let mut browser = lab.browser();
    browser.go(&format!("{address}/#/events"));
    browser.wait_text("Log in with 127.0.0.1");
    provider.conducts(|conduct| conduct.is_down = true);
    browser.click("#provider a");
    browser.wait_text("it does not answer as it should");
    provider.conducts(|conduct| conduct.is_down = false);
    browser.click("#provider a");
    browser.wait_text("ann has logged in");
    assert_eq!(browser.ask("location.hash"), "#/events");
    browser.wait_text("as operator, known to 127.0.0.1");
    assert_eq!(browser.ask("document.cookie"), "");
    // What ann does is done in her name.
    browser.ask("location.hash = '#/rollouts/7'");
    browser.click("#order-pause");
    browser.click("#confirm-yes");
    browser.wait_text("paused: nothing new begins until it is resumed");
    browser.ask("location.hash = '#/events'");
    browser.wait_text("asked by ann");

    provider.conducts(|conduct| conduct.claims["groups"] = json!(["others"]));
    let mut other = lab.browser();
    other.go(&format!("{address}/login"));
    other.wait_text("Log in with");
    other.click("#provider a");
    other.wait_text("You are known, but have no role here");
    provider.conducts(|conduct| conduct.error = Some("access_denied".into()));
    other.click("#provider a");
    other.wait_text("The site's login did not let you in");
    // Whoever is in stays in while the provider is down.
    provider.conducts(|conduct| conduct.is_down = true);
    browser.go(&format!("{address}/?again#/jobs"));
    browser.wait_text("Number or name");
}
