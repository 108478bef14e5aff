//! Connections to the daemon: who is at the other end, how many there may be, and for how long they may be silent.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use super::lock;

/// Who has connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Root, through the socket in the cloud's own directory.
    Host,
    /// Somebody on an instance.
    Instance(SocketAddr),
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The next one has to wait.
    pub all: usize,
    /// Of one address; more are closed at once. A control node uses a few, and its users' nodes cannot take them from it.
    pub of_one: usize,
    /// For the head of a request, from the end of the one before.
    pub silence: Duration,
}

impl Limits {
    pub const USUAL: Limits = Limits { all: 1024, of_one: 64, silence: Duration::from_secs(30) };
}

/// A pause after a failed accept: it fails for want of something, such as file descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// Serves the host until it is dropped.
pub async fn serve_host(listener: UnixListener, router: Router, limits: Limits) {
    let slots = Arc::new(Semaphore::new(limits.all));
    loop {
        // Never closed, so the permit always comes.
        let permit = Arc::clone(&slots).acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        // The socket has its rights a moment after it is there.
        let own = [0, rustix::process::geteuid().as_raw()];
        if !stream.peer_cred().is_ok_and(|peer| own.contains(&peer.uid())) {
            continue;
        }
        let router = router.clone();
        tokio::spawn(async move {
            let _permit = permit;
            serve(stream, Origin::Host, router, limits).await;
        });
    }
}

/// Serves instances until it is dropped.
pub async fn serve_instances(listener: TcpListener, router: Router, limits: Limits) {
    let slots = Arc::new(Semaphore::new(limits.all));
    let counts = Arc::new(Counts::default());
    loop {
        let permit = Arc::clone(&slots).acquire_owned().await;
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let Some(place) = Place::take(&counts, peer.ip(), limits.of_one) else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            let _held = (permit, place);
            serve(stream, Origin::Instance(peer), router, limits).await;
        });
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    origin: Origin,
    router: Router,
    limits: Limits,
) {
    let service = TowerToHyperService::new(router.layer(Extension(origin)));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.silence)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, ?origin, "a connection ended early");
    }
}

/// Connections by address.
#[derive(Default)]
struct Counts(Mutex<HashMap<IpAddr, usize>>);

struct Place {
    counts: Arc<Counts>,
    of: IpAddr,
}

impl Place {
    fn take(counts: &Arc<Counts>, of: IpAddr, most: usize) -> Option<Place> {
        let mut all = lock(&counts.0);
        let count = all.entry(of).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { counts: Arc::clone(counts), of })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = lock(&self.counts.0);
        if let Some(count) = all.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    async fn server(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "well"));
        tokio::spawn(serve_instances(listener, router, limits));
        address
    }

    /// Whether a request is answered; else the connection was closed.
    async fn asks(stream: &mut TcpStream) -> bool {
        let mut answer = [0; 4096];
        let _ = stream.write_all(REQUEST).await;
        matches!(stream.read(&mut answer).await, Ok(length) if length > 0)
    }

    #[tokio::test]
    async fn one_address_gets_so_many_and_gets_them_back() {
        let limits = Limits { of_one: 2, silence: Duration::from_secs(60), ..Limits::USUAL };
        let address = server(limits).await;
        let connect = async || TcpStream::connect(address).await.unwrap();
        let (mut first, mut second, mut third) = (connect().await, connect().await, connect().await);
        assert!(asks(&mut first).await && asks(&mut second).await);
        assert!(!asks(&mut third).await, "a third connection is served");
        drop(first);
        // The server notices a moment later.
        let mut again = connect().await;
        while !asks(&mut again).await {
            again = connect().await;
        }
    }

    #[tokio::test]
    async fn who_is_silent_is_closed() {
        let limits = Limits { silence: Duration::from_millis(50), ..Limits::USUAL };
        let address = server(limits).await;
        for begun in [&b""[..], b"GET / HTTP/1.1\r\nHost:"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun).await.unwrap();
            let mut rest = Vec::new();
            let end = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
            assert!(end.is_ok(), "still open after {begun:?}");
        }
    }
}
