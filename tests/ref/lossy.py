"""Section 10 of compress/FORMAT.md, from that page alone: decode.py's other half.  Standard library only."""
import struct

TILE = 4096
INF, NAN = 0x7F800000, 0x7FC00000
#       block, bits, unit, scaled
SHAPE = {16: (256, 16, 1, False), 17: (256, 16, 1, False), 18: (256, 8, 1, False), 19: (256, 8, 1, False),
         20: (256, 8, 1, True), 21: (64, 4, 64, True), 22: (256, None, 1, False), 23: (128, 2, 128, False), 24: (1024, 1, 32, True)}
#       mantissa bits, bias, sign bit, Inf, NaN from
SMALL = {16: (7, 127, 15, 0x7F80, 0x7F81), 17: (10, 15, 15, 0x7C00, 0x7C01), 18: (3, 7, 7, None, 0x7F),
         19: (2, 15, 7, 0x7C, 0x7D)}


class Wrong(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Wrong(why)


def f32(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits(v):
    """A double, rounded to f32 once."""
    try:
        return struct.unpack("<I", struct.pack("<f", v))[0]
    except OverflowError:
        return INF | (v < 0) << 31


def product(q, scale):
    """q * scale; both fit into 24 bits each, so the double is exact before it is rounded."""
    return bits(f32(bits(float(q))) * scale)


def small(codec, code):
    mantissa, bias, sign_bit, inf, nan = SMALL[codec]
    sign, m = code >> sign_bit, code & ((1 << sign_bit) - 1)
    if m >= nan:
        return NAN
    if m == inf:
        return INF | sign << 31
    e, f = m >> mantissa, m & ((1 << mantissa) - 1)
    if e == 0:
        v = 0.0 if codec == 16 else f * 2.0 ** (1 - bias - mantissa)
    else:
        v = ((1 << mantissa) + f) * 2.0 ** (e - bias - mantissa)
    return bits(v) | sign << 31


def signed(v, width):
    return v - (1 << width) if v >> (width - 1) else v


def value(codec, width, codes, i, scale):
    """Value i of a block, as f32 bits."""
    if codec in (16, 17):
        return small(codec, struct.unpack_from("<H", codes, 2 * i)[0])
    if codec in (18, 19):
        return small(codec, codes[i])
    if codec == 21:
        return product(signed(codes[i % 32] >> (4 * (i // 32)) & 15, 4), scale)
    if codec == 23:
        c = codes[i % 32] >> (2 * (i // 32)) & 3
        return product((0, 1, -1, 0)[c], scale)
    if codec == 24:
        return bits(scale) | (codes[i // 8] >> (i % 8) & 1) << 31
    word = int.from_bytes(codes[i * width // 8:(i + 1) * width // 8], "little")
    return product(signed(word, width), scale)


def levels(param, ranks, n, words):
    """Bits of a word and the scale."""
    need(param < INF and ranks > 0, "levels: maximum or ranks")
    top = f32(param)
    if n == 0 or top < 2.0 ** -90:
        need(words == 0, "levels: words that should not be there")
        return 0, 0.0
    for width in (8, 16, 32):
        if words == n * width // 8:
            s = ((1 << (width - 1)) - 1) // ranks
            need(s >= 1, "levels: no room")
            cut = max(0, s.bit_length() - 24)
            s = s >> cut << cut
            scale = bits(top / s)
            need(product(s, f32(scale)) < INF, "levels: overflow")
            return width, f32(scale)
    raise Wrong("levels: length")


def codes_of(shape, width, m):
    return -(-m // shape[2]) * shape[2] * width // 8


def parameters(codec, count, param, n, words):
    shape = SHAPE[codec]
    if codec == 22:
        return levels(param, count, n, words)
    if codec == 23:
        need(27 << 23 <= param < INF and count == 0, "twobit: threshold")
        return 2, f32(param)
    need(param == 0 and (shape[3] or count == 0), "param, count")
    return shape[1], 0.0


def decode(codec, view, count, param, payload, raw, chance):
    n, tail = divmod(raw, 4)
    need(view == 2 and len(payload) >= tail, "view, length")
    shape = SHAPE[codec]
    width, scale = parameters(codec, count, param, n, len(payload) - tail)
    block, scaled = shape[0], shape[3]

    def tile_bytes(m):
        return (4 * -(-m // block) if scaled else 0) + codes_of(shape, width, m)

    fixed = n // TILE * tile_bytes(TILE) + tile_bytes(n % TILE)
    need(len(payload) >= fixed + tail, "length")
    full = 4 * block - codes_of(shape, width, block) if scaled else 0
    out, raws, rests = bytearray(raw), set(), 0
    order = [(first, at) for first in range(0, n, TILE) for at in range(0, min(TILE, n - first), block)]
    chance.shuffle(order)
    for first, at in order:
        values = min(TILE, n - first)
        start = first // TILE * tile_bytes(TILE)
        m = min(block, values - at)
        codes_at = start + (4 * -(-values // block) if scaled else 0) + at * width // 8
        codes = payload[codes_at:codes_at + codes_of(shape, width, m)]
        s = scale
        if scaled:
            word = struct.unpack_from("<I", payload, start + 4 * (at // block))[0]
            if INF <= word < 1 << 31:
                rest = max(0, 4 * m - len(codes))
                place = fixed + (word - INF) * full
                need(place + rest <= len(payload) - tail, "raw block")
                out[4 * (first + at):4 * (first + at + m)] = codes[:4 * m] + payload[place:place + rest]
                raws.add((word - INF, first + at))
                rests += rest
                continue
            need(word == 0 or 0x08800000 <= word < INF, "scale")
            s = f32(word)
        if width:
            for i in range(m):
                struct.pack_into("<I", out, 4 * (first + at + i), value(codec, width, codes, i, s))
    need(not scaled or [k for k, _ in sorted(raws, key=lambda r: r[1])] == list(range(count)), "numbers of raw blocks")
    need(len(payload) == fixed + rests + tail, "length")
    out[4 * n:] = payload[len(payload) - tail:] if tail else b""
    return bytes(out)
