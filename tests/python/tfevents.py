"""TensorBoard's event files, read by the formats' specifications and nothing of psgd: TFRecord framing, CRC-32C by its
polynomial, the wire format of protocol buffers."""
import struct

POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected


def of_byte(crc):
    for _ in range(8):
        crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc


TABLE = [of_byte(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C


def check(data, masked):
    crc = (masked - 0xA282EAD8) & 0xFFFFFFFF
    assert (crc << 15 | crc >> 17) & 0xFFFFFFFF == crc32c(data), "the checksum is wrong"


def records(path):
    raw = open(path, "rb").read()
    at = 0
    while at < len(raw):
        (n,), (of_length,) = struct.unpack_from("<Q", raw, at), struct.unpack_from("<I", raw, at + 8)
        check(raw[at : at + 8], of_length)
        data = raw[at + 12 : at + 12 + n]
        assert len(data) == n, "the last record is cut off"
        check(data, struct.unpack_from("<I", raw, at + 12 + n)[0])
        yield data
        at += 16 + n


def fields(data):
    """(number, value) of a message: an int, eight or four bytes, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        n = {1: 8, 5: 4}.get(kind) or varint()
        assert kind in (1, 2, 5) and at + n <= len(data)
        yield key >> 3, data[at : at + n]
        at += n


def events(path):
    """[(wall_time, step, {tag: value})] after the first event, which has the version."""
    out = []
    for i, data in enumerate(records(path)):
        event = dict(fields(data))
        (wall_time,) = struct.unpack("<d", event[1])
        if i == 0:
            assert event[3] == b"brain.Event:2"
            continue
        values = {}
        for number, value in fields(event[5]):
            assert number == 1
            value = dict(fields(value))
            values[value[1].decode()] = struct.unpack("<f", value[2])[0]
        out.append((wall_time, event[2], values))
    return out
