# `apt ARGUMENTS` is apt-get. Packages that a build has downloaded before are taken from a directory that outlasts builds, where the
# cloud has one; new ones are put there. They are named by their hashes, which the signed lists ask for: it does not matter
# which source they came from.
packages=/run/kiln-packages
archives=/var/cache/apt/archives
apt() {
    if [ ! -d "$packages" ]; then
        apt-get "$@"
        return
    fi
    # What goes wrong is told by the second one.
    apt-get -qq -o Acquire::ForceHash=SHA256 --print-uris "$@" 2>/dev/null | take_packages
    status=0
    apt-get "$@" || status=$?
    give_packages
    return "$status"
}
take_packages() {
    while read -r _ file _ hash; do
        stored=$packages/${hash#SHA256:}
        if [ -f "$stored" ] && [ ! -e "$archives/$file" ] &&
            printf '%s  %s\n' "${hash#SHA256:}" "$stored" | sha256sum --check --status; then
            touch "$stored"
            ln -sf "$stored" "$archives/$file"
        fi
    done
}
give_packages() {
    for file in "$archives"/*.deb; do
        if [ -f "$file" ] && [ ! -L "$file" ]; then
            hash=$(sha256sum <"$file" | cut -d ' ' -f 1)
            # A full disk costs the next build a download, and this one nothing.
            { cp "$file" "$packages/.$hash" && mv "$packages/.$hash" "$packages/$hash"; } || rm -f "$packages/.$hash"
        fi
    done
    find "$packages" -type f -mtime +30 -delete
}
