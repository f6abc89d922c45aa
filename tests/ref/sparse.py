"""Frames of sparse sets (compress/FORMAT.md, section 11), from that page alone.  Blocks are decoded in an order drawn by
chance, each knowing nothing of the others but the counts before it."""
import struct

M64 = (1 << 64) - 1
LOG = {1: 16, 3: 12, 4: 16, 5: 20}


class Corrupt(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Corrupt(why)


def bits(data, first, n):
    """n bits from bit `first` on, the lowest first."""
    part = data[first // 8:(first + n + 7) // 8]
    return int.from_bytes(part, "little") >> first % 8 & (1 << n) - 1


def ones(data, first, n):
    word = bits(data, first, n)
    return [i for i in range(n) if word >> i & 1]


def shape(n, u):
    """(Elias-Fano?, bits of a low part, bits of the body)"""
    if n in (0, u):
        return False, 0, 0
    low = 0
    while n << low + 1 <= u:
        low += 1
    size = n * (low + 1) + (u - 1 >> low)
    return (True, low, size) if size < u else (False, 0, u)


def elias_fano(data, n, u):
    is_ef, low, size = shape(n, u)
    need(len(data) * 8 - size < 8 and bits(data, size, len(data) * 8 - size) == 0, "bits beyond a block")
    if size == 0:
        return list(range(n))
    if not is_ef:
        return ones(data, 0, u)
    marks = ones(data, n * low, size - n * low)
    need(len(marks) == n, "ones of a block")
    return [(marks[i] - i) << low | bits(data, i * low, low) for i in range(n)]


def blocks(kind, data, space, chance):
    size = 1 << LOG[kind]
    many = -(-space // size)
    need(len(data) >= many, "counts")
    counts, escape = list(data[:many]), many
    for i, c in enumerate(counts):
        if c == 255:
            need(len(data) >= escape + 4, "escapes")
            counts[i] = struct.unpack_from("<I", data, escape)[0]
            need(counts[i] >= 255, "escape that is none")
            escape += 4
    places, at = [], escape
    for i, n in enumerate(counts):
        u = min(size, space - i * size)
        need(n <= u, "count of a block")
        length = 2 * n if kind == 1 else -(-shape(n, u)[2] // 8)
        places.append((i, n, u, at, length))
        at += length
    need(at == len(data), "length of the index part")
    out = {}
    chance.shuffle(places)
    for i, n, u, at, length in places:
        body = data[at:at + length]
        got = list(struct.unpack("<%dH" % n, body)) if kind == 1 else elias_fano(body, n, u)
        need(len(got) == n and all(g < u for g in got), "entries of a block")
        out[i] = [i * size + g for g in got]
    return [x for i in sorted(out) for x in out[i]]


def runs(data, space):
    need(len(data) % 8 == 0, "runs")
    r, out, least = len(data) // 8, [], 0
    first, length = struct.unpack("<%dI" % r, data[:4 * r]), struct.unpack("<%dI" % r, data[4 * r:])
    for f, n in zip(first, length):
        need(n > 0 and f >= least and f + n <= -(-space // 256), "run")
        out += range(256 * f, min(256 * (f + n), space))
        least = f + n + 1
    return out


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def seeded(seed, space, count):
    out = []
    for i in range(count):
        start, end = i * space // count, (i + 1) * space // count
        h = mix(seed + (i + 1) * 0x9E3779B97F4A7C15 & M64)
        out.append(start + ((h >> 32) * (end - start) >> 32))
    return out


def indices(kind, data, space, seed, count, chance):
    if kind == 0:
        need(len(data) == -(-space // 8) and bits(data, space, len(data) * 8 - space) == 0, "bitmap")
        return ones(data, 0, space)
    if kind == 2:
        return runs(data, space)
    if kind == 6:
        need(len(data) == 0, "indices beside a seed")
        return seeded(seed, space, count)
    return blocks(kind, data, space, chance)


def product(q, scale):
    """q * scale in f32: exact in double, rounded once by the packing."""
    return struct.pack("<f", q * struct.unpack("<f", struct.pack("<I", scale))[0])


def int8(data, count):
    many = -(-count // 256)
    need(len(data) >= 4 * many, "scales")
    out, at = [], 4 * many
    for i in range(many):
        scale, n = struct.unpack_from("<I", data, 4 * i)[0], min(256, count - 256 * i)
        need(scale in (0, 0x7FC00000) or 0x0A010204 <= scale <= 0x7C010203, "scale")
        length = 0 if scale == 0 else 4 * n if scale == 0x7FC00000 else n
        body = data[at:at + length]
        need(len(body) == length, "codes")
        at += length
        if scale == 0 or scale == 0x7FC00000:
            out.append(body or bytes(4 * n))
            continue
        q = struct.unpack("<%db" % n, body)
        need(-128 not in q, "code")
        out.append(b"".join(product(x, scale) for x in q))
    need(at == len(data), "length of the values")
    return b"".join(out)


def bf16(x):
    return 0x7FC00000 if x & 0x7FFF > 0x7F80 else (x if x & 0x7F80 else x & 0x8000) << 16


def values(kind, data, count):
    if kind == 2:
        return int8(data, count)
    need(len(data) == (4 * count, 2 * count, 0, 4 if count else 0)[kind], "length of the values")
    if kind == 0:
        return data
    if kind == 1:
        return b"".join(struct.pack("<I", bf16(x)) for x in struct.unpack("<%dH" % count, data))
    a = int.from_bytes(data, "little") & 0x7FFFFFFF
    need(a <= 0x7F800000 and (a >= 0x0D800000 or not any(data)) or data == b"\0\0\xc0\x7f", "mean")
    return data * count


def decode(payload, view, raw, count, param, chance):
    """The indices as u32, then the values as f32."""
    kind, how = param & 255, param >> 8
    need((view, raw) == (2, 0) and kind < 7 and how < 4 and len(payload) >= 16, "head")
    space, size, seed = struct.unpack_from("<IIQ", payload)
    space += 1
    values_at = 16 + -(-size // 16) * 16
    need(count <= space and (seed == 0 or kind == 6) and values_at <= len(payload), "head of the payload")
    need(not any(payload[16 + size:values_at]), "padding")
    index = indices(kind, payload[16:16 + size], space, seed, count, chance)
    need(len(index) == count and all(a < b for a, b in zip(index, index[1:])) and (not index or index[-1] < space), "indices")
    return struct.pack("<%dI" % count, *index) + values(how, payload[values_at:], count)
