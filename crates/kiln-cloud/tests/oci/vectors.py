"""Makes vectors.json: what Oracle's SDK for Python makes of keys and requests. Run once, with the packages `oci` (2.189.0)
and `cryptography` installed: python3 vectors.py > vectors.json. Each run makes a new key, which is used nowhere else."""

import base64
import datetime
import hashlib
import json

import os

os.environ["OCI_PYTHON_SDK_NO_SERVICE_IMPORTS"] = "1"
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization as s
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID
from oci._vendor import requests  # noqa: E402
from oci.auth.federation_client import AuthTokenRequestSigner  # noqa: E402
from oci.signer import Signer  # noqa: E402

PASSPHRASE = "correct horse"
DATE = "Tue, 03 Feb 2026 04:05:06 GMT"
TENANCY = "ocid1.tenancy.oc1..aaaaexample"
USER = "ocid1.user.oc1..bbbbexample"
COMPARTMENT = "ocid1.compartment.oc1..ccccexample"

key = rsa.generate_private_key(65537, 2048)
der = key.public_key().public_bytes(s.Encoding.DER, s.PublicFormat.SubjectPublicKeyInfo)
fingerprint = ":".join("%02x" % byte for byte in hashlib.md5(der).digest())


def pem(form, encryption):
    return key.private_bytes(s.Encoding.PEM, form, encryption).decode()


plain = s.NoEncryption()
encrypted = s.BestAvailableEncryption(PASSPHRASE.encode())
pkcs1 = pem(s.PrivateFormat.TraditionalOpenSSL, plain)
pkcs8 = pem(s.PrivateFormat.PKCS8, plain)

signer = Signer(TENANCY, USER, fingerprint, None, private_key_content=pkcs1)


def signed(name, method, url, body=None, enforce=True, signer=signer):
    request = requests.Request(method, url, data=body, headers={"date": DATE})
    if body is not None:
        request.headers["content-type"] = "application/json"
    prepared = request.prepare()
    done = signer.do_request_sign(prepared, enforce_content_headers=enforce)
    rest = url.split("://", 1)[1]
    host, target = rest.split("/", 1)
    has_body = "x-content-sha256" in done.headers
    return {
        "name": name,
        "key_id": signer.api_key,
        "method": method,
        "target": "/" + target,
        "host": host,
        "date": DATE,
        "body": (body or "") if has_body else None,
        "authorization": done.headers["authorization"],
        "content_sha256": done.headers.get("x-content-sha256"),
    }


core = "https://iaas.us-phoenix-1.oraclecloud.com/20160918"
launch = json.dumps({"compartmentId": COMPARTMENT, "displayName": "n-1", "shape": "VM.Standard.E5.Flex"})
cases = [
    signed("a listing", "GET", core + "/instances?compartmentId=%s&limit=1000&page=a%%3D%%3D" % COMPARTMENT),
    signed("a removal", "DELETE", core + "/instances/ocid1.instance.oc1.phx.x?preserveBootVolume=false"),
    signed("a launch", "POST", core + "/instances", launch),
    signed("an action without a body", "POST", core + "/instances/ocid1.instance.oc1.phx.x?action=STOP", ""),
    signed("a change", "PUT", core + "/instances/ocid1.instance.oc1.phx.x", '{"displayName": "n-2"}'),
    signed("a part of an object", "PUT",
           "https://objectstorage.us-phoenix-1.oraclecloud.com/n/ns/b/kiln/o/image", None, enforce=False),
]



class Retriever:
    def get_private_key(self):
        return key


# Signed with fewer headers than other requests.
federation = signed(
    "the exchange of an instance's certificate for a token",
    "POST",
    "https://auth.us-phoenix-1.oraclecloud.com/v1/x509",
    '{"certificate": "AAAA"}',
    signer=AuthTokenRequestSigner(TENANCY, "AB:CD", Retriever()),
)
# What the metadata service of an instance gives it. Signed by itself: nobody here looks at the chain.
holder = rsa.generate_private_key(65537, 2048)
subject = x509.Name([
    x509.NameAttribute(NameOID.COMMON_NAME, "ocid1.instance.oc1.phx.aaaafake"),
    x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "opc-certtype:instance"),
    x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "opc-compartment:ocid1.compartment.oc1..aaaafake"),
    x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "opc-instance:ocid1.instance.oc1.phx.aaaafake"),
    x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "opc-tenant:ocid1.tenancy.oc1..aaaafake"),
])
certificate = (
    x509.CertificateBuilder()
    .subject_name(subject)
    .issuer_name(subject)
    .public_key(holder.public_key())
    .serial_number(1)
    .not_valid_before(datetime.datetime(2026, 1, 1))
    .not_valid_after(datetime.datetime(2126, 1, 1))
    .sign(holder, hashes.SHA256())
)
leaf = certificate.public_bytes(s.Encoding.PEM).decode()
sha1 = ":".join("%02X" % byte for byte in certificate.fingerprint(hashes.SHA1()))
instance = {
    "cert.pem": leaf,
    "intermediate.pem": leaf,
    "key.pem": holder.private_bytes(s.Encoding.PEM, s.PrivateFormat.TraditionalOpenSSL, plain).decode(),
    "key id": "ocid1.tenancy.oc1..aaaafake/fed-x509/" + sha1,
}

print(json.dumps({
    "instance": instance,
    "fingerprint": fingerprint,
    "passphrase": PASSPHRASE,
    "signature_of_message": base64.b64encode(key.sign(b"message", padding.PKCS1v15(), hashes.SHA256())).decode(),
    "keys": {
        "pkcs1": pkcs1,
        "pkcs8": pkcs8,
        "pkcs8 pbkdf2": pem(s.PrivateFormat.PKCS8, encrypted),
        "with Oracle's last line": pkcs8 + "OCI_API_KEY\n",
    },
    "old_encryption": pem(s.PrivateFormat.TraditionalOpenSSL, encrypted),
    "elliptic": ec.generate_private_key(ec.SECP256R1()).private_bytes(
        s.Encoding.PEM, s.PrivateFormat.PKCS8, plain).decode(),
    "requests": cases,
    "federation": federation,
}, indent=1))
