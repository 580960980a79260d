"""A small store that speaks S3: it checks signatures of version 4 by itself and delivers ranges of one object.

usage: s3.py PORT FILE BUCKET KEY ID SECRET REGION
"""
import hashlib
import hmac
import sys
import urllib.parse
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, path, bucket, key, identity, secret, region = sys.argv[1:]
body = open(path, "rb").read()


class Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def refuse(self, status, code):
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def objection(self):
        given = self.headers.get("Authorization")
        if given is None:
            return "AccessDenied"
        scheme, _, rest = given.partition(" ")
        fields = dict(field.strip().split("=", 1) for field in rest.split(","))
        name, date, *scope = fields["Credential"].split("/")
        time = self.headers["x-amz-date"]
        if scheme != "AWS4-HMAC-SHA256" or name != identity or scope != [region, "s3", "aws4_request"]:
            return "InvalidAccessKeyId"
        sent = datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
        if date != time[:8] or abs((datetime.now(timezone.utc) - sent).total_seconds()) > 900:
            return "RequestTimeTooSkewed"
        names = fields["SignedHeaders"].split(";")
        if not {"host", "x-amz-content-sha256", "x-amz-date"} <= set(names):
            return "AccessDenied"
        canonical = "\n".join(
            ["GET", urllib.parse.quote(urllib.parse.unquote(self.path), safe="/-_.~"), ""]
            + [f"{name}:{' '.join(self.headers[name].split())}" for name in names]
            + ["", ";".join(names), self.headers["x-amz-content-sha256"]]
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", time, "/".join([date, *scope]), digest])
        signing = ("AWS4" + secret).encode()
        for part in (date, *scope):
            signing = hmac.new(signing, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(signing, text.encode(), hashlib.sha256).hexdigest()
        return None if hmac.compare_digest(signature, fields["Signature"]) else "SignatureDoesNotMatch"

    def do_GET(self):
        objection = self.objection()
        if objection:
            return self.refuse(403, objection)
        if urllib.parse.unquote(self.path) != f"/{bucket}/{key}":
            return self.refuse(404, "NoSuchKey")
        wanted = self.headers.get("Range")
        first, last = 0, len(body) - 1
        if wanted:
            first, last = (int(end) for end in wanted.removeprefix("bytes=").split("-"))
            last = min(last, len(body) - 1)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        self.send_header("ETag", '"' + hashlib.md5(body).hexdigest() + '"')
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        self.wfile.write(body[first : last + 1])

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(port)), Store).serve_forever()
