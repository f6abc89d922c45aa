/* flags.c - LL and LL128 buffers carry flags that a GPU polls while the bytes arrive.  Three witnesses must agree that there
 * are none before a message may be coded: the region it stands in, the host's hints, and the bytes themselves. */
#include "comm.h"

#include <base/bytes.h>

enum { LL_LINE = 16, LL128_LINE = 128, LL128_UNIT = 2048 };

static uint64_t last_word(const uint8_t *line)
{
    return gw_get64(line + LL128_LINE - 8);
}

static int shows_ll128(const uint8_t *p, uint32_t size)
{
    uint64_t flag;

    if (size == 0 || size % LL128_UNIT != 0)
        return 0;
    flag = last_word(p);
    return flag != 0 && flag == last_word(p + LL128_LINE) && flag == last_word(p + size - LL128_LINE);
}

static int ll_line(const uint8_t *line, uint32_t flag)
{
    return gw_get32(line + 4) == flag && gw_get32(line + 12) == flag;
}

static int shows_ll(const uint8_t *p, uint32_t size)
{
    uint32_t flag;

    if (size == 0 || size % LL_LINE != 0)
        return 0;
    flag = gw_get32(p + 4);
    return flag != 0 && ll_line(p, flag) && ll_line(p + size - LL_LINE, flag);
}

int gw_bytes_show_flags(const void *data, uint32_t size)
{
    return shows_ll(data, size) || shows_ll128(data, size);
}

/* NCCL registers LL, LL128 and Simple, in this order, before the first message; of two only the last is not LL. Not
 * documented, hence one witness of three. */
int gw_mem_may_be_simple(const struct gw_comm *comm, const struct gw_mem *mem)
{
    if (mem == NULL)
        return 1;
    if (comm->regions == 3)
        return mem->ordinal >= 2;
    if (comm->regions == 2)
        return mem->ordinal >= 1;
    return 1;
}
