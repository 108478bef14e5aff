# Makes RPMs of Slurm's own spec file, as a site would on EL, in a Debian root that is thrown away.
# Argument: the SHA-256 of the tarball of Slurm's sources. The RPMs are in /root/rpms.
set -eu
sum=$1
cd /root
sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
apt-get -qq update
apt-get -qq source --download-only --tar-only slurm-wlm
tarball=$(echo slurm-wlm_*.orig.tar.gz)
echo "$sum  $tarball" | sha256sum --check --quiet
version=${tarball#slurm-wlm_}
version=${version%.orig.tar.gz}

mkdir -p "rpmbuild/SOURCES" "rpmbuild/SPECS" "slurm-$version"
tar -xf "$tarball" -C "slurm-$version" --strip-components=1
tar -cjf "rpmbuild/SOURCES/slurm-$version.tar.bz2" "slurm-$version"
cp "slurm-$version/slurm.spec" rpmbuild/SPECS/
rm -r "slurm-$version" "$tarball"
# Debian's Perl has its manual pages elsewhere than the spec file works out.
sed -i 's|^%define _perlman3 .*|%define _perlman3 /share/man/man3|' rpmbuild/SPECS/slurm.spec
# Where EL has PAM's modules and PMIx: the paths get into what is built.
mkdir -p /usr/lib64/security
ln -s /usr/lib/*/pmix2/include/* /usr/include/
ln -s /usr/lib/*/pmix2/lib/libpmix.so* /usr/lib64/

# What EL's packages for building have: paths, and what happens to units.
cat >/root/.rpmmacros <<'MACROS'
%_topdir /root/rpmbuild
%_buildhost tests.example.org
%dist .el9
%optflags -O1
%_smp_mflags -j%(nproc)
%_libdir /usr/lib64
%_unitdir /usr/lib/systemd/system
%systemd_post() if [ $1 -eq 1 ] && [ -x /usr/bin/systemctl ]; then systemctl --no-reload preset %{?*} || :; fi
%systemd_preun() if [ $1 -eq 0 ] && [ -x /usr/bin/systemctl ]; then systemctl --no-reload disable --now %{?*} || :; fi
%systemd_postun_with_restart() if [ $1 -ge 1 ] && [ -x /usr/bin/systemctl ]; then systemctl try-restart %{?*} || :; fi
MACROS
# What it needs is installed, but rpm does not know of Debian's packages.
rpmbuild --quiet -bb --nodeps --define '_with_pmix --with-pmix=/usr' rpmbuild/SPECS/slurm.spec >build.log 2>&1 || {
    tail -n 40 build.log >&2
    exit 1
}
mkdir rpms
cp rpmbuild/RPMS/*/*.rpm rpms/
