# Makes a directory and moves it whole onto the state volume. What an earlier try has left is removed first.
set -eu
state=/var/lib/state/directory
systemctl daemon-reload
systemctl stop dirsrv@kiln.service 2>/dev/null || true
rm -rf /etc/dirsrv/slapd-kiln /var/lib/dirsrv/slapd-kiln "$state.new"
dscreate from-file /etc/kiln/directory/server.inf
systemctl start dirsrv@kiln.service
ldapmodify -Q -Y EXTERNAL -H ldapi://%2frun%2fslapd-kiln.socket -f /etc/kiln/directory/entries.ldif
systemctl stop dirsrv@kiln.service
mkdir -m 0750 "$state.new"
cp -a /etc/dirsrv/slapd-kiln "$state.new/config"
cp -a /var/lib/dirsrv/slapd-kiln "$state.new/data"
chown dirsrv:dirsrv "$state.new"
sync
mv -T "$state.new" "$state"
rm -rf /etc/dirsrv/slapd-kiln /var/lib/dirsrv/slapd-kiln
