/* fuzz_conf.c - any bytes as a settings file: no value outside its range gets in, and each can be written and read back. */
#include <string.h>

#include <base/check.h>
#include <conf.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void swallow(void *arg, enum gw_log_level level, const char *line)
{
    (void)level;
    gw_assert(strlen(line) <= 1000);
    ++*(unsigned *)arg;
}

static void again(void *arg, const struct gw_setting_info *item)
{
    struct gw_conf *copy = arg;
    gw_assert(gw_conf_set(copy, item->name, item->value, GW_CONF_ENV, 0, NULL) == GW_OK);
}

static void in_range(const struct gw_conf *c)
{
    gw_assert(c->lane <= GW_CONF_LANE_LOOP && c->policy <= GW_CONF_POLICY_NEVER && c->gdr <= GW_CONF_GDR_OFF);
    gw_assert(c->log <= GW_CONF_LOG_NCCL && c->check <= 1 && c->workers <= 64 && c->port_lo <= c->port_hi);
    gw_assert(c->chunk_bytes >= 16384 && c->chunk_bytes <= 16 << 20 && c->chunk_bytes % 16384 == 0);
    gw_assert(memchr(c->ifname, 0, sizeof c->ifname) && memchr(c->codec, 0, sizeof c->codec));
    gw_assert(memchr(c->hca, 0, sizeof c->hca) && memchr(c->ucx_tls, 0, sizeof c->ucx_tls));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned lines = 0;
    struct gw_logger log = {swallow, &lines, GW_LOG_DEBUG};
    struct gw_conf c, copy;
    gw_conf_defaults(&c);
    gw_err err = gw_conf_parse_file(&c, GW_CONF_USER, (const char *)data, size, &log);
    gw_assert(err == GW_OK || (err == GW_E_SETTING && lines > 0)); /* nothing is refused without a word */
    in_range(&c);
    gw_conf_defaults(&copy);
    gw_conf_each(&c, again, &copy);
    memset(copy.from, 0, sizeof copy.from);
    memset(c.from, 0, sizeof c.from);
    gw_assert(memcmp(&c, &copy, sizeof c) == 0);
    return 0;
}
