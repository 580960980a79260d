"""python-ndn as an oracle of the wire formats, driven by python_ndn.rs over pipes.

"decode" reads one packet in hex a line and says what python-ndn sees in it, or "error".
"generate SEED COUNT" writes packets that python-ndn encoded, and what is in them.
Both speak the same lines: the hex of the packet, a tab, and the fields.
"""
import random
import sys

from Cryptodome.Hash import SHA256
from Cryptodome.PublicKey import ECC
from ndn.app_support.nfd_mgmt import FaceEventNotification
from ndn.encoding import (BoolField, BytesField, Component, InterestParam, MetaInfo, ModelField, RepeatedField,
                          TlvModel, UintField, make_data, make_interest, parse_data, parse_interest)
from ndn.encoding.ndnlp_v2 import CachePolicy, LpTypeNumber, NetworkNack
from ndn.encoding.tlv_var import parse_and_check_tl
from ndn.security import (DigestSha256Signer, Ed25519Signer, HmacSha256Signer, NullSigner, Sha256WithEcdsaSigner)
from ndn.security.validator.known_key_validator import verify_ecdsa, verify_ed25519, verify_hmac

# The keys of both sides.
HMAC, ED25519, ECDSA = b"secret", ECC.construct(curve="Ed25519", seed=bytes([5] * 32)), ECC.construct(
    curve="P-256", d=int.from_bytes(bytes([6] * 32), "big"))
ED25519_DER, ECDSA_DER = ED25519.export_key(format="DER"), ECDSA.export_key(format="DER")


class Link(TlvModel):
    """A link packet by python-ndn's own numbers: its LpPacketValue lacks Sequence and has one Ack, and its parser refuses
    what has been cut."""
    sequence = BytesField(LpTypeNumber.SEQUENCE)
    frag_index = UintField(LpTypeNumber.FRAG_INDEX)
    frag_count = UintField(LpTypeNumber.FRAG_COUNT)
    pit_token = BytesField(LpTypeNumber.PIT_TOKEN)
    nack = ModelField(LpTypeNumber.NACK, NetworkNack)
    incoming_face_id = UintField(LpTypeNumber.INCOMING_FACE_ID)
    next_hop_face_id = UintField(LpTypeNumber.NEXT_HOP_FACE_ID)
    cache_policy = ModelField(LpTypeNumber.CACHE_POLICY, CachePolicy)
    congestion_mark = UintField(LpTypeNumber.CONGESTION_MARK)
    acks = RepeatedField(BytesField(LpTypeNumber.ACK))
    tx_sequence = BytesField(LpTypeNumber.TX_SEQUENCE)
    non_discovery = BoolField(LpTypeNumber.NON_DISCOVERY)
    prefix_announcement = BytesField(LpTypeNumber.PREFIX_ANNOUNCEMENT)
    fragment = BytesField(LpTypeNumber.FRAGMENT)


class LinkPacket(TlvModel):
    link = ModelField(LpTypeNumber.LP_PACKET, Link)


def hexed(value):
    return "-" if value is None else bytes(value).hex() or "empty"


def number(value):
    return "-" if value is None else str(value)


def name_of(name):
    return b"".join(bytes(c) for c in name).hex() or "empty"


def serial(value):
    """A number that is written with 8 bytes."""
    if value is not None and len(value) not in (1, 2, 4, 8):
        raise ValueError("numbers have 1, 2, 4 or 8 bytes")
    return "-" if value is None else str(int.from_bytes(value, "big"))


def show_signature(sig):
    info = sig.signature_info
    if info is None:
        return "- - - - - -"
    value = sig.signature_value_buf
    checks = {
        0: lambda: SHA256.new(b"".join(sig.signature_covered_part)).digest() == bytes(value),
        3: lambda: verify_ecdsa(ECDSA.public_key(), sig), 4: lambda: verify_hmac(HMAC, sig),
        5: lambda: verify_ed25519(ED25519.public_key(), sig), 200: lambda: len(value) == 0,
    }
    locator = "-"
    if info.key_locator is not None and info.key_locator.name is not None:
        locator = name_of(info.key_locator.name)
    elif info.key_locator is not None and info.key_locator.key_digest is not None:
        locator = "digest:" + hexed(info.key_locator.key_digest)
    right = checks.get(info.signature_type, lambda: False)()
    return " ".join([str(info.signature_type), locator, number(info.signature_nonce), number(info.signature_time),
                     number(info.signature_seq_num), str(int(right))])


def show_interest(wire):
    name, param, parameters, sig = parse_interest(wire)
    hints = ",".join(name_of(h) for h in param.forwarding_hint) or "-"
    return " ".join([
        "interest", name_of(name), str(int(bool(param.can_be_prefix))), str(int(bool(param.must_be_fresh))), hints,
        number(param.nonce), number(param.lifetime), number(param.hop_limit), hexed(parameters),
        show_signature(sig), hexed(sig.signature_value_buf)])


def show_data(wire):
    name, meta, content, sig = parse_data(wire)
    return " ".join([
        "data", name_of(name), str(meta.content_type or 0), number(meta.freshness_period or 0),
        hexed(meta.final_block_id), hexed(content), show_signature(sig), hexed(sig.signature_value_buf)])


def show_lp(wire):
    lp = Link.parse(parse_and_check_tl(wire, LpTypeNumber.LP_PACKET), {}, ignore_critical=True)
    nack = "-" if lp.nack is None else str(lp.nack.nack_reason or 0)
    policy = "-" if lp.cache_policy is None else number(lp.cache_policy.cache_policy_type)
    return " ".join([
        "lp", serial(lp.sequence), number(lp.frag_index), number(lp.frag_count), hexed(lp.pit_token), nack,
        number(lp.incoming_face_id), number(lp.next_hop_face_id), policy, number(lp.congestion_mark),
        ",".join(serial(ack) for ack in lp.acks) or "-", serial(lp.tx_sequence), str(int(bool(lp.non_discovery))),
        hexed(lp.prefix_announcement), hexed(lp.fragment)])


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
    locator = any_name(rng, 1)
    slow = [Ed25519Signer(locator, ED25519_DER), Sha256WithEcdsaSigner(locator, ECDSA_DER)]
    quick = [DigestSha256Signer(for_interest=rng.random() < 0.5), NullSigner(), HmacSha256Signer(locator, HMAC)]
    return rng.choice(slow if rng.random() < 0.1 else quick)


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
    number, serial = lambda: rng.getrandbits(rng.choice([4, 12, 30, 60])), lambda: rng.randbytes(8)
    link = Link()
    link.sequence = maybe(rng, serial)
    link.frag_index, link.frag_count = maybe(rng, number), maybe(rng, number)
    link.pit_token = maybe(rng, lambda: rng.randbytes(rng.randint(1, 32)))
    if rng.random() < 0.3:
        link.nack = NetworkNack()
        link.nack.nack_reason = rng.choice([None, 50, 100, 150, 151])
    link.incoming_face_id, link.next_hop_face_id = maybe(rng, number), maybe(rng, number)
    if rng.random() < 0.3:
        link.cache_policy = CachePolicy()
        link.cache_policy.cache_policy_type = 1
    link.congestion_mark = maybe(rng, lambda: rng.getrandbits(2))
    link.acks = [serial() for _ in range(rng.choice([0, 0, 1, 5]))]
    link.tx_sequence = maybe(rng, serial)
    link.non_discovery = rng.random() < 0.3
    link.prefix_announcement = rng.choice([None, None, any_data(rng)])
    link.fragment = rng.choice([lambda: None, lambda: any_interest(rng), lambda: any_data(rng), lambda: rng.randbytes(99)])()
    packet = LinkPacket()
    packet.link = link
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
