/* test_slab.c - halves stay halves, nothing is lent twice, also between threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <slab.h>

enum { CHUNK = 16 << 10, PIECES = 32, THREADS = 4, ROUNDS = 20000 };

static gw_err reg(void *dev, void *base, size_t bytes, int remote, struct gw_region *out)
{
    int *regs = dev;

    assert_int_equal(remote, 1);
    *out = (struct gw_region){ .base = base, .bytes = bytes };
    ++*regs;
    return GW_OK;
}

static void dereg(void *dev, struct gw_region *region)
{
    int *regs = dev;

    assert_non_null(region->base);
    --*regs;
}

static const struct gw_lane_ops ops = { .size = sizeof ops, .name = "test", .reg = reg, .dereg = dereg };

static struct gw_slab *make(int *regs)
{
    struct gw_slab *slab = NULL;

    assert_int_equal(gw_slab_new(&ops, regs, PIECES * (CHUNK + 4096), CHUNK, &slab), GW_OK);
    assert_int_equal(*regs, 1);
    return slab;
}

static void lends_each_half_alone(void **state)
{
    int regs = 0;
    struct gw_slab *slab = make(&regs);
    struct gw_piece peer[PIECES], own;
    uint32_t n = 0;

    (void)state;
    while (gw_slab_lend(slab, GW_SLAB_PEER, &peer[n]) == GW_OK) {
        assert_int_equal(((uintptr_t)peer[n].base + GW_HEAD_BYTES) % 64, 0);
        memset(peer[n].base, 0xa5, gw_slab_piece_bytes(slab));
        n++;
    }
    assert_int_equal(n, PIECES / 2);
    assert_int_equal(gw_slab_left(slab, GW_SLAB_PEER), 0);
    assert_int_equal(gw_slab_lend(slab, GW_SLAB_OWN, &own), GW_OK);
    gw_slab_back(slab, &own);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_true(peer[i].base >= peer[j].base + gw_slab_piece_bytes(slab) ||
                        peer[j].base >= peer[i].base + gw_slab_piece_bytes(slab));
    for (uint32_t i = 0; i < n; i++)
        gw_slab_back(slab, &peer[i]);
    assert_int_equal(gw_slab_left(slab, GW_SLAB_PEER), gw_slab_total(slab, GW_SLAB_PEER));
    gw_slab_free(slab);
    assert_int_equal(regs, 0);
}

static void refuses_what_holds_no_two_pieces(void **state)
{
    int regs = 0;
    struct gw_slab *slab;

    (void)state;
    assert_int_equal(gw_slab_new(&ops, &regs, CHUNK, CHUNK, &slab), GW_E_ARG);
    assert_int_equal(regs, 0);
}

struct many {
    struct gw_slab *slab;
    _Atomic int lent[PIECES];
    _Atomic int twice;
};

static void *lend_and_give_back(void *arg)
{
    struct many *m = arg;
    struct gw_piece p;

    for (int i = 0; i < ROUNDS; i++) {
        if (gw_slab_lend(m->slab, (enum gw_slab_half)(i % 2), &p) != GW_OK)
            continue;
        if (atomic_exchange(&m->lent[p.index], 1))
            atomic_store(&m->twice, 1);
        atomic_store(&m->lent[p.index], 0);
        gw_slab_back(m->slab, &p);
    }
    return NULL;
}

static void nothing_is_lent_twice_between_threads(void **state)
{
    int regs = 0;
    struct many m = { .slab = make(&regs) };
    pthread_t t[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, lend_and_give_back, &m), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&m.twice), 0);
    assert_int_equal(gw_slab_left(m.slab, GW_SLAB_OWN), gw_slab_total(m.slab, GW_SLAB_OWN));
    gw_slab_free(m.slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lends_each_half_alone),
        cmocka_unit_test(refuses_what_holds_no_two_pieces),
        cmocka_unit_test(nothing_is_lent_twice_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
