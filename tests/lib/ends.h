/* ends.h - two ends of a control connection over loopback, for the tests of doors and of the watch.  Every wait has a
 * generous end and no result depends on how long one took; what fails, fails the running test. */
#ifndef GW_TESTS_ENDS_H
#define GW_TESTS_ENDS_H

#include <pthread.h>
#include <stddef.h>

#include <control.h>

enum { ENDS_GUARD_MS = 30000 };

/* All that was logged since ends_begin: "LEVEL line" and a newline each. */
extern struct ends_said {
    pthread_mutex_t lock;
    char text[1 << 16];
    size_t at;
} ends_said;
int ends_was_said(const char *what);
void ends_wait_said(const char *what);

/* main calls first once; begin and end_all stand around each test: afterwards nothing lingers, no thread runs, and as many
 * sockets are open as before. */
extern int ends_sockets_before;
int ends_sockets_open(void);
void ends_first(void);
int ends_begin(void **state);
int ends_end_all(void **state);
#define ENDS_CASE(name) cmocka_unit_test_setup_teardown(name, ends_begin, ends_end_all)

extern const struct gw_addr ends_here; /* 127.0.0.1 */
struct gw_control_conf ends_conf_now(void);
struct gw_hello ends_hello_of(int role);
struct gw_door *ends_door_open(const struct gw_control_conf *conf, struct gw_handle *h);
int ends_stranger(const struct gw_handle *h); /* a plain socket, connected */

struct ends_link {
    struct gw_guest *in, *out;
    struct gw_hello at_door, at_dial;
};

/* Polls both ends as NCCL would until both have the other's hello, whoever else is at the door. */
void ends_meet(struct gw_door *door, struct gw_guest *dial, struct ends_link *l);
void ends_link_up(const struct gw_control_conf *conf, struct ends_link *l);

struct ends_end {
    struct gw_watched w;
    struct gw_control *c;
    _Atomic int changes;
    struct gw_control *_Atomic tell; /* a fail that comes is said there too */
};

void ends_watch(const struct gw_control_conf *conf, struct ends_end *e, struct gw_guest *g);
void ends_pair_up(const struct gw_control_conf *conf, struct ends_end *a, struct ends_end *b);
uint32_t ends_wait_sign(struct ends_end *e, uint32_t sign); /* all signs there are then */
#endif
