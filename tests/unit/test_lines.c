/* test_lines.c - gw_place_lines stores word after word, and memcpy does not.
 *
 * A reader on another thread would see the difference by luck only.  Here the copy runs one machine instruction at a time, and
 * after each the words are looked at: those up to some place are new and whole, those behind it are old, and no instruction moves
 * that place by more than one.  memcpy fails that however it is made: by vectors it stores several words at once, by bytes it
 * stores parts of one. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <place.h>

enum { WORDS = 32 };

/* The thread sanitizer hands signals on when it likes. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

static uint64_t src[WORDS];
static volatile uint64_t dst[WORDS];
static volatile int stored, steps, wrong;

static void after_each_instruction(int sig)
{
    int fresh = 0;

    (void)sig;
    steps++;
    while (fresh < WORDS && dst[fresh] == src[fresh])
        fresh++;
    for (int i = fresh; i < WORDS; i++)
        wrong += dst[i] != 0;
    wrong += fresh != stored && fresh != stored + 1;
    stored = fresh;
}

typedef void copy_fn(void *to, const void *from, uint64_t n);

/* The stack below its pointer may be in use. */
static void single_step(int on)
{
    if (on)
        __asm__ volatile("subq $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; addq $128, %%rsp" ::: "memory", "cc");
    else
        __asm__ volatile("subq $128, %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; addq $128, %%rsp" ::: "memory", "cc");
}

/* How often the order was broken. */
static int step_through(copy_fn *copy)
{
    struct sigaction trap = { .sa_handler = after_each_instruction }, old;

    stored = steps = wrong = 0;
    for (int i = 0; i < WORDS; i++)
        dst[i] = 0, src[i] = 0x0101010101010101u * (unsigned)(i + 1);
    sigaction(SIGTRAP, &trap, &old);
    single_step(1);
    copy((void *)(uintptr_t)dst, src, sizeof src);
    single_step(0);
    sigaction(SIGTRAP, &old, NULL);
    assert_true(steps > 0);
    assert_int_equal(stored, WORDS);
    return wrong;
}

static void plain_copy(void *to, const void *from, uint64_t n)
{
    memcpy(to, from, n);
}

static void lines_are_stored_in_order(void **state)
{
    (void)state;
    assert_int_equal(step_through(gw_place_lines), 0);
}

static void memcpy_would_be_noticed(void **state)
{
    (void)state;
    assert_true(step_through(plain_copy) > 0);
}

#else

static void lines_are_stored_in_order(void **state)
{
    (void)state;
    print_message("skipped: nothing here runs a copy one instruction at a time\n");
    skip();
}
#define memcpy_would_be_noticed lines_are_stored_in_order

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_stored_in_order),
        cmocka_unit_test(memcpy_would_be_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
