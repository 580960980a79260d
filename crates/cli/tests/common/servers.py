"""Web servers as they are: one server whose answers have the habit that the path names, /HABIT/CLIENT/MIRROR/file.

usage: servers.py FOLDER

Writes the files that may arrive to FOLDER, and prints the port, then each habit with its mirrors, checksum and files as a line of
JSON. Habits were seen in bug reports of aria2, curl, pip, rustup, conan, httrack, hyper and others. Each row of HABITS is what a
server by the book does (`answer`), but for the arguments.
"""
import gzip, hashlib, json, os, random, re, socket, struct, sys, threading, time, zlib

NEW, OLD, LONGER = (random.Random(seed).randbytes(size) for seed, size in ((1, 2_500_000), (2, 2_500_000), (3, 2_600_000)))
TAR, TEXT = gzip.compress(NEW, 1), b"".join(b"line %d of a text\n" % n for n in range(60_000))
SLOW = random.Random(4).randbytes(4_000_000)
PAGE = b"<html>Please log in to use this network.</html>\n" * 9
DATE = "Sat, 28 Nov 2026 10:00:00 GMT"


class Reset(Exception):
    pass


class Request:
    def __init__(self, head, connection):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = lines[0].split(" ", 2)
        self.fields = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:] if ":" in line)}
        parts = self.path.partition("?")[0].split("/")
        self.habit, self.client, self.mirror = parts[1], parts[2], int(parts[3])
        self.connection, self.rest = connection, "/".join(parts[4:])
        with LOCK:
            key = (self.habit, self.client)
            self.state = STATES.setdefault(key, {"requests": 0, "open": 0})
            self.number = self.state["requests"]
            self.state["requests"] += 1

    def range(self, size):
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.fields.get("range", ""))
        return found and (int(found[1]), min(int(found[2] or size) + 1, size) if found[2] else size)

    def send(self, data, rate=None):
        step = rate // 20 if rate else len(data) or 1
        for at in range(0, len(data), step):
            self.connection.sendall(data[at : at + step])
            if rate:
                time.sleep(0.05)

    def link(self, rest="file", mirror=None):
        return f"http://127.0.0.1:{PORT}/{self.habit}/{self.client}/{self.mirror if mirror is None else mirror}/{rest}"


def answer(r, data=NEW, *, status=None, etag='"v1"', date=DATE, ranges=True, refuse=None, limit=None, align=1, less=0, more_end=0, whole=False,
           cr="Content-Range: bytes {0}-{1}/{2}", length="Content-Length: {}", chunked=False, fields=(), version="HTTP/1.1", eol="\r\n", close=False,
           rate=None, cut=None, extra=b"", before=b"", head_length=None, if_range=True, multipart=False):
    size, asked = len(data), r.range(len(data)) if ranges else None
    condition = r.fields.get("if-range")
    asked = None if condition and (not if_range or condition not in (etag, date)) else asked
    first, end, code, lines = 0, size, 200, []
    if asked and refuse:
        return plain(r, refuse)
    if asked and asked[0] >= size:
        return plain(r, 416, f"Content-Range: bytes */{size}")
    if asked:
        first, end = (0, size) if whole else (asked[0] - asked[0] % align, asked[1] - less)
        end, code = min(end, first + limit) if limit else end, status or 206
        lines += [cr.format(first, end - 1 + more_end, size)] if cr else []
    body = data[first:end]
    if asked and multipart:
        body = b"--x\r\nContent-Type: a/b\r\nContent-Range: bytes %d-%d/%d\r\n\r\n" % (first, end - 1, size) + body + b"\r\n--x--\r\n"
        lines = ["Content-Type: multipart/byteranges; boundary=x"]
    lines += [f"ETag: {etag}"] * bool(etag) + [f"Last-Modified: {date}"] * bool(date) + list(fields)
    shown = head_length if head_length is not None and r.method == "HEAD" else len(body)
    lines += ["Transfer-Encoding: chunked"] if chunked else [length.format(shown)] if length else []
    head = eol.join([f"{version} {code} OK", *lines, "", ""]).encode("latin-1")
    r.send(before + head)
    if r.method == "HEAD":
        return close
    if chunked:
        body = b"".join(b"%x\r\n%s\r\n" % (len(body[at : at + 40_000]), body[at : at + 40_000]) for at in range(0, len(body), 40_000)) + b"0\r\n\r\n"
    if cut and len(body) > cut:
        r.send(body[:cut])
        time.sleep(0.2)
        raise Reset
    r.send(body + extra, rate)
    return close or not length and not chunked


def plain(r, status, *fields, body=b"no\n"):
    r.send("\r\n".join([f"HTTP/1.1 {status} Other", *fields, f"Content-Length: {len(body)}", "", ""]).encode() + (b"" if r.method == "HEAD" else body))


def one_connection(status, *fields):
    def habit(r):
        with LOCK:
            r.state["open"] += 1
        try:
            return plain(r, status, *fields) if r.state["open"] > 1 else answer(r, SLOW, rate=800_000)
        finally:
            with LOCK:
                r.state["open"] -= 1
    return habit


def redirect(r, to, status=302, *fields, **more):
    return answer(r, **more) if r.rest != "file" else plain(r, status, f"Location: {to}", *fields)


def expiring(r):
    if r.rest == "file":
        return plain(r, 302, f"Location: {r.link(f'at{int(time.monotonic() * 4)}')}")
    return plain(r, 403) if int(r.rest[2:]) + 2 < time.monotonic() * 4 else answer(r, SLOW, rate=1_500_000)


def with_cookie(r):
    return answer(r) if "pass=1" in r.fields.get("cookie", "") else plain(r, 302, f"Location: {r.link()}", "Set-Cookie: pass=1; Path=/")


def by_mirror(*habits):
    return lambda r: habits[r.mirror % len(habits)](r)


def of(data=NEW, **more):
    return lambda r: answer(r, data, **more)


def per(**make):
    return lambda r: answer(r, **{name: of_request(r) for name, of_request in make.items()})


def flipped(r):
    wrong = bytearray(NEW)
    wrong[1_000_000] ^= 1
    return answer(r, bytes(wrong))


def once(r):
    return answer(r) if r.state.setdefault("gets", 0) == 0 and r.method == "GET" and not r.state.update(gets=1) else plain(r, 410)


def closes(r):
    answer(r)
    return True


def advertised(r):
    if r.rest != "file":
        return answer(r, rate=1_000_000)
    digest = __import__("base64").b64encode(hashlib.sha256(NEW).digest()).decode()
    links = [f"Link: <{r.link('copy', n)}>; rel=duplicate; pri={n}" for n in (1, 2)]
    return answer(r, rate=300_000, fields=(*links, f"Digest: SHA-256={digest}"))


# name: (answer, mirrors, whether the checksum is given, the files that may arrive)
def row(habit, mirrors=0, checksum=False, files=(NEW,)):
    return habit, mirrors, checksum, files


HABITS = {
    "by-the-book": row(of()),
    "empty-file": row(of(b""), files=(b"",)),
    "no-validators": row(of(etag=None, date=None)),
    "weak-tag": row(of(etag='W/"v1"', date=None)),
    "date-alone": row(of(etag=None)),
    "date-in-an-odd-format": row(of(etag=None, date="2026-11-28 10:00:00 +0200")),
    "date-in-the-future": row(of(etag=None, date="Fri, 01 Jan 2100 00:00:00 GMT")),
    "other-tag-for-each-request": row(per(etag=lambda r: f'"{r.number}"', date=lambda r: None)),
    "other-tag-and-date-for-each-request": row(per(etag=lambda r: f'"{r.number}"', date=lambda r: f"Sat, 28 Nov 2026 10:00:{r.number % 60:02} GMT")),
    "if-range-not-known": row(of(if_range=False)),
    "ranges-ignored": row(of(ranges=False)),
    "ranges-ignored-no-validators": row(of(ranges=False, etag=None, date=None)),
    **{f"ranges-refused-with-{status}": row(of(refuse=status)) for status in (400, 403, 416, 500, 501)},
    "ranges-refused-from-the-second-request-on": row(per(refuse=lambda r: 416 if r.number else None)),
    "whole-file-as-206": row(of(whole=True)),
    "slice-as-200": row(of(status=200)),
    "short-ranges": row(of(limit=200_000)),
    "ranges-from-block-boundaries": row(of(align=65_536)),
    "ranges-without-their-last-byte": row(of(less=1)),
    "range-without-total": row(of(cr="Content-Range: bytes {0}-{1}/*")),
    "range-without-slash": row(of(cr="Content-Range: bytes {0}-{1}")),
    "range-with-equals": row(of(cr="Content-Range: bytes={0}-{1}/{2}")),
    "range-with-colon": row(of(cr="content-range: Bytes: {0}-{1}/{2}")),
    "range-with-spaces": row(of(cr="CONTENT-RANGE:   bytes  {0} - {1} / {2}  ")),
    "range-with-a-wrong-end": row(of(more_end=1)),
    "range-as-a-fraction": row(of(cr="Content-Range: -0.99999998516848")),
    "206-without-content-range": row(of(cr=None)),
    "multipart-byteranges": row(of(multipart=True)),
    "chunked": row(of(chunked=True, ranges=False)),
    "chunked-no-validators-with-checksum": row(of(chunked=True, ranges=False, etag=None, date=None), checksum=True),
    "chunked-ranges": row(of(chunked=True)),
    "until-close": row(of(length=None, ranges=False, version="HTTP/1.0")),
    "http-1.0-with-ranges": row(of(version="HTTP/1.0", close=True)),
    "length-and-chunked": row(of(chunked=True, ranges=False, fields=("Content-Length: 7",))),
    "length-twice": row(of(length="Content-Length: {0}\r\nContent-Length: {0}")),
    "length-as-a-list": row(of(length="Content-Length: {0}, {0}", close=True)),
    "wrong-length-to-head": row(of(head_length=5)),
    "no-head": row(lambda r: plain(r, 405) if r.method == "HEAD" else answer(r)),
    "tarball-marked-gzip": row(of(TAR, fields=("Content-Encoding: x-gzip", "Content-Type: application/x-tar")), checksum=True, files=(TAR,)),
    "tarball-marked-gzip-no-checksum": row(of(TAR, fields=("Content-Encoding: gzip", "Content-Type: application/gzip")), files=(TAR,)),
    "marked-gzip-and-is-none": row(of(fields=("Content-Encoding: gzip",)), checksum=True),
    "marked-utf-8": row(of(fields=("Content-Encoding: UTF-8",))),
    "compressed-although-identity": row(of(gzip.compress(TEXT), chunked=True, ranges=False, fields=("Content-Encoding: gzip",)), checksum=True, files=(TEXT,)),
    "deflated-although-identity": row(of(zlib.compress(TEXT), ranges=False, fields=("Content-Encoding: deflate",)), checksum=True, files=(TEXT,)),
    "redirector-to-many-mirrors": row(lambda r: redirect(r, r.link(f"m{r.number}"), etag=f'"{r.rest}"', date=None)),
    "redirector-to-many-mirrors-with-checksum": row(lambda r: redirect(r, r.link(f"m{r.number}"), etag=f'"{r.number}"', date=None), checksum=True),
    "relative-redirect": row(lambda r: redirect(r, "other")),
    "redirect-with-a-space": row(lambda r: redirect(r, "the file")) ,
    "redirect-in-utf-8": row(lambda r: redirect(r, "d\u00e4tei") if r.rest == "file" else answer(r)),
    **{f"redirect-{status}": row(lambda r, status=status: redirect(r, "other", status)) for status in (300, 301, 303, 307, 308)},
    "redirect-that-expires": row(expiring, files=(SLOW,)),
    "redirect-back-with-a-cookie": row(with_cookie),
    "address-for-one-request": row(once, mirrors=1),
    **{f"one-connection-{status}": row(one_connection(status), files=(SLOW,)) for status in (403, 429, 503)},
    "one-connection-503-retry-after": row(one_connection(503, "Retry-After: 1"), files=(SLOW,)),
    "busy-twice": row(lambda r: plain(r, 503, "Retry-After: 1") if r.number < 2 else answer(r)),
    "fails-twice": row(lambda r: plain(r, 502) if r.number < 2 else answer(r)),
    "reset-in-each-answer": row(of(cut=400_000)),
    "reset-once": row(per(cut=lambda r: None if r.number else 400_000)),
    "reset-once-without-ranges": row(per(cut=lambda r: None if r.number else 400_000, ranges=lambda r: False)),
    "reset-once-while-chunked": row(per(cut=lambda r: None if r.number else 400_000, ranges=lambda r: False, chunked=lambda r: True)),
    "keeps-alive-and-closes": row(closes),
    "bytes-behind-the-body": row(of(extra=b"<!-- end -->")),
    "early-hints": row(of(before=b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")),
    "folded-field": row(of(fields=("X-Policy: a,\r\n   b",))),
    "space-before-colon": row(of(fields=("Server : old",))),
    "words-between-fields": row(of(fields=("PHP Warning:  module (mcrypt.so) cannot be loaded in Unknown on line 0",))),
    "control-character-in-a-field": row(of(fields=("X-Odd: a\x7fb",))),
    "latin-1-in-a-field": row(of(fields=("Content-Disposition: attachment; filename=d\xe4tei",))),
    "line-feeds-alone": row(of(eol="\n")),
    "no-reason": row(lambda r: r.send(b"HTTP/1.1 200 \r\nContent-Length: %d\r\n\r\n" % len(NEW) + (b"" if r.method == "HEAD" else NEW))),
    "status-203": row(lambda r: r.send(b"HTTP/1.1 203 Non-Authoritative\r\nContent-Length: %d\r\n\r\n" % len(NEW) + (b"" if r.method == "HEAD" else NEW))),
    "login-page-first": row(by_mirror(of(PAGE, ranges=False), of(), of()), 3, True),
    "login-page-first-no-checksum": row(by_mirror(of(PAGE, ranges=False), of(), of()), 3),
    "login-page-and-one-mirror": row(by_mirror(of(PAGE, ranges=False), of()), 2, True),
    "login-pages-on-most-mirrors": row(by_mirror(of(PAGE, ranges=False), of(PAGE, ranges=False), of()), 3, True),
    "longer-file-first": row(by_mirror(of(LONGER), of()), 2, True),
    "longer-file-first-no-checksum": row(by_mirror(of(LONGER), of(), of()), 3),
    "older-file-of-this-size-first": row(by_mirror(of(OLD), of(), of()), 3),
    "older-file-of-this-size-first-with-checksum": row(by_mirror(of(OLD), of()), 2, True),
    "a-byte-is-wrong-on-the-first-mirror": row(by_mirror(flipped, of()), 2, True),
    "a-mirror-is-gone": row(by_mirror(lambda r: plain(r, 404), of()), 2),
    "a-mirror-says-no-length": row(by_mirror(of(chunked=True, ranges=False), of()), 2),
    "changes-after-the-first-request": row(lambda r: answer(r, OLD if r.number == 0 else NEW, etag=f'"{r.number == 0}"', cut=None if r.number else 400_000), files=(OLD, NEW)),
    "mirrors-in-fields-of-the-answer": row(advertised, mirrors=1),
}
STATES, LOCK = {}, threading.Lock()


def serve(connection):
    rest = b""
    try:
        while True:
            while b"\r\n\r\n" not in rest:
                more = connection.recv(65_536)
                if not more:
                    return
                rest += more
            head, rest = rest.split(b"\r\n\r\n", 1)
            r = Request(head, connection)
            if HABITS[r.habit][0](r):
                return
    except Reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except (OSError, ValueError, KeyError, IndexError):
        pass
    finally:
        connection.close()


listener = socket.create_server(("127.0.0.1", 0), backlog=128)
PORT, folder = listener.getsockname()[1], sys.argv[1]
print(PORT)
for name, (_, mirrors, checksum, files) in HABITS.items():
    paths = []
    for number, data in enumerate(files):
        paths.append(os.path.join(folder, f"{name}.{number}"))
        with open(paths[-1], "wb") as file:
            file.write(data)
    print(json.dumps({"habit": name, "mirrors": mirrors, "sha256": hashlib.sha256(files[0]).hexdigest() if checksum else None, "files": paths}))
print("end", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
