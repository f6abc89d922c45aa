#!/usr/bin/env python3
"""A second decoder of compress/FORMAT.md, from that page alone.

    decode.py --check FOLDER...      every NAME.frame in it must decode to NAME.raw
    decode.py --decode FRAME         writes the decoded bytes to standard output

Tiles, and groups in each tile, are decoded in an order drawn by chance (printed as the seed; SEED= repeats it), each knowing
nothing of the others: what does not hold for a warp per group fails here.
"""
import os
import random
import struct
import sys

sys.dont_write_bytecode = True  # the folder of the tests stays as it is
import library

TILE, GROUP, UNIT, CHUNK_MAX = 16384, 256, 16, 1 << 30
WIDTH = {0: 1, 1: 2, 2: 4, 3: 2, 4: 4}
RAW = {0: 1, 1: 2, 2: 4, 3: 2, 4: 2}
BODY = {0: 128, 1: 384, 2: 896, 3: 448, 4: 384}


class Corrupt(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Corrupt(why)


# ---- XXH3-64, seed 0, from its specification -------------------------------------------------------------------

M64 = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6"
    "813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931"
    "c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f"
    "95160428afd7fbcabb4b407e")


def u32(b, at):
    return struct.unpack_from("<I", b, at)[0]


def u64(b, at):
    return struct.unpack_from("<Q", b, at)[0]


def fold(a, b):
    p = a * b
    return (p ^ p >> 64) & M64


def avalanche(h):
    h = (h ^ h >> 37) * 0x165667919E3779F9 & M64
    return h ^ h >> 32


def avalanche64(h):
    h = (h ^ h >> 33) * P64[1] & M64
    h = (h ^ h >> 29) * P64[2] & M64
    return h ^ h >> 32


def mix16(b, at, s):
    return fold(u64(b, at) ^ u64(SECRET, s), u64(b, at + 8) ^ u64(SECRET, s + 8))


def xxh3_short(b):
    n = len(b)
    if n == 0:
        return avalanche64(u64(SECRET, 56) ^ u64(SECRET, 64))
    if n < 4:
        word = b[0] << 16 | b[n >> 1] << 24 | b[-1] | n << 8
        return avalanche64(word ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    if n < 9:
        word = u32(b, n - 4) + (u32(b, 0) << 32)
        h = word ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h ^= ((h << 49 | h >> 15) ^ (h << 24 | h >> 40)) & M64
        h = h * 0x9FB21C651E98DF25 & M64
        h = (h ^ (h >> 35) + n) * 0x9FB21C651E98DF25 & M64
        return h ^ h >> 28
    low = u64(SECRET, 24) ^ u64(SECRET, 32) ^ u64(b, 0)
    high = u64(SECRET, 40) ^ u64(SECRET, 48) ^ u64(b, n - 8)
    return avalanche(n + int.from_bytes(low.to_bytes(8, "big"), "little") + high + fold(low, high) & M64)


def xxh3_middle(b):
    n = len(b)
    acc = n * P64[0]
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            acc += mix16(b, 16 * i, 32 * i) + mix16(b, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(acc & M64)
    for i in range(8):
        acc += mix16(b, 16 * i, 16 * i)
    acc = avalanche(acc & M64)
    for i in range(8, n // 16):
        acc += mix16(b, 16 * i, 16 * (i - 8) + 3)
    return avalanche(acc + mix16(b, n - 16, 136 - 17) & M64)


def stripe(acc, b, at, s):
    values = struct.unpack_from("<8Q", b, at)
    keys = struct.unpack_from("<8Q", SECRET, s)
    for i in range(8):
        key = values[i] ^ keys[i]
        acc[i ^ 1] = acc[i ^ 1] + values[i] & M64
        acc[i] = acc[i] + (key & 0xFFFFFFFF) * (key >> 32) & M64


def merge(acc, s, start):
    for i in range(4):
        start += fold(acc[2 * i] ^ u64(SECRET, s + 16 * i), acc[2 * i + 1] ^ u64(SECRET, s + 16 * i + 8))
    return avalanche(start & M64)


def xxh3_long(b):
    n, per_block = len(b), (len(SECRET) - 64) // 8
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    full = (n - 1) // (64 * per_block)
    keys = struct.unpack_from("<8Q", SECRET, len(SECRET) - 64)
    for block in range(full):
        for i in range(per_block):
            stripe(acc, b, (block * per_block + i) * 64, 8 * i)
        acc = [((a ^ a >> 47) ^ k) * P32[0] & M64 for a, k in zip(acc, keys)]
    at = full * per_block * 64
    for i in range((n - 1 - at) // 64):
        stripe(acc, b, at + 64 * i, 8 * i)
    stripe(acc, b, n - 64, len(SECRET) - 64 - 7)
    return merge(acc, 11, n * P64[0] & M64)


def xxh3(b):
    return xxh3_short(b) if len(b) <= 16 else xxh3_middle(b) if len(b) <= 240 else xxh3_long(b)


def checksum(raw):
    return xxh3(b"".join(struct.pack("<Q", xxh3(raw[at:at + TILE])) for at in range(0, len(raw), TILE)))


# ---- groups ----------------------------------------------------------------------------------------------------

def exponents(codes, last, top, escapes):
    """Value i finds its escape by counting the escapes before it, as a warp does with ballots."""
    need(sum(c == last for c in codes) == len(escapes), "number of escapes")
    out, rank = [], 0
    for c in codes:
        out.append(escapes[rank] if c == last else 0 if c == 0 else top - c + 1 & 255)
        rank += c == last
    return out


def window(view, top, body, escapes):
    nibbles = [body[i // 64 * 32 + i % 32] >> (4 if i % 64 >= 32 else 0) & 15 for i in range(GROUP)]
    plane = body[128:384]
    if view == 3:
        e = exponents([c & 7 for c in nibbles], 7, top, escapes)
        out = []
        for i in range(GROUP):
            two = body[384 + i // 128 * 32 + i % 32] >> i // 32 % 4 * 2 & 3
            out.append((nibbles[i] & 8) << 12 | (e[i] & 31) << 10 | two << 8 | plane[i])
        return struct.pack("<256H", *out)
    e = exponents(nibbles, 15, top, escapes)
    if view == 0:
        return bytes(e)
    upper = [(plane[i] & 0x80) << 8 | e[i] << 7 | plane[i] & 0x7F for i in range(GROUP)]
    if view == 1:
        return struct.pack("<256H", *upper)
    low = struct.unpack_from("<256H", body, 384) if view == 2 else [0] * GROUP
    return struct.pack("<256I", *(h << 16 | l for h, l in zip(upper, low)))


def group(view, kind, top, values, body, escapes):
    size = values * WIDTH[view]
    if kind == 0:
        return bytes(size)
    if kind == 255:
        return b"".join(b"\0\0" + body[i:i + 2] for i in range(0, len(body), 2)) if view == 4 else body
    out = window(view, top, body, escapes)
    need(not any(out[size:]), "values beyond the end of a short group")
    return out[:size]


# ---- tiles -----------------------------------------------------------------------------------------------------

def places(view, data, values):
    """Headers to (kind, top, values, body, body bytes, escape, escapes) per group: every place follows from them."""
    groups = -(-values // GROUP)
    need(len(data) >= 2 * groups, "headers")
    out, body, escape = [], 2 * groups, 0
    for i in range(groups):
        kind, top, m = data[2 * i], data[2 * i + 1], min(GROUP, values - i * GROUP)
        need(kind != 254, "sparse groups are reserved")
        need(top == 0 or kind not in (0, 255), "top of a zero or raw group")
        size = 0 if kind == 0 else RAW[view] * m if kind == 255 else BODY[view]
        n = 0 if kind in (0, 255) else kind - 1
        out.append((kind, top, m, body, size, escape, n))
        body, escape = body + size, escape + n
    return out, body, escape


def coded_tile(view, data, n, last, chance):
    width = WIDTH[view]
    values, tail = n // width, n % width
    groups, bodies_end, escapes = places(view, data, values)
    used = bodies_end + tail + escapes
    need(used <= len(data), "tile is shorter than its headers say")
    padding = data[used:]
    need(len(padding) < UNIT and not any(padding) and not (last and padding), "padding of a tile")
    out = bytearray(n)
    order = list(range(len(groups)))
    chance.shuffle(order)
    for i in order:
        kind, top, m, body, size, escape, k = groups[i]
        first = bodies_end + tail + escape
        at = i * GROUP * width
        out[at:at + m * width] = group(view, kind, top, m, data[body:body + size], data[first:first + k])
    out[n - tail:] = data[bodies_end:bodies_end + tail]
    return bytes(out), len(groups)


def tile_places(payload, raw):
    tiles = -(-raw // TILE)
    table = -(-2 * tiles // UNIT) * UNIT
    need(len(payload) >= table and not any(payload[2 * tiles:table]), "table")
    at, out = table, []
    for i in range(tiles):
        entry = struct.unpack_from("<H", payload, 2 * i)[0]
        view, units, n = entry >> 11, entry & 2047, min(TILE, raw - i * TILE)
        need(units <= 1024 and (view == 0 if units in (0, 1024) else view < 5), "entry of a tile")
        size = 0 if units == 0 else n if units == 1024 else units * UNIT
        if i + 1 == tiles and 0 < units < 1024:
            size = len(payload) - at
            need(-(-size // UNIT) == units, "length of the last tile")
        need(size <= len(payload) - at, "tile beyond the payload")
        out.append((view, units, at, size, n))
        at += size
    need(at == len(payload), "bytes after the last tile")
    return out


def decode_group_payload(payload, view, count, raw, chance):
    need(view < 5, "view")
    tiles = tile_places(payload, raw)
    out, total = [b""] * len(tiles), 0
    order = list(range(len(tiles)))
    chance.shuffle(order)
    for i in order:
        view, units, at, size, n = tiles[i]
        data = payload[at:at + size]
        if units == 0:
            out[i] = bytes(n)
        elif units == 1024:
            out[i] = data
        else:
            out[i], groups = coded_tile(view, data, n, i + 1 == len(tiles), chance)
            total += groups
    need(total == count, "count")
    return b"".join(out)


# ---- frames ----------------------------------------------------------------------------------------------------

def decode(frame, chance):
    need(len(frame) >= 32, "head")
    magic, version, codec, view, flags, header, raw, wire, count, param, check = struct.unpack_from("<HBBBBHIIIIQ", frame)
    need((magic, version, header) == (0x5747, 1, 32) and flags & ~1 == 0, "head")
    need(raw <= CHUNK_MAX and wire <= len(frame) - 32 and param == 0 and (flags or check == 0), "head")
    payload = frame[32:32 + wire]
    need(codec in (0, 1) or codec in library.DECODE, "codec")
    if codec in library.DECODE:
        out = library.decode(codec, view, count, payload, raw, chance)
    elif codec == 0:
        need((view, count, wire) == (0, 0, raw), "raw")
        out = payload
    else:
        out = decode_group_payload(payload, view, count, raw, chance)
    need(flags == 0 or checksum(out) == check, "checksum")
    return out


def read(path):
    with open(path, "rb") as f:
        return f.read()


def check_folder(folder, chance):
    names = sorted(n[:-6] for n in os.listdir(folder) if n.endswith(".frame"))
    for name in names:
        path = os.path.join(folder, name)
        try:
            if decode(read(path + ".frame"), chance) != read(path + ".raw"):
                sys.exit("decode.py: %s: differs from %s.raw" % (path, name))
        except library.Missing as e:
            print("%s: skipped: no %s here" % (path, e))
    return len(names)


def main(args):
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
    chance = random.Random(seed)
    if len(args) < 2 or args[0] not in ("--check", "--decode"):
        sys.exit(__doc__)
    try:
        if args[0] == "--decode":
            sys.stdout.buffer.write(decode(read(args[1]), chance))
            return
        frames = sum(check_folder(folder, chance) for folder in args[1:])
        if frames == 0:
            sys.exit("decode.py: no frames there")
        print("ref decode: %d frames agree, seed %d" % (frames, seed))
    except (Corrupt, library.Wrong) as e:
        sys.exit("decode.py: seed %d: corrupt: %s" % (seed, e))


if __name__ == "__main__":
    main(sys.argv[1:])
