//! Listening, on this host's loopback address.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::connections::{Limited, MOST};
use crate::routes::{App, router};

/// Another program may have the port for a while.
const AGAIN: Duration = Duration::from_secs(5);
/// How long whoever is being answered may take when kilnd stops.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves until `stop`. A port that cannot be had is told, once, and tried again: kilnd has other work to do.
pub async fn serve<C: Cluster>(cluster: Arc<C>, port: u16, stop: CancellationToken) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let app = Arc::new(App::new(cluster.clone(), stop.clone()));
    let Some(listener) = stop.run_until_cancelled(listen(address)).await else { return };
    let served = axum::serve(Limited::new(listener, MOST), router(app.clone()))
        .with_graceful_shutdown(stop.clone().cancelled_owned());
    let ended = async {
        stop.cancelled().await;
        tokio::time::sleep(GOODBYE).await;
    };
    let served = async {
        tokio::select! {
            served = served.into_future() => if let Err(error) = served {
                tracing::error!(%error, "the dashboard has ended");
            },
            () = ended => {}
        }
    };
    tokio::join!(served, app.hub.watch(cluster, stop.clone()));
}

async fn listen(address: SocketAddr) -> TcpListener {
    let mut is_told = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                tracing::info!(%address, "the dashboard is served");
                return listener;
            }
            Err(error) if !is_told => {
                tracing::error!(%address, %error, "the dashboard cannot be served yet");
                is_told = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}
