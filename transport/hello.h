/* hello.h - the first words on a control socket, and the short ones after.  Pure: bytes in, values out; drawn in WIRE.md. */
#ifndef GW_TRANSPORT_HELLO_H
#define GW_TRANSPORT_HELLO_H

#include <stdint.h>

#include "lane.h"

/* tests/faults builds one of another protocol. */
#ifndef GW_TEST_WIRE
#define GW_TEST_WIRE 1
#endif

enum {
    GW_HANDLE_BYTES = 128,
    GW_TOKEN_BYTES = 16,
    GW_HOST_MAX = 64,   /* bytes of a host name, its NUL included */
    GW_TEXT_MAX = 256,  /* bytes of a reason or of the lossy settings' text, NUL included */
    GW_HELLO_MAX = 2048,
    GW_WIRE_VERSION = GW_TEST_WIRE,     /* newest protocol this build speaks */
    GW_WIRE_VERSION_MIN = GW_TEST_WIRE, /* oldest */
    GW_ADDRS_MAX = 4
};

/* An address of our listener: family 4 or 6. */
struct gw_addr {
    uint8_t family; /* 0 none, 4, 6 */
    uint16_t port;
    uint8_t ip[16];
    uint32_t scope; /* IPv6 link-local only */
};

/* The 128 bytes that NCCL carries from listen to the peer's connect.  `local` is this side's own scratch: the number of a
 * pending connect, 0 on the wire, and never trusted: it is looked up, together with the token. */
struct gw_handle {
    uint8_t token[GW_TOKEN_BYTES];
    uint8_t addrs;
    struct gw_addr addr[GW_ADDRS_MAX];
    uint64_t local;
};

struct gw_hello {
    uint16_t version_min, version_max; /* range this end speaks */
    uint32_t caps;                     /* enum gw_lane_caps of the lane, for the peer's error lines and R2 */
    uint32_t pid;
    uint32_t chunk_bytes;              /* the smaller of both is taken */
    uint64_t codecs;                   /* bit per codec id; the common ones are used */
    uint8_t check;                     /* OR */
    uint8_t role;                      /* 1 sender, 2 receiver */
    uint8_t token[GW_TOKEN_BYTES];
    char host[GW_HOST_MAX];            /* printable ASCII, NUL-padded */
    char lane[16];                     /* "ucx" */
    char lossy[GW_TEXT_MAX];           /* canonical text of lossy settings; must be equal */
    char build[32];                    /* version, for error lines only */
    struct gw_blob blob;               /* the lane's */
};

struct gw_reject {
    int32_t code; /* gw_err */
    char text[GW_TEXT_MAX];
    char host[GW_HOST_MAX];
};

/* What this end has finished: every number below `lowest`, and lowest + i where bit i of map is set. */
struct gw_bye {
    uint32_t lowest, map;
    uint8_t receiver; /* 1: the fields count */
};

struct gw_fail {
    int32_t code;    /* gw_err */
    uint32_t number; /* message, or 0 */
    uint32_t pid;    /* of the origin */
    uint8_t told;    /* the origin is another connection */
    char host[GW_HOST_MAX];
    char text[GW_TEXT_MAX];
};

/* Every message on the control socket: u32 magic | u8 kind | u8 version | u16 body length | body. */
enum gw_ctl_kind { GW_CTL_HELLO = 1, GW_CTL_REJECT, GW_CTL_ALIVE, GW_CTL_FAIL, GW_CTL_BYE };
enum { GW_CTL_HEAD = 8, GW_CTL_MAX = GW_CTL_HEAD + GW_HELLO_MAX };

void gw_handle_write(uint8_t out[GW_HANDLE_BYTES], const struct gw_handle *h);
gw_err gw_handle_read(const uint8_t in[GW_HANDLE_BYTES], struct gw_handle *h); /* GW_E_VERSION, GW_E_PROTO */

/* Writers return the bytes written, head included; out holds GW_CTL_MAX. */
uint32_t gw_hello_write(uint8_t *out, const struct gw_hello *h);
uint32_t gw_reject_write(uint8_t *out, const struct gw_reject *r);
uint32_t gw_alive_write(uint8_t *out, int answer_me);
uint32_t gw_fail_write(uint8_t *out, const struct gw_fail *f);
uint32_t gw_bye_write(uint8_t *out, const struct gw_bye *b);

/* GW_AGAIN: more bytes are needed.  GW_OK: kind and the whole message's length are known.  Hostile bytes. */
gw_err gw_ctl_read(const uint8_t *in, uint32_t len, enum gw_ctl_kind *kind_p, uint32_t *whole_p);
/* Each gets one whole message, head included; what is accepted is re-written to the same bytes. */
gw_err gw_hello_read(const uint8_t *in, uint32_t len, struct gw_hello *h);
gw_err gw_reject_read(const uint8_t *in, uint32_t len, struct gw_reject *r);
gw_err gw_alive_read(const uint8_t *in, uint32_t len, int *answer_me_p);
gw_err gw_fail_read(const uint8_t *in, uint32_t len, struct gw_fail *f);
gw_err gw_bye_read(const uint8_t *in, uint32_t len, struct gw_bye *b);

/* What two hellos agree on; on a difference that cannot be bridged a code and one sentence that names both values. */
struct gw_agreed {
    uint16_t version;
    uint32_t chunk_bytes;
    uint64_t codecs;
    uint8_t check;
};
gw_err gw_hello_agree(const struct gw_hello *mine, const struct gw_hello *theirs, struct gw_agreed *a, struct gw_reject *why);
#endif
