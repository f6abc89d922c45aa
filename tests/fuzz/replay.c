/* replay.c - runs a fuzz target over files and folders without a fuzzer: `fuzz_NAME PATH...`. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static unsigned inputs;

/* The copy is exactly as long as the file, so that a sanitizer sees the first byte beyond it. */
static void replay_file(const char *path, size_t size)
{
    uint8_t *data = malloc(size > 0 ? size : 1);
    FILE *f = fopen(path, "rb");
    if (f == NULL || data == NULL || fread(data, 1, size, f) != size) {
        perror(path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    inputs++;
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void replay(const char *path)
{
    struct stat st;
    struct dirent **entries;
    if (stat(path, &st) != 0) {
        perror(path);
        exit(1);
    }
    if (S_ISREG(st.st_mode))
        replay_file(path, (size_t)st.st_size);
    int n = S_ISDIR(st.st_mode) ? scandir(path, &entries, visible, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        char below[4096];
        snprintf(below, sizeof(below), "%s/%s", path, entries[i]->d_name);
        replay(below);
        free(entries[i]);
    }
    if (S_ISDIR(st.st_mode) && n >= 0)
        free(entries);
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("fuzz %s: %u inputs\n", strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name, inputs);
    return 0;
}
