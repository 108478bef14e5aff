//! What a node needs to mount what control exports, where a volume is one node's disk.

use super::Service;

pub const NFS_CLIENT: Service = Service {
    name: "nfs client",
    wanted: Some(|spec| !spec.cloud.facts().shares_volumes),
    software: |_| &["nfs-client"],
    ..Service::EMPTY
};
