# Arguments: the users of services, NAME:NUMBER each. Files on volumes belong to numbers, which packages would otherwise choose
# for every image.
set -eu
for user; do
    name=${user%:*} id=${user#*:}
    found=$(getent passwd "$name" | cut -d: -f3,4)
    if [ -z "$found" ]; then
        getent group "$name" >/dev/null || /usr/sbin/groupadd --system --gid "$id" "$name"
        /usr/sbin/useradd --system --no-log-init --no-create-home --home-dir /nonexistent \
            --shell /usr/sbin/nologin --uid "$id" --gid "$name" "$name"
        found=$(getent passwd "$name" | cut -d: -f3,4)
    fi
    [ "$found" = "$id:$id" ] || {
        echo "the source image has user $name with uid and gid $found; Kiln's images have $id. Build it upon a system, or upon an image that this Kiln has built" >&2
        exit 1
    }
done
