"""python-ndn as an oracle of the wire formats, driven by python_ndn.rs over pipes.

"decode" reads one packet in hex a line and says what python-ndn sees in it, or "error".
"generate SEED COUNT" writes packets that python-ndn encoded, and what is in them.
Both speak the same lines: the hex of the packet, a tab, and the fields.
"""
import random
import sys

from ndn.app_support.nfd_mgmt import FaceEventNotification
from ndn.encoding import (Component, InterestParam, MetaInfo, Name, make_data, make_interest, parse_data,
                          parse_interest)
from ndn.encoding.ndnlp_v2 import LpPacket, LpPacketValue, NetworkNack, parse_lp_packet_v2
from ndn.security import DigestSha256Signer, HmacSha256Signer, NullSigner


def hexed(value):
    return "-" if value is None else bytes(value).hex() or "empty"


def number(value):
    return "-" if value is None else str(value)


def name_of(name):
    return b"".join(bytes(c) for c in name).hex() or "empty"


def show_interest(wire):
    name, param, parameters, sig = parse_interest(wire)
    hints = ",".join(name_of(h) for h in param.forwarding_hint) or "-"
    kind = "-" if sig.signature_info is None else str(sig.signature_info.signature_type)
    return " ".join([
        "interest", name_of(name), str(int(bool(param.can_be_prefix))), str(int(bool(param.must_be_fresh))), hints,
        number(param.nonce), number(param.lifetime), number(param.hop_limit), hexed(parameters), kind,
        hexed(sig.signature_value_buf)])


def show_data(wire):
    name, meta, content, sig = parse_data(wire)
    kind = "-" if sig.signature_info is None else str(sig.signature_info.signature_type)
    return " ".join([
        "data", name_of(name), str(meta.content_type or 0), number(meta.freshness_period or 0),
        hexed(meta.final_block_id), hexed(content), kind, hexed(sig.signature_value_buf)])


def show_lp(wire):
    lp = parse_lp_packet_v2(wire)
    nack = "-" if lp.nack is None else str(lp.nack.nack_reason or 0)
    return " ".join(["lp", hexed(lp.pit_token), nack, number(lp.congestion_mark), hexed(lp.fragment)])


def show_face_event(wire):
    event = FaceEventNotification.parse(wire).event
    return " ".join([
        "face", event.face_event_kind.name.lower(), str(event.face_id), event.uri, event.local_uri,
        event.face_scope.name.lower(), event.face_persistency.name.lower(), str(event.flags.value)])


def show(wire):
    return {5: show_interest, 6: show_data, 100: show_lp, 192: show_face_event}[wire[0]](wire)


def decode():
    for line in sys.stdin:
        wire = bytes.fromhex(line.strip())
        try:
            shown = show(wire)
        except Exception:  # whatever it trips over, it does not take the packet
            shown = "error"
        print(shown)


def any_name(rng, least):
    parts = []
    for _ in range(rng.randint(least, 7)):
        kind = rng.choice([8, 8, 8, 32, 50, 54, 56, 58, 300, 65535])
        parts.append(Component.from_bytes(rng.randbytes(rng.choice([0, 1, 2, 8, 30])), kind))
    return parts


def any_signer(rng):
    return rng.choice([DigestSha256Signer(for_interest=False), NullSigner(), HmacSha256Signer("/k", b"secret")])


def maybe(rng, value):
    return value() if rng.random() < 0.5 else None


def any_interest(rng):
    param = InterestParam(
        can_be_prefix=rng.random() < 0.5, must_be_fresh=rng.random() < 0.5,
        nonce=maybe(rng, lambda: rng.getrandbits(32)), lifetime=maybe(rng, lambda: rng.getrandbits(rng.choice([4, 12, 30, 60]))),
        hop_limit=maybe(rng, lambda: rng.getrandbits(8)),
        forwarding_hint=[any_name(rng, 0) for _ in range(rng.choice([0, 0, 1, 3]))])
    parameters = maybe(rng, lambda: rng.randbytes(rng.choice([0, 1, 60, 300])))
    signer = any_signer(rng) if parameters is not None and rng.random() < 0.7 else None
    return bytes(make_interest(any_name(rng, 1), param, parameters, signer))


def any_data(rng):
    meta = MetaInfo(content_type=rng.choice([0, 0, 2, 3, 1024]), freshness_period=maybe(rng, lambda: rng.getrandbits(20)),
                    final_block_id=maybe(rng, lambda: Component.from_segment(rng.getrandbits(20))))
    content = maybe(rng, lambda: rng.randbytes(rng.choice([0, 1, 200, 3000])))
    return bytes(make_data(any_name(rng, 0), meta, content, any_signer(rng)))


def any_lp(rng):
    value = LpPacketValue()
    value.pit_token = maybe(rng, lambda: rng.randbytes(rng.randint(1, 32)))
    if rng.random() < 0.3:
        value.nack = NetworkNack()
        value.nack.nack_reason = rng.choice([50, 100, 150])
    value.congestion_mark = maybe(rng, lambda: rng.getrandbits(2))
    value.fragment = any_interest(rng)
    packet = LpPacket()
    packet.lp_packet = value
    return bytes(packet.encode())


def generate(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        wire = rng.choice([any_interest, any_data, any_lp])(rng)
        print(wire.hex() + "\t" + show(wire))


if __name__ == "__main__":
    if sys.argv[1] == "decode":
        decode()
    else:
        generate(int(sys.argv[2]), int(sys.argv[3]))
