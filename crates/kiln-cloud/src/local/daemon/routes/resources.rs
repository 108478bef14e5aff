//! Images, volumes, networks, security groups, flavors.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;

use super::super::access::Caller;
use super::super::server::blocking;
use super::{App, Failure, Reply};
use crate::local::flavor;
use crate::local::wire::{LabelRequest, SourceRequest, SourceStatus};
use crate::{
    AddressRange, Error, Flavor, Image, Layers, Network, NewNetwork, NewSecurityGroup, NewVolume,
    SecurityGroup, Volume,
};

#[derive(Deserialize)]
pub struct Of {
    cluster: String,
}

pub async fn images(State(server): App, _: Caller) -> Reply<Vec<Image>> {
    server.perform("images", |d| Ok(d.images())).await
}

pub async fn used_images(State(server): App, caller: Caller) -> Reply<BTreeSet<String>> {
    server.perform("used_images", move |d| d.used_images(&caller)).await
}

pub async fn image(State(server): App, _: Caller, Path(id): Path<String>) -> Reply<Image> {
    server.perform("image", move |d| d.image(&id)).await
}

pub async fn layers(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<Layers> {
    server.perform("layers", move |d| d.layers_of(&caller, &id)).await
}

pub async fn delete_image(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    server.perform("delete_image", move |d| d.delete_image(&caller, &id)).await
}

pub async fn source_image(
    State(server): App,
    caller: Caller,
    Json(request): Json<SourceRequest>,
) -> Reply<SourceStatus> {
    let again = request.clone();
    let Json((status, begin)) = server
        .perform("source_image", move |d| {
            caller.check_root()?;
            d.source_status(&request)
        })
        .await?;
    if begin {
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let _at_work = server.work.read().await;
            let daemon = Arc::clone(&server.daemon);
            let _ = tokio::task::spawn_blocking(move || daemon.make_source(&again)).await;
        });
    }
    Ok(Json(status))
}

#[derive(Deserialize)]
pub struct VolumeQuery {
    cluster: Option<String>,
    name: Option<String>,
}

pub async fn volumes(
    State(server): App,
    caller: Caller,
    Query(query): Query<VolumeQuery>,
) -> Reply<Vec<Volume>> {
    server
        .perform("volumes", move |d| match (query.cluster, query.name) {
            (_, Some(name)) => Ok(d.volume_by_name(&caller, &name).into_iter().collect()),
            (Some(cluster), None) => Ok(d.volumes(&caller, &cluster)),
            (None, None) => Err(Error::refused("a cluster or a name is needed")),
        })
        .await
}

pub async fn create_volume(State(server): App, caller: Caller, Json(new): Json<NewVolume>) -> Reply<Volume> {
    server.perform("create_volume", move |d| d.create_volume(&caller, new)).await
}

pub async fn grow_volume(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(size_gib): Json<u64>,
) -> Reply<Volume> {
    server.perform("grow_volume", move |d| d.grow_volume(&caller, &id, size_gib)).await
}

pub async fn delete_volume(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    server.perform("delete_volume", move |d| d.delete_volume(&caller, &id)).await
}

pub async fn networks(State(server): App, caller: Caller, Query(of): Query<Of>) -> Reply<Vec<Network>> {
    server.perform("networks", move |d| Ok(d.networks(&caller, &of.cluster))).await
}

pub async fn create_network(
    State(server): App,
    caller: Caller,
    Json(new): Json<NewNetwork>,
) -> Reply<Network> {
    let owner = caller.clone();
    let reply = server.perform("create_network", move |d| d.create_network(&caller, new)).await?;
    if let Err(error) = server.open_gateway(&reply).await {
        let id = reply.id.clone();
        let _ = blocking({
            let daemon = Arc::clone(&server.daemon);
            move || daemon.delete_network(&owner, &id)
        })
        .await;
        return Err(Failure(error));
    }
    Ok(reply)
}

pub async fn set_automatic(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(ranges): Json<Vec<AddressRange>>,
) -> Reply<()> {
    server.perform("set_automatic", move |d| d.set_automatic(&caller, &id, ranges)).await
}

pub async fn delete_network(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    let gateway = id.clone();
    let reply = server.perform("delete_network", move |d| d.delete_network(&caller, &id)).await?;
    server.close_gateway(&gateway);
    Ok(reply)
}

pub async fn groups(State(server): App, caller: Caller, Query(of): Query<Of>) -> Reply<Vec<SecurityGroup>> {
    server.perform("security_groups", move |d| Ok(d.security_groups(&caller, &of.cluster))).await
}

pub async fn create_group(
    State(server): App,
    caller: Caller,
    Json(new): Json<NewSecurityGroup>,
) -> Reply<SecurityGroup> {
    server.perform("create_security_group", move |d| d.create_security_group(&caller, new)).await
}

pub async fn delete_group(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    server.perform("delete_security_group", move |d| d.delete_security_group(&caller, &id)).await
}

pub async fn label(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(request): Json<LabelRequest>,
) -> Reply<()> {
    server.perform("label", move |d| d.label(&caller, request.kind, &id, request.labels)).await
}

pub async fn flavors(State(server): App, _: Caller) -> Reply<Vec<Flavor>> {
    server.perform("flavors", |_| Ok(flavor::all())).await
}
