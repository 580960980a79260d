"""Makes the packets of this folder with python-ndn 0.5.2 and ndnd 1.5.3: `python make.py`, with `ndnd` in the PATH.

Keys are new at each run, so all files change together.
"""
import subprocess
from datetime import datetime, timezone

from Cryptodome.PublicKey import ECC, RSA
from ndn.app_support.light_versec import compile_lvs
from ndn.app_support.security_v2 import derive_cert, new_cert, self_sign
from ndn.encoding import Component, MetaInfo, Name, make_data
from ndn.security import Ed25519Signer, Sha256WithEcdsaSigner, Sha256WithRsaSigner


def write(name, content):
    with open(name, "wb") as file:
        file.write(bytes(content))


SCHEMES = {
    "rsa": (lambda: RSA.generate(2048), Sha256WithRsaSigner),
    "rsa1024": (lambda: RSA.generate(1024), Sha256WithRsaSigner),
    "ecdsa": (lambda: ECC.generate(curve="P-256"), Sha256WithEcdsaSigner),
    "ed25519": (lambda: ECC.generate(curve="Ed25519"), Ed25519Signer),
}
start, years = datetime(2020, 1, 1, tzinfo=timezone.utc), 40 * 365 * 86400
for scheme, (generate, Signer) in SCHEMES.items():
    root, alice = generate(), generate()
    root_name, alice_name = Name.from_str(f"/{scheme}/KEY/root"), Name.from_str(f"/{scheme}/alice/KEY/1")
    root_signer = Signer(root_name, root.export_key(format="DER"))
    root_public = root.public_key().export_key(format="DER")
    root_cert_name, root_cert = self_sign(root_name, root_public, root_signer)
    root_signer = Signer(root_cert_name, root.export_key(format="DER"))
    alice_public = alice.public_key().export_key(format="DER")
    alice_cert_name, alice_cert = derive_cert(alice_name, "root", alice_public, root_signer, start, years)
    signer = Signer(alice_cert_name, alice.export_key(format="DER"))
    packet = make_data(Name.from_str(f"/{scheme}/alice/post"), MetaInfo(freshness_period=1000), b"hello", signer)
    write(f"{scheme}.root.cert", root_cert)
    write(f"{scheme}.alice.cert", alice_cert)
    write(f"{scheme}.post.data", packet)

SCHEMA = """
#KEY: "KEY"/_/_/_
#site: "ed25519"
#root: #site/#KEY
#author: #site/author/#KEY & { author: "alice"|"bob" } <= #root
#post: #site/author/topic & { topic: $eq_type("post") } <= #author
"""
write("blog.lvs", compile_lvs(SCHEMA).encode())

for kind in ["ed25519", "ecc secp256r1"]:
    key = subprocess.run(["ndnd", "sec", "keygen", "/ndnd/alice", *kind.split()], capture_output=True, check=True).stdout
    name = f"ndnd-{kind.split()[0]}"
    write(f"{name}.key", key)
    cert = subprocess.run(["ndnd", "sec", "sign-cert", f"{name}.key", "--issuer", "self"], input=key, capture_output=True)
    write(f"{name}.cert", cert.stdout)
