# Arguments: the packages, as NAME, NAME:ARCHITECTURE, or either with =VERSION.
set -eu
# The update may have brought the system's own repositories back.
if [ -e /etc/yum.repos.d/kiln-only ]; then
    for file in /etc/yum.repos.d/*.repo; do
        case ${file##*/} in kiln-*) ;; *) mv "$file" "$file.kiln.disabled" ;; esac
    done
fi
count=$#
while [ "$count" -gt 0 ]; do
    package=$1 version='' architecture=''
    shift
    case $package in *=*) version=-${package#*=} package=${package%%=*} ;; esac
    case $package in *:*) architecture=.${package#*:} package=${package%%:*} ;; esac
    set -- "$@" "$package$version$architecture"
    count=$((count - 1))
done
exec dnf -y --setopt='*.skip_if_unavailable=0' --setopt=best=1 --setopt=retries=3 --setopt=install_weak_deps=0 install -- "$@"
