/* test_golden_lossy.c - the frames of lossy codecs that are the format: every kernel writes them, reads them, and adds them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <gradwire/frame.h>
#include <kern.h>

#include "../golden/lossy_rows.h"

enum { ROOM = 2 * LOSSY_BYTES };

static _Alignas(64) uint8_t ws[2 << 20];
static uint8_t in[ROOM], src[ROOM], frame[ROOM], out[ROOM];
static float sum[LOSSY_BYTES / 4 + 1];

static size_t load(const char *name, const char *end, uint8_t *p)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/golden/%s%s", GW_SRC, name, end);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(p, 1, ROOM - 1, f);
    fclose(f);
    p[n] = 0;
    return n;
}

static void check(const struct lossy_row *row, size_t len, uint64_t want)
{
    struct gw_coding c = lossy_coding(row);
    size_t again = 0, n = row->bytes;
    memset(out, 0xee, sizeof(out));
    assert_int_equal(gw_frame_decode(frame, len, out, n, ws), GW_OK);
    assert_true(XXH3_64bits(out, n) == want);
    memset(sum, 0, sizeof(sum));
    assert_int_equal(gw_frame_decode_add(frame, len, sum, n, 1, ws), GW_OK);
    for (size_t i = 0; i < n / 4; i++) {
        float v;
        memcpy(&v, out + 4 * i, 4);
        uint32_t bits = gw_get32(out + 4 * i);
        assert_true((bits & 0x7f800000) == 0 ? sum[i] == 0 : sum[i] == v || (v != v && sum[i] != sum[i]));
    }
    assert_int_equal(gw_frame_encode(gw_codec_by_name(row->codec), &c, 1, src, n, out, sizeof(out), &again, ws), GW_OK);
    assert_int_equal(again, len);
    assert_memory_equal(out, frame, len);
}

static void test_frames(void **s)
{
    (void)s;
    assert_int_equal(load("lossy", ".in", in), LOSSY_BYTES);
    for (size_t i = 0; i < LOSSY_ROWS; i++) {
        char name[64];
        snprintf(name, sizeof(name), "lossy-%s", lossy_rows[i].name);
        assert_int_equal(load(name, ".xxh3", frame), 17);
        uint64_t want = strtoull((char *)frame, NULL, 16);
        size_t len = load(name, ".frame", frame);
        lossy_source(&lossy_rows[i], in, src);
        for (size_t k = 0; gw_kern_at(k) != NULL; k++) {
            if (!gw_kern_at(k)->usable())
                continue;
            gw_kern_force(gw_kern_at(k));
            check(&lossy_rows[i], len, want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_frames)};
    return cmocka_run_group_tests_name("golden_lossy", tests, NULL, NULL);
}
