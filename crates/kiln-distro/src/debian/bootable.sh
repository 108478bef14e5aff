# Arguments: packages that are needed, too.
# Adds to the image what a disk needs to start by itself: kernel, drivers, boot loader, network. What the image has stays
# as it is.
set -eu
[ "$(dpkg --print-architecture)" = amd64 ] || {
    echo 'disks can be made of images for amd64 only' >&2
    exit 1
}

# Further parameters of the kernel. The boot loader would take other characters for its own.
parameters=
if [ -e /etc/kernel/cmdline ]; then
    parameters=$(tr -s '\n\t' ' ' </etc/kernel/cmdline)
    case " $parameters" in
        *[!A-Za-z0-9_.,:=/@%+\ -]*)
            echo "the image's /etc/kernel/cmdline may have letters, digits, spaces and _.,:=/@%+- only" >&2
            exit 1
            ;;
        *' root='*)
            echo "the image's /etc/kernel/cmdline has root=, which Kiln sets: the disk would not boot" >&2
            exit 1
            ;;
    esac
fi

printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive

# An initramfs with the drivers of virtual disks, without udev, packed with what unpacks fastest: it takes a third of the
# time of Debian's. Where it is emulated, that is ten seconds.
mkdir -p /etc/dpkg/dpkg.cfg.d /etc/initramfs-tools/conf.d /etc/initramfs-tools/hooks
cat >/etc/dpkg/dpkg.cfg.d/kiln-disk <<'END'
path-exclude=/usr/share/initramfs-tools/hooks/udev
path-exclude=/usr/share/initramfs-tools/scripts/init-*/udev
END
printf 'MODULES=list\nCOMPRESS=lz4\nRESUME=none\nFSTYPE=ext4\n' >/etc/initramfs-tools/conf.d/kiln-disk
cat >/etc/initramfs-tools/hooks/kiln-disk <<'END'
#!/bin/sh
[ "$1" != prereqs ] || exit 0
. /usr/share/initramfs-tools/hook-functions
for module in virtio_pci virtio_blk virtio_scsi sd_mod nvme ext4 crc32c_generic; do
    force_load "$module"
done
# Finds the root file system; udev would, otherwise.
copy_exec "$(PATH=/usr/sbin:/sbin command -v blkid)" /sbin
END
chmod 755 /etc/initramfs-tools/hooks/kiln-disk

packages='linux-image-cloud-amd64 initramfs-tools lz4 udev kmod e2fsprogs systemd-resolved'
# shellcheck disable=SC2086
apt-get -q $lax -o Acquire::Languages=none -o Acquire::Retries=3 update
# Newer releases have it in a package of its own.
if [ -n "$(apt-cache search --names-only '^systemd-repart$')" ]; then
    packages="$packages systemd-repart"
fi
# The boot loader is written to the disk once; its packages would only take room.
loader=$(mktemp -d)
chmod 755 "$loader"
(cd "$loader" && apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 download grub-common grub-pc-bin grub-efi-amd64-bin)
# shellcheck disable=SC2086
apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold \
    -o Acquire::Retries=3 install -- $packages "$@"
kernel=$(readlink /vmlinuz)
kernel=${kernel##*vmlinuz-}
# Kernel packages do not always make it in a container.
[ -e "/boot/initrd.img-$kernel" ] || update-initramfs -c -k "$kernel"
[ -e /initrd.img ] || ln -s "boot/initrd.img-$kernel" /initrd.img

mkdir -p /boot/grub /boot/kiln
for package in "$loader"/*.deb; do
    dpkg-deb --extract "$package" "$loader"
done
# The root file system is the third partition of the disk that the loader is on.
mkimage() {
    "$loader/usr/bin/grub-mkimage" --directory "$loader/usr/lib/grub/$1" --format "$1" --prefix '(,gpt3)/boot/grub' \
        --output "/boot/kiln/$2" part_gpt ext2 normal linux probe echo minicmd $3
}
mkimage i386-pc core.img biosdisk
mkimage x86_64-efi bootx64.efi 'fat all_video efi_gop'
cp "$loader/usr/lib/grub/i386-pc/boot.img" /boot/kiln/
rm -r "$loader"
# By the links that Debian keeps pointing at the newest kernel.
cat >/boot/grub/grub.cfg <<'END'
probe --set=uuid --fs-uuid $root
set timeout=0
menuentry Linux {
    linux /vmlinuz root=UUID=$uuid ro console=tty0 console=ttyS0,115200n8 net.ifnames=0 quiet
    initrd /initrd.img
}
END
sed -i "s|quiet\$|quiet $parameters|" /boot/grub/grub.cfg

# The name comes from Kiln; networkd would start a service of its own to set it. The address is the instance's for good:
# jobs and mounts outlive that nobody renews its lease.
cat >/etc/systemd/network/50-kiln.network <<'END'
[Match]
Type=ether
Kind=!*

[Network]
DHCP=ipv4
KeepConfiguration=dhcp

[DHCPv4]
ClientIdentifier=mac
UseMTU=yes
UseHostname=no
END
# The root partition, and the file system in it, grow to the size of the disk.
mkdir -p /etc/repart.d
printf '[Partition]\nType=root\n' >/etc/repart.d/50-root.conf
# Of the hundreds of devices at boot, those that do not matter are not looked at.
mkdir -p /etc/systemd/system/systemd-udev-trigger.service.d
cat >/etc/systemd/system/systemd-udev-trigger.service.d/kiln.conf <<'END'
[Service]
ExecStart=
ExecStart=-udevadm trigger --type=devices --action=add --prioritized-subsystem=block,net --subsystem-nomatch=tty --subsystem-nomatch=vc --subsystem-nomatch=vtconsole --subsystem-nomatch=memory --subsystem-nomatch=cpu --subsystem-nomatch=workqueue --subsystem-nomatch=bdi
ExecStart=-udevadm trigger --type=devices --action=add --subsystem-match=tty --sysname-match=ttyS0
END
systemctl --quiet enable systemd-networkd.service systemd-resolved.service
# Kiln waits itself for what it needs of the network.
systemctl --quiet disable systemd-networkd-wait-online.service
systemctl --quiet disable dpkg-db-backup.timer 2>/dev/null || true
ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
