/* stat.c - see include/gradwire/stat.h for who makes the page and who reads it. */
#include "stat.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/clock.h>

static struct gw_stat_page own;
struct gw_stat_page *gw_stat = &own;
int gw_stat_watched;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards opening and the names */

/* The number comes from the environment: only a memfd of our size, zeroed, and sealed so that nobody can shrink it into a fault
 * under us, is taken; never a file of the user's. */
static int is_page(long fd)
{
    struct stat st;
    uint64_t magic;
    int seals = fcntl((int)fd, F_GET_SEALS);

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat((int)fd, &st) == 0 && st.st_size == GW_STAT_BYTES &&
           pread((int)fd, &magic, sizeof magic, 0) == sizeof magic && magic == 0;
}

static struct gw_stat_page *map_named(const struct gw_logger *log)
{
    const char *text = getenv("GRADWIRE_STAT_FD");
    char *end;
    long fd;
    void *at;

    if (text == NULL)
        return NULL;
    fd = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || fd < 0 || fd > 1 << 20 || !is_page(fd)) {
        gw_log(log, GW_LOG_WARN, "gradwire: GRADWIRE_STAT_FD %.20s names no empty, sealed memfd of %d bytes; counters stay "
               "inside", text, GW_STAT_BYTES);
        return NULL;
    }
    at = mmap(NULL, GW_STAT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    if (at == MAP_FAILED) {
        gw_log(log, GW_LOG_WARN, "gradwire: mapping GRADWIRE_STAT_FD %.20s: %m; counters stay inside", text);
        return NULL;
    }
    return at;
}

static void fill(struct gw_stat_page *page)
{
    page->version = GW_STAT_VERSION;
    page->size = GW_STAT_BYTES;
    page->pid = (uint32_t)getpid();
    page->start_ns = gw_now_ns();
    __atomic_store_n(&page->magic, GW_STAT_MAGIC, __ATOMIC_RELEASE);
}

void gw_stat_open(const struct gw_logger *log, const char *codec, const char *policy)
{
    pthread_mutex_lock(&lock);
    if (gw_stat->magic != GW_STAT_MAGIC) {
        struct gw_stat_page *page = map_named(log);
        if (page != NULL)
            gw_stat = page, gw_stat_watched = 1;
        fill(gw_stat);
    }
    snprintf(gw_stat->codec, sizeof gw_stat->codec, "%s", codec);
    snprintf(gw_stat->policy, sizeof gw_stat->policy, "%s", policy);
    pthread_mutex_unlock(&lock);
}

void gw_stat_lane(const char *lane)
{
    pthread_mutex_lock(&lock);
    snprintf(gw_stat->lane, sizeof gw_stat->lane, "%.15s", lane);
    pthread_mutex_unlock(&lock);
}
