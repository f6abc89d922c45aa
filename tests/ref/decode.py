#!/usr/bin/env python3
"""A second decoder of compress/FORMAT.md, from that page alone.

    decode.py --check FOLDER...      every NAME.frame in it must decode to NAME.raw, or to what NAME.xxh3 is the hash of
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
import lossy
import sparse as sets

TILE, GROUP, UNIT, CHUNK_MAX = 16384, 256, 16, 1 << 30
WIDTH = {0: 1, 1: 2, 2: 4, 3: 2, 4: 4}
RAW = {0: 1, 1: 2, 2: 4, 3: 2, 4: 2}
BODY = {0: 128, 1: 384, 2: 896, 3: 448, 4: 384}
PLANES = {0: (4,), 1: (4, 8), 2: (4, 8, 16), 3: (4, 8, 2), 4: (4, 8)}


Corrupt = sets.Corrupt


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


def u16(b, at):
    return struct.unpack_from("<H", b, at)[0]


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
    return values_of(view, e, body[128:])


def values_of(view, e, planes):
    upper = [(planes[i] & 0x80) << 8 | e[i] << 7 | planes[i] & 0x7F for i in range(GROUP)]
    if view == 1:
        return struct.pack("<256H", *upper)
    low = struct.unpack_from("<256H", planes, 256) if view == 2 else [0] * GROUP
    return struct.pack("<256I", *(h << 16 | l for h, l in zip(upper, low)))


def plane_bytes(bits, m):
    row = 256 // bits
    return m * bits // 8 if bits >= 8 else m // row * 32 + min(m % row, 32)


def sparse(view, m, top, body, escapes):
    width = WIDTH[view]
    places = [i for i in range(GROUP) if body[i // 8] >> i % 8 & 1]
    need(len(places) == m, "values of a map")
    at, full = 32, b""
    for bits in PLANES[view]:
        size = plane_bytes(bits, m)
        plane = body[at:at + size] + bytes(32 * bits - size)
        for i in range(m, GROUP if bits < 8 else 0):
            row = 256 // bits
            need(plane[i // row * 32 + i % 32] >> i % row // 32 * bits & (1 << bits) - 1 == 0, "bits behind the last value")
        at, full = at + size, full + plane
    values = window(view, top, full, escapes)
    out = bytearray(GROUP * width)
    for rank, i in enumerate(places):
        out[i * width:(i + 1) * width] = values[rank * width:(rank + 1) * width]
    return bytes(out)


def tight(view, base, near, far, body, escapes):
    codes = [body[i // 128 * 32 + i % 32] >> i // 32 % 4 * 2 & 3 for i in range(GROUP)]
    pairs, bytes_ = escapes[:-(-near // 2)], escapes[-(-near // 2):]
    nibbles = [pairs[i // 2] >> i % 2 * 4 & 15 for i in range(2 * len(pairs))]
    need(not any(nibbles[near:]), "half a byte behind the last nibble")
    nibbles = nibbles[:near]
    need(5 not in nibbles and nibbles.count(4) == far and codes.count(3) == near, "number of nibbles or far bytes")
    e, rank = [], 0
    for c in codes:
        if c < 3:
            e.append(base - c & 255)
            continue
        n = nibbles[rank]
        e.append(0 if n == 3 else bytes_[nibbles[:rank].count(4)] if n == 4 else base + 3 - n & 255)
        rank += 1
    return values_of(view, e, body[64:])


def plain(view, kind, values, body):
    """A zero or a raw group."""
    if kind == 0:
        return bytes(values * WIDTH[view])
    return b"".join(b"\0\0" + body[i:i + 2] for i in range(0, len(body), 2)) if view == 4 else body


def group(view, g, body, escapes):
    size = g.values * WIDTH[view]
    if g.kind in (0, 255):
        return plain(view, g.kind, g.values, body)
    if g.form == "tight":
        out = tight(view, g.top, g.near, g.far, body, escapes)
    else:
        out = sparse(view, g.top, g.listed[0], body, escapes) if g.kind == 254 else window(view, g.top, body, escapes)
    need(not any(out[size:]), "values beyond the end of a short group")
    return out[:size]


# ---- tiles -----------------------------------------------------------------------------------------------------

class Group:
    """Where a group's body and escapes are: sums over the headers before it, then over the list."""
    def __init__(self, codec, view, kind, top, values):
        need(top == 0 or kind not in (0, 255), "top of a zero or raw group")
        need(top != 0 or kind != 254, "a sparse group without values")
        self.kind, self.top, self.values = kind, top, values
        is_tight = codec == 2 and (1 <= kind <= 129 or kind == 253)
        need(not is_tight or view in (1, 2, 4), "a view that has no tight groups")
        self.form = {0: "zero", 254: "sparse", 255: "raw"}.get(kind, "tight" if is_tight else "window")
        self.is_listed = kind == 254 or (codec == 2 and kind == 253)
        self.near, self.far, self.listed = kind - 1, 0, None
        self.size = {"zero": 0, "raw": RAW[view] * values, "window": BODY[view], "tight": BODY[view] - 64,
                     "sparse": 32 + sum(plane_bytes(bits, top) for bits in PLANES[view])}[self.form]
        self.escapes = {"window": kind - (130 if codec == 2 else 1), "tight": -(-self.near // 2)}.get(self.form, 0)

    def list_says(self, pair):
        self.listed, self.escapes = pair, pair[1]
        if self.form == "tight":
            self.near, self.far = pair
            need(1 <= self.far <= self.near <= 128, "list of a tight group")
            self.escapes = -(-self.near // 2) + self.far


def places(codec, view, data, values, tail):
    n = -(-values // GROUP)
    need(len(data) >= 2 * n, "headers")
    groups = [Group(codec, view, data[2 * i], data[2 * i + 1], min(GROUP, values - i * GROUP)) for i in range(n)]
    at = 2 * n
    for g in groups:
        g.body, at = at, at + g.size
    end_of_bodies, at = at, at + tail
    for g in groups:
        if g.is_listed:
            need(len(data) >= at + 2, "list")
            g.list_says(data[at:at + 2])
            at += 2
    for g in groups:
        g.escape, at = at, at + g.escapes
    return groups, end_of_bodies, at


def coded_tile(codec, view, data, n, last, chance):
    width = WIDTH[view]
    values, tail = n // width, n % width
    groups, bodies_end, used = places(codec, view, data, values, tail)
    need(used <= len(data), "tile is shorter than its headers say")
    padding = data[used:]
    need(len(padding) < UNIT and not any(padding) and not (last and padding), "padding of a tile")
    out = bytearray(n)
    order = list(range(len(groups)))
    chance.shuffle(order)
    for i in order:
        g, at = groups[i], i * GROUP * width
        out[at:at + g.values * width] = group(view, g, data[g.body:g.body + g.size], data[g.escape:g.escape + g.escapes])
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


def decode_group_payload(codec, payload, view, count, raw, chance):
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
            out[i], groups = coded_tile(codec, view, data, n, i + 1 == len(tiles), chance)
            total += groups
    need(total == count, "count")
    return b"".join(out)


# ---- codec 3, entropy: a block ------------------------------------------------------------------------------------

def codes_of(freq, states, words, groups):
    """The codes of all window groups; what a step's states read stands in the order of the states."""
    starts, symbol = [sum(freq[:c]) for c in range(16)], []
    for c in range(16):
        symbol += [c] * freq[c]
    out, at, x = [], 0, list(states)
    for _ in range(8 * groups):
        for lane in range(32):
            slot = x[lane] % 4096
            c = symbol[slot]
            out.append(c)
            x[lane] = freq[c] * (x[lane] // 4096) + slot - starts[c]
            if x[lane] < 1 << 15:
                need(at < len(words), "words")
                x[lane] = x[lane] << 16 | words[at]
                at += 1
    need(at == len(words) and all(s == 1 << 15 for s in x), "states at the end")
    return out


def coded_block(freq, view, data, n, last, chance):
    width = WIDTH[view]
    values, tail = n // width, n % width
    groups = -(-values // GROUP)
    rows = -(-groups // 16)
    body = 132 + 4 * rows
    need(len(data) >= body, "head of a block")
    states = struct.unpack_from("<32I", data)
    need(all(1 << 15 <= x < 1 << 31 for x in states), "states")
    n_words, n_escapes = struct.unpack_from("<2H", data, 128)
    packed = struct.unpack_from("<%dI" % rows, data, 132)
    kinds = [packed[g // 16] >> 2 * (g % 16) & 3 for g in range(16 * rows)]
    need(3 not in kinds and not any(kinds[groups:]), "kinds")
    places, at = [], body
    for g in range(groups):
        m = min(GROUP, values - g * GROUP)
        need(kinds[g] != 2 or m == GROUP, "a short group is zero or raw")
        size = (0, RAW[view] * m, BODY[view] - 128)[kinds[g]]
        places.append((g, kinds[g], m, data[at:at + size]))
        at += size
    odd = (at - body) % 2
    windows = kinds.count(2)
    first = at + odd
    tops = first + 2 * n_words
    tail_at = tops + windows
    esc = tail_at + tail
    used = esc + n_escapes
    need(used <= len(data) and not any(data[at:first]), "block is shorter than its head says")
    padding = data[used:]
    need(len(padding) < UNIT and not any(padding) and not (last and padding), "padding of a block")
    codes = codes_of(freq, states, struct.unpack_from("<%dH" % n_words, data, first), windows)
    mine, taken, k = {}, 0, 0
    for g, kind, m, plane in places:
        if kind == 2:
            c = codes[k * GROUP:(k + 1) * GROUP]
            e = sum(x & (7 if view == 3 else 15) == (7 if view == 3 else 15) for x in c)
            mine[g] = (c, data[tops + k], data[esc + taken:min(esc + taken + e, used)])
            taken, k = taken + e, k + 1
    need(taken == n_escapes, "escapes")
    out = bytearray(n)
    chance.shuffle(places)
    for g, kind, m, plane in places:
        to = g * GROUP * width
        if kind == 2:
            c, top, escapes = mine[g]
            nibbles = bytes(c[i // 32 * 64 + i % 32] | c[i // 32 * 64 + i % 32 + 32] << 4 for i in range(128))
            out[to:to + m * width] = window(view, top, nibbles + plane, escapes)
        else:
            out[to:to + m * width] = plain(view, 255 if kind else 0, m, plane)
    out[n - tail:] = data[tail_at:tail_at + tail]
    return bytes(out), groups


def decode_entropy_payload(payload, view, count, raw, chance):
    need(view < 5, "view")
    block = 16384 * WIDTH[view]
    blocks = -(-raw // block)
    at = 32 + -(-2 * blocks // UNIT) * UNIT
    need(len(payload) >= at and not any(payload[32 + 2 * blocks:at]), "table of blocks")
    freq = struct.unpack_from("<16H", payload)
    need(min(freq) > 0 and sum(freq) == 4096, "frequencies")
    places = []
    for i in range(blocks):
        entry, n, last = u16(payload, 32 + 2 * i), min(block, raw - i * block), i + 1 == blocks
        v, units = entry >> 13, entry & 8191
        if units in (0, 8191):
            need(v == 0, "view of a block that is not coded")
            size = n if units else 0
        else:
            need(units <= 4096 and v < 5 and WIDTH[v] == WIDTH[view], "entry of a block")
            size = len(payload) - at if last else 16 * units
            need(-(-size // UNIT) == units, "length of the last block")
        need(size <= len(payload) - at, "block beyond the payload")
        places.append((i, v, units, payload[at:at + size], n, last))
        at += size
    need(at == len(payload), "bytes after the last block")
    out, total = [b""] * blocks, 0
    chance.shuffle(places)
    for i, v, units, data, n, last in places:
        if units in (0, 8191):
            out[i] = data if units else bytes(n)
        else:
            out[i], groups = coded_block(freq, v, data, n, last, chance)
            total += groups
    need(total == count, "count")
    return b"".join(out)


# ---- codec 4, zero ----------------------------------------------------------------------------------------------

def zero_tile(view, data, n, last):
    width = 2 if view in (1, 3) else 4
    words, tail = n // width, n % width
    units = -(-words // 8)
    level = -(-units // 8)
    need(len(data) >= level, "level")
    listed = [u for u in range(8 * level) if data[u // 8] >> u % 8 & 1]
    need(not listed or listed[-1] < units, "bits of units that are not there")
    need(len(data) >= level + len(listed), "map")
    where = []
    for u, byte in zip(listed, data[level:level + len(listed)]):
        need(byte != 0, "a zero byte of the map")
        where += [8 * u + i for i in range(8) if byte >> i & 1]
    need(not where or where[-1] < words, "bits of words that are not there")
    first = -(-(level + len(listed)) // width) * width
    used = first + width * len(where) + tail
    need(used <= len(data) and not any(data[level + len(listed):first]), "words")
    padding = data[used:]
    need(len(padding) < UNIT and not any(padding) and not (last and padding), "padding of a tile")
    out = bytearray(n)
    for k, w in enumerate(where):
        out[w * width:(w + 1) * width] = data[first + k * width:first + (k + 1) * width]
    out[n - tail:] = data[used - tail:used]
    return bytes(out), len(where)


def decode_zero_payload(payload, view, count, raw, chance):
    need(view < 5, "view")
    tiles = tile_places(payload, raw)
    out, total = [b""] * len(tiles), 0
    order = list(range(len(tiles)))
    chance.shuffle(order)
    for i in order:
        view, units, at, size, n = tiles[i]
        out[i] = bytes(n) if units == 0 else payload[at:at + size]
        if units not in (0, 1024):
            out[i], words = zero_tile(view, out[i], n, i + 1 == len(tiles))
            total += words
    need(total == count, "count")
    return b"".join(out)


# ---- frames ----------------------------------------------------------------------------------------------------

def decode(frame, chance):
    need(len(frame) >= 32, "head")
    magic, version, codec, view, flags, header, raw, wire, count, param, check = struct.unpack_from("<HBBBBHIIIIQ", frame)
    need((magic, version, header) == (0x5747, 1, 32) and flags & ~1 == 0, "head")
    need(raw <= CHUNK_MAX and wire <= len(frame) - 32 and (flags or check == 0), "head")
    payload = frame[32:32 + wire]
    readers = {3: decode_entropy_payload, 4: decode_zero_payload}
    need(codec in (0, 1, 2, 32) or codec in readers or codec in lossy.SHAPE or codec in library.DECODE, "codec")
    need(param == 0 or codec == 32 or codec in lossy.SHAPE, "param")
    if codec in lossy.SHAPE:
        need(flags == 0 or checksum(payload) == check, "checksum")
        return lossy.decode(codec, view, count, param, payload, raw, chance)
    if codec == 32:
        out = sets.decode(payload, view, raw, count, param, chance)
    elif codec in library.DECODE:
        out = library.decode(codec, view, count, payload, raw, chance)
    elif codec == 0:
        need((view, count, wire) == (0, 0, raw), "raw")
        out = payload
    elif codec in (1, 2):
        out = decode_group_payload(codec, payload, view, count, raw, chance)
    else:
        out = readers[codec](payload, view, count, raw, chance)
    need(flags == 0 or checksum(payload if codec == 32 else out) == check, "checksum")
    return out


def read(path):
    with open(path, "rb") as f:
        return f.read()


def check_folder(folder, chance):
    names = sorted(n[:-6] for n in os.listdir(folder) if n.endswith(".frame"))
    for name in names:
        path = os.path.join(folder, name)
        try:
            out = decode(read(path + ".frame"), chance)
        except library.Missing as e:
            print("%s: skipped: no %s here" % (path, e))
            continue
        if os.path.exists(path + ".xxh3"):
            same = xxh3(out) == int(read(path + ".xxh3"), 16)
        else:
            same = out == read(path + ".raw")
        if not same:
            sys.exit("decode.py: %s: differs from what it was made of" % path)
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
    except (Corrupt, lossy.Wrong, library.Wrong) as e:
        sys.exit("decode.py: seed %d: corrupt: %s" % (seed, e))


if __name__ == "__main__":
    main(sys.argv[1:])
