/* phase.h - the phases of a connection, of a message and of a close (transport/WIRE.md), each named where it is passed.
 *
 * GW_PHASE(name) is nothing.  Built with -DGW_PHASES, for `make check-phases` alone, it kills or stops the process at the phase
 * that GRADWIRE_TEST_PHASE names: kill:frame:3 is SIGKILL when `frame` is passed for the third time. */
#ifndef GW_BASE_PHASE_H
#define GW_BASE_PHASE_H

#ifdef GW_PHASES
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* weak: every file that passes a phase brings it, and they all mean the same one and its one count */
__attribute__((weak)) _Atomic unsigned gw_phase_count;

__attribute__((weak, noinline)) void gw_phase_passed(const char *name);
__attribute__((weak, noinline)) void gw_phase_passed(const char *name)
{
    const char *want = getenv("GRADWIRE_TEST_PHASE"), *at = want ? strchr(want, ':') : NULL;
    size_t n = strlen(name);

    if (at == NULL || strncmp(at + 1, name, n) != 0 || at[1 + n] != ':')
        return;
    if (++gw_phase_count == strtoul(at + 2 + n, NULL, 10))
        raise(want[0] == 's' ? SIGSTOP : SIGKILL);
}
#define GW_PHASE(name) gw_phase_passed(#name)
#else
#define GW_PHASE(name) ((void)0)
#endif
#endif
