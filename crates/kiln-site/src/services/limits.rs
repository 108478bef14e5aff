//! Limits of users' processes, on the nodes where they run programs.

use kiln_wire::Resource;
use kiln_wire::make::file;

use super::Service;

pub const LIMITS: Service = Service {
    name: "limits",
    resources: |_| {
        vec![Resource::File(file(
            "/etc/security/limits.d/kiln.conf",
            "# Written by Kiln: RDMA and MPI pin memory.\n* soft memlock unlimited\n* hard memlock unlimited\n",
        ))]
    },
    ..Service::EMPTY
};
