/* libmicrohttpd, loaded by the first server: it brings GnuTLS, which no other part of the program needs. Only in builds
 * with TESS_MICROHTTPD. */
#ifndef TESS_DOCTOR_WEB_MICROHTTPD_H
#define TESS_DOCTOR_WEB_MICROHTTPD_H

#include "tessera/status.h"

#ifdef TESS_MICROHTTPD

#include <microhttpd.h>

/* The functions in use, without "MHD_". */
#define WEB_MICROHTTPD_FUNCTIONS(X) \
    X(start_daemon)                 \
    X(stop_daemon)                  \
    X(get_daemon_info)              \
    X(lookup_connection_value)      \
    X(create_response_from_buffer)  \
    X(add_response_header)          \
    X(queue_response)               \
    X(destroy_response)

#define WEB_MICROHTTPD_FIELD(name) __typeof__(&MHD_##name) name;
typedef struct web_microhttpd_functions {
    WEB_MICROHTTPD_FUNCTIONS(WEB_MICROHTTPD_FIELD)
} web_microhttpd_functions;
#undef WEB_MICROHTTPD_FIELD

/* Loads libmicrohttpd. TESS_E_UNSUPPORTED: it is not installed; the message names the package. */
tess_status web_microhttpd_load(web_microhttpd_functions *functions);

#endif

#endif
