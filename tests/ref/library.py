"""Codecs 5 and 6 of compress/FORMAT.md: blocks of 128 KiB.  The LZ4 block format is decoded here; zstd by Python 3.14 or by the
command `zstd`, where one of them is."""
import shutil
import struct
import subprocess

BLOCK = 128 << 10


class Wrong(Exception):
    pass


class Missing(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Wrong(why)


def lz4_length(data, at, n):
    while n >= 15:
        need(at < len(data), "lz4 length")
        byte, at = data[at], at + 1
        n += byte
        if byte < 255:
            break
    return n, at


def lz4_block(data, size):
    out, at = bytearray(), 0
    while True:
        need(at < len(data), "lz4 token")
        token, at = data[at], at + 1
        n, at = lz4_length(data, at, token >> 4)
        need(n <= len(data) - at and n <= size - len(out), "lz4 literals")
        out += data[at:at + n]
        at += n
        if at == len(data):
            need(len(out) == size, "lz4 size")
            return bytes(out)
        need(at + 2 <= len(data), "lz4 distance")
        back = data[at] | data[at + 1] << 8
        n, at = lz4_length(data, at + 2, token & 15)
        n += 4
        need(0 < back <= len(out) and n <= size - len(out) - 5, "lz4 match")
        for _ in range(n):
            out.append(out[-back])


def zstd_block(data, size):
    need(data[:4] == b"\x28\xb5\x2f\xfd", "zstd frame")
    try:
        from compression import zstd
        out = zstd.decompress(data)
    except ImportError:
        if shutil.which("zstd") is None:
            raise Missing("zstd")
        got = subprocess.run(["zstd", "-dcq"], input=data, capture_output=True)
        need(got.returncode == 0, "zstd block")
        out = got.stdout
    need(len(out) == size, "zstd size")
    return out


DECODE = {5: zstd_block, 6: lz4_block}


def decode(codec, view, count, payload, raw, chance):
    blocks = -(-raw // BLOCK)
    need(view < 5 and count == blocks and len(payload) >= 4 * blocks, "head")
    places, at = [], 4 * blocks
    for i in range(blocks):
        n, size = struct.unpack_from("<I", payload, 4 * i)[0], min(BLOCK, raw - i * BLOCK)
        need(0 < n <= size and n <= len(payload) - at, "length of a block")
        places.append((at, n, size))
        at += n
    need(at == len(payload), "bytes after the last block")
    out, order = [b""] * blocks, list(range(blocks))
    chance.shuffle(order)
    for i in order:
        at, n, size = places[i]
        out[i] = payload[at:at + n] if n == size else DECODE[codec](payload[at:at + n], size)
    return b"".join(out)
