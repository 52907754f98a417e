/* Statuses, and the message of the latest failure with its chain of context.
 *
 * Every call that can fail returns a tess_status. The text is stored separately for each thread, like errno. The
 * innermost failure writes the message. Each caller that forwards it may prepend what it was doing ("load model:
 * layer 3: ..."). */
#ifndef TESSERA_STATUS_H
#define TESSERA_STATUS_H

#include "tessera/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are stable: they are part of the API. */
#define TESS_STATUS_LIST(X)                                  \
    X(TESS_OK, 0, "ok")                                      \
    X(TESS_E_INVALID, -1, "invalid input")                   \
    X(TESS_E_NOMEM, -2, "out of memory")                     \
    X(TESS_E_IO, -3, "input/output error")                   \
    X(TESS_E_NOT_FOUND, -4, "not found")                     \
    X(TESS_E_FORMAT, -5, "malformed data")                   \
    X(TESS_E_UNSUPPORTED, -6, "not supported")               \
    X(TESS_E_MISMATCH, -7, "ranks disagree")                 \
    X(TESS_E_PEER_LOST, -8, "a rank was lost")               \
    X(TESS_E_TIMEOUT, -9, "deadline passed")                 \
    X(TESS_E_CANCELLED, -10, "cancelled")                    \
    X(TESS_E_INTERRUPTED, -11, "interrupted")                \
    X(TESS_E_NO_SPACE, -12, "no space left on the device")   \
    X(TESS_E_INTERNAL, -13, "internal error")                \
    X(TESS_E_NOT_FINITE, -14, "a number is NaN or infinite") \
    X(TESS_E_DEVICE, -15, "a GPU failed")

typedef enum tess_status {
#define X(name, number, text) name = number,
    TESS_STATUS_LIST(X)
#undef X
} tess_status;

/* Return a status as "TESS_E_FORMAT" and as "malformed data"; never NULL. */
TESS_API const char *tess_status_name(tess_status status);
TESS_API const char *tess_status_text(tess_status status);

/* Returns the message of the calling thread's latest failure, outermost context first, without a newline; "" if
 * there was none. Owned by the library, valid until the thread's next failing call. */
TESS_API const char *tess_error_message(void);

/* Returns the source position of the innermost failure ("src/comm/team.c:120"), for bug reports. */
TESS_API const char *tess_error_where(void);

/* Clears the calling thread's message, for a caller that has handled the failure and continues. */
TESS_API void tess_error_clear(void);

/* Starts a chain: records the message, with passwords and queries of URLs replaced by stars. Returns `status`. */
TESS_API tess_status tess_fail_at(const char *file, int line, tess_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Prepends context to the chain. Returns `status` unchanged. */
TESS_API tess_status tess_fail_context(tess_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__ /* the analyzer cannot see that the call returns its `status` argument */
#define TESS_FAIL(status, ...) (tess_fail_at(__FILE__, __LINE__, (status), __VA_ARGS__), (status))
#else
#define TESS_FAIL(status, ...) tess_fail_at(__FILE__, __LINE__, (status), __VA_ARGS__)
#endif

/* Forwards a failure unchanged. */
#define TESS_TRY(call)                         \
    do {                                       \
        tess_status tess_try_status_ = (call); \
        if (tess_try_status_ != TESS_OK)       \
            return tess_try_status_;           \
    } while (0)

/* Forwards a failure, and prepends what was being done. */
#define TESS_TRY_CTX(call, ...)                               \
    do {                                                      \
        tess_status tess_try_status_ = (call);                \
        if (tess_try_status_ != TESS_OK) {                    \
            tess_fail_context(tess_try_status_, __VA_ARGS__); \
            return tess_try_status_;                          \
        }                                                     \
    } while (0)

/* Forwards a failure through a cleanup label; needs a local `tess_status status`. */
#define TESS_GOTO(call, label) \
    do {                       \
        status = (call);       \
        if (status != TESS_OK) \
            goto label;        \
    } while (0)

/* Checks input; always compiled in. */
#define TESS_CHECK(condition, status, ...)           \
    do {                                             \
        if (!(condition))                            \
            return TESS_FAIL((status), __VA_ARGS__); \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
