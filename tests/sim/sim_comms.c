/* sim_comms.c - worlds by the thousand: each seed is one, and each must end well.  tests/sim/README.md says what that means.
 *
 *   sim_comms [--seeds N] [--seed S] [--first S] [--without R] [-v]
 *
 * Seeds are run in a child, so that one that crashes or hangs is a failed seed with a number like any other. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/rule.h>

#include "sim.h"

enum { SEEDS = 2000, SECONDS_A_SEED = 20, PRINT_MAX = 20 };

struct options {
    uint64_t first, seeds;
    unsigned without; /* 0: every rule holds */
    int loud, in_process;
};

/* What the child has done so far; shared with the parent. */
struct tally {
    uint64_t at, passed, failed, printed;
};

static void print_failed(const struct options *o, struct tally *t, uint64_t seed, const char *why)
{
    t->failed++;
    if (t->printed++ >= PRINT_MAX)
        return;
    printf("seed %llu: %s\n    again: sim_comms --seed %llu -v", (unsigned long long)seed, why,
           (unsigned long long)seed);
    if (o->without > 0)
        printf(" --without %u", o->without);
    printf("\n");
}

static void run_seeds(const struct options *o, struct tally *t)
{
    const struct itimerval guard = { .it_value.tv_sec = SECONDS_A_SEED };
    char why[256];

    for (; t->at < o->first + o->seeds; t->at++) {
        setitimer(ITIMER_PROF, &guard, NULL); /* of its own time: a busy machine is no hang */
        if (sim_run(t->at, o->loud, why))
            t->passed++;
        else
            print_failed(o, t, t->at, why);
    }
    fflush(stdout);
}

/* 1: the child came to its end; 0: it died in the seed at t->at. */
static int run_child(const struct options *o, struct tally *t)
{
    char why[64];
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        run_seeds(o, t);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("sim_comms: fork");
        exit(2);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 1;
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "ends by signal %d%s", WTERMSIG(status), WTERMSIG(status) == SIGPROF ? " (too long)" : "");
    else
        snprintf(why, sizeof why, "ends with status %d", WEXITSTATUS(status));
    print_failed(o, t, t->at++, why);
    return 0;
}

static int number(const char *text, uint64_t *n_p)
{
    char *end;

    errno = 0;
    *n_p = text ? strtoull(text, &end, 10) : 0;
    return text != NULL && *text >= '0' && *text <= '9' && *end == 0 && errno == 0;
}

static void usage(void)
{
    fprintf(stderr, "usage: sim_comms [--seeds N] [--seed S] [--first S] [--without R] [-v]\n");
    exit(2);
}

static void read_options(struct options *o, int argc, char **argv)
{
    uint64_t n;

    if (getenv("SEEDS") != NULL && *getenv("SEEDS") != 0 && !number(getenv("SEEDS"), &o->seeds))
        usage();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            o->loud = 1;
            continue;
        }
        if (!number(i + 1 < argc ? argv[i + 1] : NULL, &n))
            usage();
        if (strcmp(argv[i], "--seeds") == 0)
            o->seeds = n;
        else if (strcmp(argv[i], "--first") == 0)
            o->first = n;
        else if (strcmp(argv[i], "--seed") == 0)
            o->first = n, o->seeds = 1, o->in_process = 1;
        else if (strcmp(argv[i], "--without") == 0 && n > 0 && n < 32)
            o->without = (unsigned)n;
        else
            usage();
        i++;
    }
}

static void switch_off(unsigned rule)
{
    if (rule == 0)
        return;
#ifdef GW_RULES
    gw_rules_off = 1u << rule;
#else
    fprintf(stderr, "sim_comms: --without needs a build with TEST=-DGW_RULES: make sim-rules\n");
    exit(2);
#endif
}

int main(int argc, char **argv)
{
    struct options o = { .seeds = SEEDS };
    struct tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (t == MAP_FAILED)
        return 2;
    read_options(&o, argc, argv);
    switch_off(o.without);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a child that dies takes nothing with it */
    t->at = o.first;
    if (o.in_process)
        run_seeds(&o, t);
    else
        while (t->at < o.first + o.seeds && !run_child(&o, t))
            ;
    printf("%llu passed, %llu failed, 0 skipped\n", (unsigned long long)t->passed, (unsigned long long)t->failed);
    return t->failed > 0;
}
