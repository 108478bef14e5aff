//! The asynchronous shell: listeners, start, end.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, RwLock, Semaphore};
use tokio::task::{AbortHandle, spawn_blocking};

use super::connections::{Limits, serve_host, serve_instances};
use super::{Daemon, check_root, lock, networks, routes, store};
use crate::local::{SOCKET, names, needs};
use crate::{Error, Network, Result};

/// Instances built at the same time.
const BUILDERS: usize = 8;
/// A daemon with nothing to look after ends by itself after this long without a request.
const IDLE: Duration = Duration::from_secs(60);

pub struct Server {
    pub daemon: Arc<Daemon>,
    pub builders: Semaphore,
    pub end: Notify,
    /// Read by whoever is at work; writable when nobody is.
    pub work: RwLock<()>,
    /// By network: the listeners for its instances.
    gateways: Mutex<HashMap<String, [AbortHandle; 2]>>,
}

/// Runs the local cloud whose files are under `root`, until it is retired, idle or told to end.
/// Instances keep running without it.
pub async fn serve(root: &Path) -> Result<()> {
    needs::root()?;
    check_root(root)?;
    needs::private(root)?;
    store::make_dir(root)?;
    let _lock = take_lock(root)?;
    // Served on the networks' gateways; this host has the socket.
    let port = chosen_port(root, "port", first_port(root)).await?;
    let metadata_port = chosen_port(root, "metadata-port", port + 1).await?;
    let daemon = {
        let root = root.to_path_buf();
        blocking(move || Daemon::open(&root, port, metadata_port)).await?
    };
    let server = Arc::new(Server {
        daemon: Arc::new(daemon),
        builders: Semaphore::new(BUILDERS),
        end: Notify::new(),
        work: RwLock::new(()),
        gateways: Mutex::default(),
    });
    let rubbish = server.daemon.rubbish();
    let unbuilt = {
        let daemon = Arc::clone(&server.daemon);
        blocking(move || daemon.recover()).await?
    };
    let known: Vec<_> = server.daemon.world().networks.iter().cloned().collect();
    for network in &known {
        if let Err(error) = server.open_gateway(network).await {
            tracing::error!(%error, network = network.name, "instances cannot reach the daemon");
        }
    }
    for id in unbuilt {
        server.build(id);
    }
    // A thread, not a task: the end of the daemon does not wait for it.
    let daemon = Arc::clone(&server.daemon);
    std::thread::spawn(move || daemon.tidy(&rubbish));
    let listener = host_socket(root)?;
    tracing::info!(root = %root.display(), port, "serving");
    tokio::select! {
        () = serve_host(listener, routes::api(Arc::clone(&server)), Limits::USUAL) => {}
        () = server.end.notified() => tracing::info!("retired"),
        () = idle(&server.daemon) => tracing::info!("nothing to do"),
        () = terminated() => tracing::info!("told to end"),
    }
    // The lock on the root is held until everything under way is done: the next daemon finds no one at work.
    let _nobody_at_work = server.work.write().await;
    server.daemon.leave();
    Ok(())
}

impl Server {
    /// Listens for instances of a network: API and metadata, each on a port of its own. The API's port answers no
    /// question about the metadata, which holds the keys of the instance that asks: any user of it can reach the API.
    pub async fn open_gateway(self: &Arc<Self>, network: &Network) -> Result<()> {
        let gateway = networks::gateway(network.cidr);
        let api = listen_for_instances(gateway, self.daemon.port, routes::api(Arc::clone(self))).await?;
        let metadata = routes::metadata(Arc::clone(self));
        let metadata = listen_for_instances(gateway, self.daemon.metadata_port, metadata).await;
        let metadata = metadata.inspect_err(|_| api.abort())?;
        lock(&self.gateways).insert(network.id.clone(), [api, metadata]);
        Ok(())
    }

    pub fn close_gateway(&self, network: &str) {
        for task in lock(&self.gateways).remove(network).into_iter().flatten() {
            task.abort();
        }
    }

    /// Ends the daemon when the answer that announces it has left.
    pub fn end_soon(self: &Arc<Self>) {
        let server = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.end.notify_one();
        });
    }

    /// Builds an instance in the background.
    pub fn build(self: &Arc<Self>, id: String) {
        let server = Arc::clone(self);
        tokio::spawn(async move {
            // Never closed, so the permit always comes.
            let _permit = server.builders.acquire().await;
            let _at_work = server.work.read().await;
            let daemon = Arc::clone(&server.daemon);
            let _ = spawn_blocking(move || daemon.build(&id)).await;
        });
    }
}

async fn listen_for_instances(gateway: Ipv4Addr, port: u16, router: axum::Router) -> Result<AbortHandle> {
    let listener = TcpListener::bind((gateway, port))
        .await
        .map_err(|e| Error::failed(format!("cannot listen on {gateway}:{port}")).because(e))?;
    Ok(tokio::spawn(serve_instances(listener, router, Limits::USUAL)).abort_handle())
}

pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::failed("an operation of the daemon ended unexpectedly").because(error)),
    }
}

fn take_lock(root: &Path) -> Result<std::fs::File> {
    let failed = |e: std::io::Error| Error::failed(format!("cannot use {}", root.display())).because(e);
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(root.join("daemon.lock"))
        .map_err(failed)?;
    // A daemon that makes way needs a moment.
    let mut tries = 100;
    let locked = loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if tries > 0 => tries -= 1,
            other => break other,
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    match locked {
        Ok(()) => {
            // For people: who serves this root.
            file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
            Ok(file)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Error::conflict(format!("a daemon serves {} already", root.display())))
        }
        Err(e) => Err(failed(e.into())),
    }
}

/// Where root of this host asks, without a token. What lies there is of a daemon that has ended: this one has the lock.
fn host_socket(root: &Path) -> Result<UnixListener> {
    let path = root.join(SOCKET);
    let open = || {
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        // Older Kilns had a token for this.
        let _ = std::fs::remove_file(root.join("token"));
        Ok(listener)
    };
    open()
        .map_err(|e: std::io::Error| Error::failed(format!("cannot listen on {}", path.display())).because(e))
}

/// Where the search for a free port begins: below the range the kernel picks outgoing ports from, so that what was
/// chosen once is likely free next time too.
fn first_port(root: &Path) -> u16 {
    let hash = names::sha256_hex(root.as_os_str().as_encoded_bytes());
    20_000 + u16::from_str_radix(&hash[..4], 16).unwrap_or(0) % 10_000
}

/// A port is chosen once and kept in `file`: networks and their instances remember it.
async fn chosen_port(root: &Path, file: &str, first: u16) -> Result<u16> {
    let path = root.join(file);
    if let Some(port) = std::fs::read_to_string(&path).ok().and_then(|p| p.trim().parse().ok()) {
        return Ok(port);
    }
    for port in first..first + 200 {
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
            store::write_file(&path, port.to_string().as_bytes())?;
            return Ok(port);
        }
    }
    Err(Error::failed("cannot find a free port"))
}

async fn idle(daemon: &Daemon) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if daemon.is_unused() && Instant::now().duration_since(*lock(&daemon.last_request)) > IDLE {
            return;
        }
    }
}

async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}
