/* error.h - every status gradwire can answer, in one table.
 *
 * GW_OK is 0.  Positive values are no failures: GW_AGAIN, nothing was taken, call again; GW_RAW, the bytes are not worth
 * coding, send them as they are.  Failures are negative and their numbers never change.  The scope says what the caller
 * must now throw away. */
#ifndef GRADWIRE_ERROR_H
#define GRADWIRE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GW_API __attribute__((visibility("default")))
#else
#define GW_API
#endif

/* what is broken afterwards: nothing but this call, the request, the connection, everything of this ctx */
enum gw_scope { GW_SCOPE_NONE = 0, GW_SCOPE_CALL, GW_SCOPE_REQ, GW_SCOPE_COMM, GW_SCOPE_CTX };

#define GW_ERR_MAP(X)                                                        \
    X(GW_E_ARG, -1, CALL, "an argument is out of its range")                 \
    X(GW_E_LIMIT, -2, CALL, "a fixed limit is reached")                      \
    X(GW_E_NOMEM, -3, CALL, "no memory")                                     \
    X(GW_E_NOSYS, -4, CALL, "not offered here")                              \
    X(GW_E_CORRUPT, -5, REQ, "bytes do not follow the format")               \
    X(GW_E_PROTO, -6, COMM, "peer broke the protocol")                       \
    X(GW_E_PEER, -7, COMM, "peer is gone")                                   \
    X(GW_E_TIMEOUT, -8, COMM, "peer did not answer in time")                 \
    X(GW_E_DEVICE, -9, CTX, "device failed")                                 \
    X(GW_E_SIZE, -10, COMM, "message is larger than the buffer that waits")  \
    X(GW_E_REFUSED, -11, COMM, "peer refused the connection")                \
    X(GW_E_VERSION, -12, COMM, "the two ends speak different versions")      \
    X(GW_E_SETTING, -13, CTX, "a setting cannot be used")                    \
    X(GW_E_SYS, -14, CALL, "the operating system refused")                   \
    X(GW_E_CHECK, -15, COMM, "checksum differs: bytes changed on the way")   \
    X(GW_E_CLOSED, -16, COMM, "closed while requests were outstanding")      \
    X(GW_E_LANE, -17, COMM, "the lane failed")                               \
    X(GW_E_TOLD, -18, COMM, "another connection of this communicator failed") \
    X(GW_E_MODULE, -19, CTX, "a lane module cannot be loaded")

typedef enum gw_err {
    GW_OK = 0,
    GW_AGAIN = 1,
    GW_RAW = 2,
#define GW_ERR_ENUM(name, number, scope, text) name = number,
    GW_ERR_MAP(GW_ERR_ENUM)
#undef GW_ERR_ENUM
} gw_err;

/* The constant's name ("GW_E_PEER") and its sentence.  Never NULL, static, any thread; an unknown number says so. */
GW_API const char *gw_err_name(gw_err err);
GW_API const char *gw_err_text(gw_err err);

/* What is broken after this status; GW_SCOPE_NONE for what is no failure, GW_SCOPE_CTX for an unknown number. */
GW_API enum gw_scope gw_err_scope(gw_err err);

#ifdef __cplusplus
}
#endif
#endif
