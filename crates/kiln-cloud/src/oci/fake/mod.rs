//! A fake of Oracle Cloud for tests: the services that Kiln calls, on one address of this host.
//!
//! It verifies every signature and the window of five minutes, changes states a while after it has answered, keeps what was
//! terminated in its listings, gives few items on a page, and refuses what the real services refuse. What they do is known
//! from Oracle's documents and SDK; where those say nothing, it takes the harder way. Every exchange is noted, so that it can
//! be compared with the models of Oracle's SDK.

mod answer;
mod capacity;
mod compute;
mod compute_clusters;
mod compute_hosts;
mod faults;
mod file_storage;
mod identity;
mod images;
mod limits;
mod machines;
mod metadata;
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

use ipnet::Ipv4Net;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use faults::Fault;
pub use server::Exchange;

use super::Settings;
use super::key::PrivateKey;
use super::login::{Identity, Login};
use super::region::Endpoints;
use super::sign::Signer;
use crate::local::METADATA_PORT;
use crate::{Cloud, Error, Labels, NewNetwork, Result};
use machines::Machines;
use server::Serves;
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
    serving: Vec<JoinHandle<()>>,
    machines: Option<Arc<tokio::sync::Mutex<Machines>>>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
        if let Some(directory) = std::env::var_os(EXCHANGES) {
            self.write_exchanges(std::path::Path::new(&directory));
        }
    }
}

impl Fake {
    /// With one user, one compartment, two images and a few shapes.
    pub async fn start() -> std::io::Result<Fake> {
        let world = Arc::new(Mutex::new(World::new(&IMAGES)));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let serving = vec![server::serve(listener, &world, Serves::Everything)];
        Ok(Fake { url, world, serving, machines: None })
    }

    /// With instances that boot: each is a system of a local cloud, on one network of it, whose labels are given. `images`: the
    /// local cloud's by the names that they have here. [`Fake::remove_machines`] has to be called in the end.
    pub async fn start_with_machines(
        cloud: Cloud,
        labels: Labels,
        images: &[(&str, String)],
    ) -> Result<Fake> {
        let failed = |e: std::io::Error| Error::failed("the fake cannot listen").because(e);
        // Free on this address, and so most likely on the network's, which is there once the port is known.
        let free = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let port = free.local_addr().map_err(failed)?.port();
        let mut labels = labels;
        labels.insert(METADATA_PORT.into(), port.to_string());
        let new = NewNetwork { name: "oracle".into(), cidr: None, labels, automatic: vec![] };
        let network = cloud.create_network(new).await?;
        let gateway = network.cidr.hosts().next().unwrap_or(network.cidr.network());
        let api = TcpListener::bind((gateway, 0)).await.map_err(failed)?;
        let metadata = TcpListener::bind((gateway, port)).await.map_err(failed)?;
        let url = format!("http://{}", api.local_addr().map_err(failed)?);

        let names: Vec<&str> = images.iter().map(|(name, _)| *name).collect();
        let mut world = World::new(&names);
        world.place = Some(network.cidr);
        let of_cloud = world
            .list("images")
            .iter()
            .zip(images)
            .map(|(ours, (_, theirs))| (ours.id().into(), theirs.clone()));
        let machines = Machines::new(cloud, network, of_cloud.collect());
        let machines = Arc::new(tokio::sync::Mutex::new(machines));
        let world = Arc::new(Mutex::new(world));
        let serving = vec![
            server::serve(api, &world, Serves::Services),
            server::serve(metadata, &world, Serves::Metadata),
            tokio::spawn(Machines::follow(Arc::clone(&machines), Arc::clone(&world))),
        ];
        Ok(Fake { url, world, serving, machines: Some(machines) })
    }

    /// The only subnet that there can be where instances boot.
    pub fn place(&self) -> Option<Ipv4Net> {
        self.world().place
    }

    /// From the local cloud, with the network. What the services have is of no account any more.
    pub async fn remove_machines(&self) -> Result<()> {
        self.serving.iter().for_each(JoinHandle::abort);
        match &self.machines {
            Some(machines) => machines.lock().await.remove().await,
            None => Ok(()),
        }
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

    /// How kilnd reaches the services, from this host.
    pub fn access(&self) -> Result<crate::Access> {
        let access = super::Driver::with_login(self.login(USER)?, Self::settings())?.access()?;
        Ok(crate::Access::Oci(Box::new(access.with_metadata(format!("{}/opc/v2", self.url)))))
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

    /// Faults on order that have not happened: what they were for was never asked.
    pub fn faults_left(&self) -> Vec<String> {
        self.world().faults.iter().map(|fault| fault.to.clone()).collect()
    }

    /// What is still on order does not happen.
    pub fn forget_faults(&self) {
        self.world().faults.clear();
    }

    /// How long things take.
    pub fn pace(&self, pace: Duration) {
        self.world().pace = pace;
    }

    /// How long every answer takes, as if the services were far away.
    pub fn distance(&self, time: Duration) {
        self.world().distance = time;
    }

    /// How many items a page has at most.
    pub fn page(&self, items: usize) {
        self.world().page = items;
    }

    /// Shapes that there is no room for in an availability domain, by their names.
    pub fn fill(&self, domain: &str, shape: &str) {
        self.world().full.insert((domain.to_string(), shape.to_string()));
    }

    /// The same, but launches are accepted, and only their work requests say why nothing came of them.
    pub fn fill_quietly(&self, domain: &str, shape: &str) {
        self.world().quietly_full.insert((domain.to_string(), shape.to_string()));
    }

    /// There is room everywhere again.
    pub fn forget_room(&self) {
        let mut world = self.world();
        world.full.clear();
        world.quietly_full.clear();
    }

    /// From now on everybody but instances may ask for capacity reports, which are about [`Fake::fill`] and [`Fake::fill_quietly`].
    pub fn allow_reports(&self) {
        self.world().reports = true;
    }

    /// Whether listings of instances lag behind: what is launched from now on is in none, until this is taken back.
    pub fn lag(&self, on: bool) {
        let mut world = self.world();
        world.lags = on;
        if !on {
            world.unlisted.clear();
        }
    }

    /// Where instances of a name are that are there.
    pub fn domains_of(&self, name: &str) -> Vec<String> {
        self.world().domains_of(name)
    }

    /// Names of the compute clusters that instances of a name are in.
    pub fn compute_clusters_of(&self, name: &str) -> Vec<String> {
        self.world().compute_clusters_of(name)
    }

    /// Who may use the exports of a path: address, access, and who is not taken for root.
    pub fn access_of(&self, path: &str) -> Vec<String> {
        file_storage::access_of(&self.world(), path)
    }

    /// Nobody may use File Storage from now on.
    pub fn close_file_storage(&self) {
        self.world().no_file_storage = true;
    }

    /// Launches that are accepted from now on fail later, for this reason.
    pub fn break_launches(&self, reason: Option<(&str, &str)>) {
        self.world().breaks = reason.map(|(code, message)| (code.to_string(), message.to_string()));
    }

    /// As much as each availability domain may have of what a limit counts.
    pub fn limit(&self, name: &str, value: u64) {
        self.world().limits.insert(name.to_string(), value);
    }

    /// Nobody may make or change tags, groups and policies from now on.
    pub fn close_identity(&self) {
        self.world().no_identity = true;
    }

    /// Somebody removes a statement from every policy.
    pub fn shorten_policies(&self) {
        for policy in self.world().all.get_mut("policies").into_iter().flatten() {
            if let Some(statements) = policy.value["statements"].as_array_mut() {
                statements.pop();
            }
        }
    }

    fn write_exchanges(&self, directory: &std::path::Path) {
        let lines: Vec<String> =
            self.world().exchanges.iter().filter_map(|one| serde_json::to_string(one).ok()).collect();
        let path = directory.join(format!("{:016x}.jsonl", rand::random::<u64>()));
        if let Err(error) = std::fs::write(&path, lines.join("\n") + "\n") {
            eprintln!("{}: {error}", path.display());
        }
    }

    /// Objects and uploads that are there seem to have been there for days.
    pub fn age_objects(&self) {
        let mut world = self.world();
        let long_ago = "2020-01-01T00:00:00.000Z";
        for object in world.buckets.values_mut().flat_map(|objects| objects.values_mut()) {
            object.created = long_ago.into();
        }
        for upload in world.uploads.values_mut() {
            upload.created = long_ago.into();
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
