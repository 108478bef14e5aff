//! Listening: always on this host's loopback address, and to other hosts where the cluster file says so.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kiln_wire::DashboardSettings;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::connections::answer;
use crate::door::Outside;
use crate::routes::{App, router};

/// Another program may have the port for a while.
const AGAIN: Duration = Duration::from_secs(5);

/// Serves until `stop`. A port that cannot be had is told, once, and tried again: kilnd has other work to do.
pub async fn serve<C: Cluster>(cluster: Arc<C>, port: u16, stop: CancellationToken) {
    let app = Arc::new(App::new(cluster.clone(), stop.clone()));
    let router = router(app.clone());
    tokio::join!(
        inside(router.clone(), port, stop.clone()),
        outside(router, cluster.outside(), stop.clone()),
        app.hub.watch(cluster, stop.clone()),
    );
}

async fn inside(router: Router, port: u16, stop: CancellationToken) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Some(listener) = stop.run_until_cancelled(listen(address)).await else { return };
    answer(listener, None, router, stop).await;
}

/// Other settings are another door: those who came through the old one come again.
async fn outside(
    router: Router,
    mut settings: watch::Receiver<Option<DashboardSettings>>,
    stop: CancellationToken,
) {
    loop {
        let current = settings.borrow_and_update().clone();
        let until = stop.child_token();
        let mut serving = std::pin::pin!(door(router.clone(), current, until.clone()));
        tokio::select! {
            () = &mut serving => return,
            () = changed(&mut settings) => {
                until.cancel();
                serving.await;
            }
        }
    }
}

async fn changed(settings: &mut watch::Receiver<Option<DashboardSettings>>) {
    if settings.changed().await.is_err() {
        // Whoever could change them is gone.
        std::future::pending::<()>().await;
    }
}

async fn door(router: Router, settings: Option<DashboardSettings>, until: CancellationToken) {
    let Some(settings) = settings else { return until.cancelled().await };
    let outside = match Outside::new(&settings) {
        Ok(outside) => Arc::new(outside),
        Err(problem) => {
            tracing::error!(problem, "the dashboard is not served to other hosts");
            return until.cancelled().await;
        }
    };
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, settings.port));
    let Some(listener) = until.run_until_cancelled(listen(address)).await else { return };
    answer(listener, Some(outside), router, until).await;
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
