/* test_verbs_lines.c - offers and grants of the verbs lane, as they stand in the sender's memory: whole, half written, too many. */
#include "verbs_bed.h"

static uint32_t offer_of(uint32_t number, uint8_t buffers, uint8_t pieces, uint8_t *out)
{
    struct gw_offer o = { .number = number, .buffers = buffers, .pieces = pieces, .piece_bytes = pieces ? 4096 : 0 };

    for (int i = 0; i < buffers; i++)
        o.buf[i] = (struct gw_offer_buf){ .addr = 0x10000, .cap = 100, .tag = (uint32_t)i };
    return gw_offer_write(out, &o);
}

static void test_offers(void **state)
{
    uint8_t two[GW_MSG_MAX], eight[GW_OFFER_MAX];
    uint32_t a = offer_of(0, 1, 0, two), b = offer_of(1, 2, 2, two + a), c = offer_of(2, 8, 0, eight);
    struct gw_event ev[RING];

    (void)state;
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
    assert_int_equal(gw_verbs_msg(&rx.lane, two, a + b), GW_OK);
    assert_int_equal(gw_verbs_msg(&rx.lane, eight, c), GW_OK);
    assert_int_equal(dev.posted, 3);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 3);
    assert_memory_equal(ev[0].msg, two, a);
    assert_memory_equal(ev[1].msg, two + a, b);
    assert_memory_equal(ev[2].msg, eight, c);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
    assert_int_equal(gw_verbs_msg(&rx.lane, two, a - 1), GW_E_ARG);
    assert_int_equal(gw_verbs_msg(&tx.lane, two, a), GW_E_ARG);
}

/* Seen half written it is none; and one that stays so is the peer's fault. */
static void test_torn_offer(void **state)
{
    uint8_t msg[GW_OFFER_MAX];
    uint32_t len = offer_of(0, 1, 0, msg);
    struct gw_event ev[RING];

    (void)state;
    gw_verbs_msg(&rx.lane, msg, len);
    for (uint32_t i = 0; i < len; i++) {
        box[0][i] ^= 1;
        assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
        box[0][i] ^= 1;
    }
    box[0][70] ^= 1;
    now += 1;
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
    now += 2000000000;
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 1);
    assert_true(ev[0].kind == GW_EV_FAILED && ev[0].err == GW_E_PROTO);
}

static void test_grants(void **state)
{
    struct gw_grant g = { .number = 0, .count = { 2, 1 } };
    uint8_t offer[GW_OFFER_MAX], grant[GW_GRANT_BYTES], *line = box[0] + GW_VERBS_GRANTS;
    struct gw_event ev[RING];

    (void)state;
    gw_verbs_msg(&rx.lane, offer, offer_of(0, 1, 2, offer));
    gw_grant_write(grant, &g);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 1);
    assert_int_equal(gw_verbs_msg(&rx.lane, grant, sizeof grant), GW_OK);
    line[8] ^= 1; /* not all of it is there yet */
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
    line[8] ^= 1;
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 1);
    assert_true(ev[0].len == sizeof grant);
    assert_memory_equal(ev[0].msg, grant, sizeof grant);
    assert_int_equal(gw_verbs_poll(&tx.lane, ev, RING), 0);
}

/* No room for all of a message: nothing of it leaves. */
static void test_words_wait(void **state)
{
    uint8_t msg[GW_OFFER_MAX];
    struct gw_event ev[RING];

    (void)state;
    for (uint32_t i = 0; i < RING; i++)
        assert_int_equal(gw_verbs_msg(&rx.lane, msg, offer_of(i, 1, 0, msg)), GW_OK);
    assert_int_equal(gw_verbs_msg(&rx.lane, msg, offer_of(RING, 1, 0, msg)), GW_AGAIN);
    complete(RING - 1, IBV_WC_SUCCESS);
    assert_int_equal(gw_verbs_poll(&rx.lane, ev, RING), 0);
    assert_int_equal(gw_verbs_msg(&rx.lane, msg, offer_of(RING, 1, 0, msg)), GW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_offers), CASE(test_torn_offer), CASE(test_grants), CASE(test_words_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
