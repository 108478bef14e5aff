//! What control and login nodes report of their services every minute, which the dashboard shows. `kiln status` and `kiln doctor`
//! ask the same questions over SSH.
//!
//! kilnd has no way to systemd, nor to other nodes. On control a timer leaves the report where kilnd reads it. A login node
//! hands it out on a port, to anybody who asks: MUNGE has wrapped it, so that kilnd alone can read it and knows that root there
//! has made it.

use kiln_spec::Role;
use kiln_wire::make::{file, service};
use kiln_wire::{Format as _, Resource, paths};

use super::{Context, OpenTo, Port, Service, Starts, Unit, checkup};
use crate::service_users::KILND;

// No image has these units.
pub const CHECKUP: Service = Service {
    name: "checkup",
    units: &[Unit::new(TIMER).starts(Starts::WithSystem)],
    resources: timer,
    ..Service::EMPTY
};

/// On login nodes.
pub const REPORT: Service = Service {
    name: "report",
    users: &[KILND],
    units: &[Unit::new(SOCKET).starts(Starts::WithSystem)],
    ports: &[Port { tcp: paths::REPORT_PORT, open_to: OpenTo::Cluster }],
    resources: socket,
    ..Service::EMPTY
};

const TIMER: &str = "kiln-checkup.timer";
const TIMER_FILE: &str = "/etc/systemd/system/kiln-checkup.timer";
const SERVICE_FILE: &str = "/etc/systemd/system/kiln-checkup.service";
const SOCKET: &str = "kiln-report.socket";
const SOCKET_FILE: &str = "/etc/systemd/system/kiln-report.socket";
const ANSWER_FILE: &str = "/etc/systemd/system/kiln-report@.service";

fn timer(context: &Context<'_>) -> Vec<Resource> {
    // What has no fields that JSON cannot have is always written.
    let json = checkup(context.spec, context.role, context.family).to_json().unwrap_or_default();
    let wrapped = if context.role == Role::Control { "" } else { " --wrapped" };
    let run = format!(
        "# Written by Kiln.\n[Unit]\nDescription=Kiln: how this node's services are\n\n\
         [Service]\nType=oneshot\nExecStart={} node checkup --report-to {}{wrapped}\n\
         RuntimeDirectory=kiln-report\nRuntimeDirectoryPreserve=yes\nTimeoutStartSec=2min\nNice=5\n\
         # That it has begun and ended every minute is nothing to keep.\nLogLevelMax=notice\n",
        paths::KILN,
        KILND.id
    );
    vec![
        Resource::File(file(paths::CHECKUP, String::from_utf8_lossy(&json))),
        Resource::File(file(SERVICE_FILE, run)),
        Resource::File(file(
            TIMER_FILE,
            "# Written by Kiln.\n[Unit]\nDescription=Kiln: how this node's services are, every minute\n\n\
             [Timer]\nOnActiveSec=5s\nOnUnitInactiveSec=1min\nAccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n",
        )),
        Resource::Service(service(TIMER, &[&format!("file:{TIMER_FILE}")])),
    ]
}

/// The time is told apart from the report, which may be a minute old: it shows whether the node's clock is right.
fn socket(_: &Context<'_>) -> Vec<Resource> {
    let port = paths::REPORT_PORT;
    let answer = format!(
        "# Written by Kiln.\n[Unit]\nDescription=Kiln: hands out what this node reports\nCollectMode=inactive-or-failed\n\n\
         [Service]\nUser=kilnd\nGroup=kilnd\nExecStart=-/bin/sh -c 'date +%%s && exec cat {}'\n\
         StandardInput=null\nStandardOutput=socket\nStandardError=null\nRuntimeMaxSec=30\nLogLevelMax=notice\n\
         NoNewPrivileges=yes\nCapabilityBoundingSet=\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\n\
         PrivateDevices=yes\nRestrictAddressFamilies=AF_UNIX\n",
        paths::REPORT
    );
    vec![
        Resource::File(file(ANSWER_FILE, answer)),
        Resource::File(file(
            SOCKET_FILE,
            format!(
                "# Written by Kiln.\n[Unit]\nDescription=Kiln: what this node reports of its services\n\n\
                 [Socket]\nListenStream={port}\nAccept=yes\nMaxConnections=16\nTriggerLimitIntervalSec=0\n\n\
                 [Install]\nWantedBy=sockets.target\n"
            ),
        )),
        Resource::Service(service(SOCKET, &[&format!("file:{SOCKET_FILE}")])),
    ]
}
