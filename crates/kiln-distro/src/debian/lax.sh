# `$lax` lets apt-get take lists that are older than their stated validity: those of a snapshot that the system came with, which
# has a time in its address, and those of testing, whose copies are often old. For the build alone: nodes check the validity.
# Sources that Kiln has written say for themselves what holds for them.
lax=
if grep -qrE --exclude='kiln-*' --exclude='*.kiln.disabled' '/[0-9]{8}T[0-9]{6}Z(/|$|[[:space:]])' \
    /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null ||
    grep -qx 'VERSION_CODENAME=forky' /etc/os-release; then
    lax='-o Acquire::Check-Valid-Until=false'
fi
