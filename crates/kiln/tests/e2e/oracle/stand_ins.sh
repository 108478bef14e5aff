# At the end of an image build: what machines of Oracle Cloud have and a system without a kernel of its own has not.
# Its host need not have NFS, so files come by SFTP, at the port of NFS and without a login: whoever asks is root there, so
# this says nothing of rights. A server that was away is found again, as NFS does. Its clock is the host's.
set -eu

cat >/usr/sbin/mount.nfs <<'SCRIPT'
#!/bin/sh
# mount.nfs SERVER:PATH TARGET [-o OPTIONS]
set -eu
from=$1 to=$2 how=
shift 2
while [ $# -gt 0 ]; do
    case $1 in
        -o) for word in $(echo "$2" | tr , ' '); do
                case $word in ro | rw | nosuid | nodev) how=$how,$word ;; esac
            done
            shift ;;
    esac
    shift
done
[ -e /dev/fuse ] || mknod -m 600 /dev/fuse c 10 229
# Not a child of whoever mounts: it has to outlive that.
systemd-run --quiet --collect --service-type=forking --property=KillMode=none \
    sshfs -o "allow_other,reconnect,directport=2049,dcache_timeout=1,fsname=$from$how" "$from" "$to"
SCRIPT
chmod 755 /usr/sbin/mount.nfs
ln -s mount.nfs /usr/sbin/mount.nfs4

cat >/usr/sbin/exportfs <<'SCRIPT'
#!/bin/sh
[ "$1" != -s ] || cat /etc/exports.d/*.exports
SCRIPT
chmod 755 /usr/sbin/exportfs
mkdir -p /etc/exports.d
cat >/etc/systemd/system/nfs-server.service <<'UNIT'
[Service]
ExecStart=/usr/bin/socat TCP-LISTEN:2049,reuseaddr,fork EXEC:/usr/lib/openssh/sftp-server
[Install]
WantedBy=multi-user.target
UNIT

cat >/etc/systemd/system/chrony.service <<'UNIT'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
UNIT
printf '#!/bin/sh\necho "Leap status     : Normal"\n' >/usr/bin/chronyc
chmod 755 /usr/bin/chronyc
systemctl enable chrony.service
