# Sets the manager's password to what the file has. Root need not know the former.
set -eu
{
    printf 'dn: cn=config\nchangetype: modify\nreplace: nsslapd-rootpw\nnsslapd-rootpw: '
    cat /etc/kiln/directory/password
    echo
} | ldapmodify -Q -Y EXTERNAL -H ldapi://%2frun%2fslapd-kiln.socket
