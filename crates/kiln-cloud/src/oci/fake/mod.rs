//! A fake of Oracle Cloud for tests: the services that Kiln calls, on one address of this host.
//!
//! It verifies every signature and the window of five minutes, changes states a while after it has answered, keeps what was
//! terminated in its listings, gives few items on a page, and refuses what the real services refuse. What they do is known
//! from Oracle's documents and SDK; where those say nothing, it takes the harder way. Every exchange is noted, so that it can
//! be compared with the models of Oracle's SDK.

mod answer;
mod compute;
mod faults;
mod images;
mod network;
mod objects;
mod principal;
mod route;
mod server;
mod storage;
mod verify;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use faults::Fault;
pub use server::Exchange;

use super::Settings;
use super::key::PrivateKey;
use super::login::{Identity, Login};
use super::region::Endpoints;
use super::sign::Signer;
use crate::{Cloud, Result};
use world::World;

pub const TENANCY: &str = "ocid1.tenancy.oc1..aaaafake";
pub const USER: &str = "ocid1.user.oc1..aaaafake";
pub const COMPARTMENT: &str = "ocid1.compartment.oc1..aaaafake";
pub const REGION: &str = "us-phoenix-1";
/// Its name is known to everybody; its boot volume can be replaced by the other.
pub const IMAGES: [&str; 2] = ["image-a", "image-b"];

/// Names a directory in which every fake leaves its exchanges, one on a line, to be compared with Oracle's own models.
pub const EXCHANGES: &str = "KILN_OCI_EXCHANGES";

/// The services, as their test sees them. They end with it.
pub struct Fake {
    pub url: String,
    world: Arc<Mutex<World>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
        if let Some(directory) = std::env::var_os(EXCHANGES) {
            self.write_exchanges(std::path::Path::new(&directory));
        }
    }
}

impl Fake {
    /// With one user, one compartment, two images and a few shapes.
    pub async fn start() -> std::io::Result<Fake> {
        let world = Arc::new(Mutex::new(World::new()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = server::router(Arc::clone(&world));
        let serving = tokio::spawn(async move {
            // It ends with the test.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Fake { url, world, serving })
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// The user's private key, in PEM.
    pub fn key() -> String {
        verify::user_key()
    }

    pub fn fingerprint() -> String {
        PrivateKey::from_pem(&Self::key(), None).map(|key| key.fingerprint()).unwrap_or_default()
    }

    pub fn settings() -> Settings {
        Settings { compartment: COMPARTMENT.into(), ..Settings::default() }
    }

    /// As the user.
    pub fn cloud(&self) -> Result<Cloud> {
        self.cloud_with(Self::settings())
    }

    pub fn cloud_with(&self, settings: Settings) -> Result<Cloud> {
        super::Driver::with_login(self.login(USER)?, settings).map(Cloud::Oci)
    }

    /// With a key that the services do not know for this user.
    pub fn cloud_as(&self, user: &str) -> Result<Cloud> {
        super::Driver::with_login(self.login(user)?, Self::settings()).map(Cloud::Oci)
    }

    /// As an instance, with a certificate from the metadata service.
    pub fn cloud_of_instance(&self) -> Result<Cloud> {
        let login = Login {
            identity: Identity::Instance { metadata: format!("{}/opc/v2", self.url) },
            origin: "the fake's metadata".into(),
            ..self.login(USER)?
        };
        super::Driver::with_login(login, Self::settings()).map(Cloud::Oci)
    }

    /// Tokens that instances have got are no longer taken.
    pub fn forget_tokens(&self) {
        self.world().keys.forget();
    }

    fn login(&self, user: &str) -> Result<Login> {
        let key = PrivateKey::from_pem(&Self::key(), None)
            .map_err(|error| crate::Error::failed(format!("the fake's key {error}")))?;
        let key_id = format!("{TENANCY}/{user}/{}", key.fingerprint());
        Ok(Login {
            identity: Identity::Key(Signer { key_id, key }),
            endpoints: Endpoints::One(self.url.clone()),
            tenancy: Some(TENANCY.into()),
            region: Some(REGION.into()),
            ca_bundle: None,
            origin: "the fake".into(),
        })
    }

    /// What happens to the next requests that match.
    pub fn order(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// How long things take.
    pub fn pace(&self, pace: Duration) {
        self.world().pace = pace;
    }

    /// How many items a page has at most.
    pub fn page(&self, items: usize) {
        self.world().page = items;
    }

    /// Shapes that there is no room for in an availability domain, by their names.
    pub fn fill(&self, domain: &str, shape: &str) {
        self.world().full.insert((domain.to_string(), shape.to_string()));
    }

    /// Launches that are accepted from now on fail later, for this reason.
    pub fn break_launches(&self, reason: Option<(&str, &str)>) {
        self.world().breaks = reason.map(|(code, message)| (code.to_string(), message.to_string()));
    }

    /// As many instances as the tenancy may have.
    pub fn limit(&self, instances: usize) {
        self.world().limit = instances;
    }

    fn write_exchanges(&self, directory: &std::path::Path) {
        let lines: Vec<String> =
            self.world().exchanges.iter().filter_map(|one| serde_json::to_string(one).ok()).collect();
        let path = directory.join(format!("{:016x}.jsonl", rand::random::<u64>()));
        if let Err(error) = std::fs::write(&path, lines.join("\n") + "\n") {
            eprintln!("{}: {error}", path.display());
        }
    }

    /// What was asked for and answered, in order.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.world().exchanges.clone()
    }

    /// Methods and paths of what was asked for since this was last called, without ids.
    pub fn take_calls(&self) -> Vec<String> {
        let mut world = self.world();
        let new = world.exchanges.len() - world.taken;
        world.taken = world.exchanges.len();
        world.exchanges[world.exchanges.len() - new..].iter().map(Exchange::name).collect()
    }

    /// Everything that is there and was not there from the start, by kind and name.
    pub fn left(&self) -> Vec<String> {
        self.world().left()
    }

    /// Instances of a name that are there.
    pub fn count(&self, name: &str) -> usize {
        self.world().count(name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
