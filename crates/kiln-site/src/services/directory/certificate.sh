# Gives the directory server the certificate that the cluster's authority has signed.
set -eu
from=/etc/kiln/directory store=/etc/dirsrv/slapd-kiln
# A second certificate of this name would be refused.
while certutil -D -d "$store" -f "$store/pwdfile.txt" -n cluster-ca 2>/dev/null; do :; done
dsctl kiln tls import-ca /etc/kiln/directory-ca.pem cluster-ca
dsctl kiln tls import-server-key-cert "$from/certificate.pem" "$from/key.pem"
systemctl try-restart dirsrv@kiln.service
cp "$from/certificate.pem" /var/lib/state/directory/certificate.pem
