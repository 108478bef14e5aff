//! Connections: at most so many at a time, and of one address. Each takes memory, and whoever can reach the port can open them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::door::{Door, Outside};

/// A browser has a few; others wait until one ends.
const MOST: usize = 256;
/// Of one address, of those from outside: many people may have one together.
const OF_ONE: usize = 64;
/// How long somebody may take for a handshake, or for the head of a request.
const SLOWEST: Duration = Duration::from_secs(30);
/// How long whoever is being answered may take when kilnd stops.
const GOODBYE: Duration = Duration::from_secs(1);
/// This process may have too many files open for a while.
const AGAIN: Duration = Duration::from_millis(500);

/// Answers whoever comes, until `stop`.
pub async fn answer(
    listener: TcpListener,
    outside: Option<Arc<Outside>>,
    router: Router,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(MOST));
    let shares = Shares::new(if outside.is_some() { OF_ONE } else { MOST });
    let mut open = JoinSet::new();
    while let Some((stream, client, place)) = stop.run_until_cancelled(next(&listener, &places)).await {
        while open.try_join_next().is_some() {}
        if outside.as_ref().is_some_and(|outside| !outside.takes(client)) {
            continue;
        }
        let Some(share) = shares.take(client) else { continue };
        let door = Door { client, outside: outside.clone() };
        let (router, stop) = (router.clone(), stop.clone());
        open.spawn(async move {
            serve(stream, door, router, stop).await;
            drop((place, share));
        });
    }
    drop(listener);
    // Who is not done by then is left in the middle.
    let _ = tokio::time::timeout(GOODBYE, async { while open.join_next().await.is_some() {} }).await;
}

async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, IpAddr, Option<tokio::sync::OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let place = places.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => return (stream, client.ip(), place),
            Err(error) => {
                tracing::debug!(%error, "a connection could not be taken");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, door: Door, router: Router, stop: CancellationToken) {
    let Some(outside) = door.outside.clone() else { return talk(stream, door, router, stop).await };
    // Whoever does not speak TLS is not answered.
    if let Ok(Ok(stream)) = tokio::time::timeout(SLOWEST, outside.tls.accept(stream)).await {
        talk(stream, door, router, stop).await;
    }
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    door: Door,
    router: Router,
    stop: CancellationToken,
) {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(door.clone());
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOWEST)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // That somebody goes away in the middle is no news.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// How many connections each address has.
#[derive(Clone)]
struct Shares {
    most: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// Given back when it is dropped.
struct Share {
    of: IpAddr,
    shares: Shares,
}

impl Shares {
    fn new(most: usize) -> Shares {
        Shares { most, taken: Arc::default() }
    }

    fn take(&self, of: IpAddr) -> Option<Share> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(of).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Share { of, shares: self.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_comes_too_many_waits_until_another_goes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let places = Arc::new(Semaphore::new(1));
        let _clients =
            [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        let first = next(&listener, &places).await;
        let waiting = tokio::time::timeout(Duration::from_millis(50), next(&listener, &places)).await;
        assert!(waiting.is_err());
        drop(first);
        next(&listener, &places).await;
    }

    #[test]
    fn one_address_does_not_take_all_places() {
        let shares = Shares::new(2);
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut held = vec![shares.take(one).unwrap(), shares.take(one).unwrap()];
        assert!(shares.take(one).is_none());
        assert!(shares.take(other).is_some());
        held.pop();
        assert!(shares.take(one).is_some());
        held.clear();
        assert!(shares.taken.lock().unwrap().is_empty());
    }
}
