# Makes a Debian system look like one of EL, as far as Kiln and Slurm's RPMs can tell. Everything that is not Slurm is Debian's.
set -eu
libraries=/usr/lib/$(uname -m)-linux-gnu
units=/usr/lib/systemd/system

# Debian's rpm has its database elsewhere, and a plugin of its dnf breaks installations.
mkdir -p /etc/rpm /etc/yum.repos.d
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
printf '[main]\nenabled=False\n' >/etc/dnf/plugins/local.conf

# Units: those that have another name on EL, and none starts because a package was installed.
systemctl --quiet disable ssh.service
sed -e '/^Alias=/d' -e '/^\[Unit\]/a Wants=sshd-keygen.target\nAfter=sshd-keygen.target' $units/ssh.service >$units/sshd.service
rm -f $units/ssh.service $units/ssh.socket /etc/init.d/ssh
systemctl --quiet enable sshd.service
# Host keys that are missing are made before sshd starts.
mkdir -p /usr/libexec/openssh
cat >/usr/libexec/openssh/sshd-keygen <<'KEYGEN'
#!/bin/sh
rm -f "/etc/ssh/ssh_host_$1_key" "/etc/ssh/ssh_host_$1_key.pub"
exec ssh-keygen -q -t "$1" -f "/etc/ssh/ssh_host_$1_key" -C '' -N ''
KEYGEN
chmod 755 /usr/libexec/openssh/sshd-keygen
printf '[Unit]\nConditionFileNotEmpty=|!/etc/ssh/ssh_host_%%i_key\n[Service]\nType=oneshot\nExecStart=/usr/libexec/openssh/sshd-keygen %%i\n' \
    >$units/sshd-keygen@.service
printf '[Unit]\nWants=sshd-keygen@rsa.service sshd-keygen@ed25519.service\nPartOf=sshd.service\n' >$units/sshd-keygen.target
rm -f /usr/lib/systemd/system-preset/*
echo 'disable *' >/usr/lib/systemd/system-preset/99-default-disable.preset

# Libraries and modules of PAM. PMIx is nowhere else, and has no name for those who build programs.
echo /usr/lib64 >/etc/ld.so.conf.d/el.conf
mv $libraries/pmix2/lib/libpmix.so.2* /usr/lib64/
rm -f $libraries/libpmix.so*
mkdir -p /usr/lib64/security
for module in pam_slurm pam_slurm_adopt; do ln -s /usr/lib64/security/$module.so $libraries/security/; done
cat >/etc/pam.d/password-auth <<'PAM'
auth required pam_env.so
auth sufficient pam_unix.so try_first_pass
auth required pam_deny.so
account required pam_unix.so
account sufficient pam_localuser.so
account required pam_permit.so
password sufficient pam_unix.so shadow
password required pam_deny.so
session optional pam_keyinit.so revoke
session required pam_limits.so
-session optional pam_systemd.so
session required pam_unix.so
PAM
echo 'session optional pam_umask.so silent' >/etc/pam.d/postlogin

# MariaDB's settings.
mkdir -p /etc/my.cnf.d
rm -rf /etc/mysql/my.cnf /etc/mysql/conf.d /etc/mysql/mariadb.conf.d
printf '[client-server]\n!includedir /etc/my.cnf.d\n' >/etc/my.cnf
printf '[mysqld]\ndatadir=/var/lib/mysql\n' >/etc/my.cnf.d/mariadb-server.cnf

# rpm knows nothing of Debian's packages: one package says what their libraries are, as rpm itself reads them.
cd /var/tmp
{
    printf 'Name: el-release\nVersion: 9\nRelease: 1\nSummary: s\nLicense: none\nBuildArch: noarch\n'
    printf 'Provides: system-release\nProvides: rtld(GNU_HASH)\nProvides: /bin/sh\nProvides: /bin/bash\n'
    find $libraries -maxdepth 1 -name '*.so.*' | /usr/lib/rpm/elfdeps --provides | sort -u | sed 's/^/Provides: /'
    printf '%%description\ns\n%%files\n'
} >el-release.spec
rpmbuild --quiet -bb --define '_topdir /var/tmp/rpm' el-release.spec
rpm --install rpm/RPMS/noarch/*.rpm
rm -rf rpm el-release.spec

# Kiln's users are not there yet.
systemctl stop munge.service mariadb.service
for user in kilnd munge slurm mysql; do userdel "$user"; done
