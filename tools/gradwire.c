/* gradwire.c - the command: one word picks what it does. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "info.h"
#include "perf.h"

static int usage(FILE *out)
{
    fputs("usage: gradwire COMMAND [options]\n"
          "\n"
          "  perf       moves bytes through an NCCL net plugin, checks and measures them\n"
          "  bench      size and speed of every codec on files, beside memcpy and other libraries\n"
          "  info       version, codecs, interfaces, every setting with its value and where that comes from\n"
          "  help       this text; `gradwire COMMAND --help` tells more\n"
          "  version    the version, as --version\n",
          out);
    return out == stdout ? PERF_OK : PERF_USAGE;
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    char name[32];

    if (argc > 1) { /* getopt's own lines begin with it */
        snprintf(name, sizeof(name), "gradwire %s", word);
        argv[1] = name;
    }
    if (strcmp(word, "perf") == 0)
        return perf_main(argc - 1, argv + 1);
    if (strcmp(word, "bench") == 0)
        return bench_main(argc - 1, argv + 1);
    if (strcmp(word, "info") == 0)
        return info_main(argc - 1, argv + 1);
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return usage(stdout);
    if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0) {
        puts("gradwire " GW_VERSION);
        return PERF_OK;
    }
    if (*word != '\0')
        fprintf(stderr, "gradwire: there is no command `%s`\n", word);
    return usage(stderr);
}

/* What could not be printed was not said: a full disk behind a redirection is a failure. */
int main(int argc, char **argv)
{
    int code = run(argc, argv);

    if ((fflush(stdout) != 0 || ferror(stdout)) && code == PERF_OK) {
        perror("gradwire: writing the output");
        code = PERF_FAILED;
    }
    return code;
}
