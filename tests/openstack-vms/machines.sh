# Read by ../openstack-services/up (OPENSTACK_EXTRA): what makes its servers
# machines. Each function below replaces the one of that name and calls it.
# shellcheck shell=bash disable=SC2154

# The port mapper is on loopback as well, whatever it is told, and the broker wants
# its port to be free on every address.
EPMD_PORT=24370 RABBIT_DIST_PORT=25673

VMS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
again() { eval "base_$(declare -f "$1")"; }

again install_debian
install_debian() {
    local want=(libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients
        python3-libvirt qemu-system-x86 qemu-utils dnsmasq-base dnsmasq-utils iptables ipset
        conntrack genisoimage haproxy) missing=() package parts=$ROOT/apt
    base_install_debian
    for package in "${want[@]}"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    local policy=/usr/sbin/policy-rc.d made_policy='' failed='' line
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        made_policy=1
    fi
    local apt=(flock /run/lock/kiln-apt-get apt-get -q -y -o DPkg::Lock::Timeout=600)
    local install=(install --no-install-recommends "${missing[@]}")
    {
        "${apt[@]}" "${install[@]}" || { "${apt[@]}" update && "${apt[@]}" "${install[@]}"; } || {
            # qemu-utils is there from backports: then QEMU must be, too. The
            # list of backports is kept apart from the system's own.
            mkdir -p "$parts/parts" "$parts/lists/partial"
            cp /etc/apt/sources.list.d/debian.sources "$parts/parts/"
            awk '/^Suites:/ { print "Suites: bookworm-backports"; next }
                /^$/ { exit } !/^#/' /etc/apt/sources.list.d/debian.sources \
                >"$parts/parts/backports.sources"
            chmod -R a+rX "$parts"
            apt+=(-o "Dir::Etc::SourceParts=$parts/parts" -o "Dir::State::Lists=$parts/lists")
            "${apt[@]}" update &&
                "${apt[@]}" install --no-install-recommends -t bookworm-backports qemu-system-x86 &&
                "${apt[@]}" "${install[@]}"
        }
    } >>"$LOG/apt.log" 2>&1 || failed=1
    [ -z "$made_policy" ] || rm -f $policy
    [ -z "$failed" ] || die "apt-get failed: see $LOG/apt.log"
}

again install_python
install_python() {
    local site file
    base_install_python
    site=$("$BIN/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp "$VMS"/files/{bridge_ml2,bridge_interface,file_volume}.py "$site/"
    mkdir -p "$site/bridge_ml2-1.dist-info"
    printf 'Metadata-Version: 2.1\nName: bridge-ml2\nVersion: 1\n' \
        >"$site/bridge_ml2-1.dist-info/METADATA"
    printf '[neutron.ml2.mechanism_drivers]\n%s\n' 'bridge = bridge_ml2:BridgeMechanismDriver' \
        >"$site/bridge_ml2-1.dist-info/entry_points.txt"
    # PyPI has no built libvirt-python; Debian's fits any Python 3.11.
    for file in /usr/lib/python3/dist-packages/libvirt{.py,mod.cpython-311-*.so}; do
        ln -sf "$file" "$site/"
    done
    # Everything runs as root already, and finds its tools on its own path.
    printf '#!/bin/sh\nexec "$@"\n' >"$BIN/sudo"
    chmod 755 "$BIN/sudo"
}

again configure
configure() {
    local mtu
    base_configure
    mtu=$(ip -o route get 192.0.2.255 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
    mtu=$(cat "/sys/class/net/${mtu:-lo}/mtu")
    [ "$mtu" -le 1500 ] || mtu=1500
    mkdir -p "$ETC/libvirt" "$DATA"/{volumes,nova/instances} \
        "$DATA"/libvirt/{lib,cache,log,run} "$RUN/libvirt"

    # In an INI file of OpenStack's the last word on an option counts.
    #
    # cpu_mode, tb_cache_size: see README.md. ps2mouse: a USB tablet costs an
    # emulated machine dear. unsafe: the disks are worth nothing after a crash.
    cat >>"$ETC/nova/nova.conf" <<END
[DEFAULT]
compute_driver = libvirt.LibvirtDriver
instances_path = $DATA/nova/instances
force_config_drive = true
force_raw_images = false
pointer_model = ps2mouse
vif_plugging_timeout = 300
reserved_host_memory_mb = 0
resume_guests_state_on_host_boot = true
heal_instance_info_cache_interval = 0
[workarounds]
disable_rootwrap = true
[libvirt]
virt_type = qemu
connection_uri = qemu:///system?socket=$RUN/libvirt/libvirt-sock
cpu_mode = ${VM_CPU_MODE:-none}
${VM_CPU_MODELS:+cpu_models = $VM_CPU_MODELS}
hw_machine_type = x86_64=${VM_MACHINE:-pc}
tb_cache_size = ${VM_TB_CACHE:-256}
disk_cachemodes = file=unsafe,block=unsafe
mem_stats_period_seconds = 0
inject_partition = -2
[serial_console]
enabled = false
END
    cat >>"$ETC/neutron/neutron.conf" <<END
[DEFAULT]
host = compute-1
global_physnet_mtu = $mtu
dhcp_agent_notification = true
enable_traditional_dhcp = true
rpc_workers = 1
rpc_state_report_workers = 1
interface_driver = bridge_interface.BridgeInterfaceDriver
# Name servers: those of this machine, through the network's own router.
dnsmasq_local_resolv = true
dnsmasq_config_file = $ETC/neutron/dnsmasq.conf
enable_isolated_metadata = false
enable_metadata_proxy = true
metadata_proxy_socket = $RUN/metadata.sock
metadata_proxy_shared_secret = $PASSWORD
nova_metadata_host = $OPENSTACK_HOST
nova_metadata_port = $METADATA_PORT
metadata_workers = 0
# What agents ask before there is somebody to answer is lost: a minute, and
# as long again, at every start.
rpc_response_timeout = 10
[ml2]
mechanism_drivers = bridge
[securitygroup]
firewall_driver = iptables
[agent]
polling_interval = 1
report_interval = 10
END
    # dnsmasq would otherwise become a user who cannot read its own files here.
    echo user=root >"$ETC/neutron/dnsmasq.conf"
    cat >>"$ETC/cinder/cinder.conf" <<END
[DEFAULT]
enabled_backends = file
default_volume_type = file
[file]
volume_backend_name = file
volume_driver = file_volume.FileVolumeDriver
volumes_dir_path = $DATA/volumes
# Looks into images whose copy becomes a root disk. Root needs no sudo.
[cinder_sys_admin]
helper_command = $VENV/bin/privsep-helper --config-file $ETC/cinder/cinder.conf
END
    cat >"$ETC/libvirt/libvirtd.conf" <<END
unix_sock_dir = "$RUN/libvirt"
auth_unix_rw = "none"
auth_unix_ro = "none"
log_outputs = "2:stderr"
END
    # No cgroups (this machine's may be of any kind), no log daemon, no
    # confinement, no private /dev.
    cat >"$ETC/libvirt/qemu.conf" <<END
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
END
}

# libvirt has its paths built in, and the name of a user that another package
# would make: it gets them from a mount namespace of its own. /dev/kvm is hidden
# there, by a file that cannot be written: were it writable, libvirt would examine
# QEMU again, for half a minute, at every definition of a machine.
start_libvirt() {
    start libvirtd unshare --mount --propagation private sh -c '
        set -e
        for file in passwd group; do
            cp /etc/$file "$1/etc/libvirt/$file"
            chmod 644 "$1/etc/libvirt/$file"
            grep -q ^libvirt-qemu: /etc/$file || case $file in
                passwd) echo libvirt-qemu:x:64055:64055::/:/bin/false ;;
                group) echo libvirt-qemu:x:64055: ;;
            esac >>"$1/etc/libvirt/$file"
            mount --bind "$1/etc/libvirt/$file" /etc/$file
        done
        mkdir -p /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /run/libvirt
        mount --bind "$1/etc/libvirt" /etc/libvirt
        mount --bind "$1/data/libvirt/lib" /var/lib/libvirt
        mount --bind "$1/data/libvirt/cache" /var/cache/libvirt
        mount --bind "$1/data/libvirt/log" /var/log/libvirt
        mount --bind "$1/data/libvirt/run" /run/libvirt
        if [ -e /dev/kvm ]; then
            : >"$1/etc/libvirt/no-kvm"
            mount --bind "$1/etc/libvirt/no-kvm" /dev/kvm
            mount -o remount,ro,bind /dev/kvm
        fi
        exec libvirtd --config /etc/libvirt/libvirtd.conf --pid-file /run/libvirt/own.pid
    ' sh "$ROOT"
}

again start_services
start_services() {
    local neutron=(--config-file "$ETC/neutron/neutron.conf")
    start_libvirt
    base_start_services
    start time "$BIN/python" "$VMS/files/time_server.py" "$OPENSTACK_HOST"
    start neutron-rpc "$BIN/neutron-rpc-server" "${neutron[@]}"
    start neutron-bridge "$BIN/python" "$VMS/files/bridge_agent.py" "${neutron[@]}"
    start neutron-dhcp "$BIN/neutron-dhcp-agent" "${neutron[@]}"
    start neutron-l3 "$BIN/neutron-l3-agent" "${neutron[@]}"
    start neutron-metadata "$BIN/neutron-metadata-agent" "${neutron[@]}"
    wait_for 60 libvirtd virsh -c "qemu:///system?socket=$RUN/libvirt/libvirt-sock" version
}
