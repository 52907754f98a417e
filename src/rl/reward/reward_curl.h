/* libcurl, loaded by the first reward over HTTP: it brings 28 shared libraries, and without this every start of the
 * program would take 13 ms longer. Only in builds with TESS_CURL. */
#ifndef TESS_RL_REWARD_REWARD_CURL_H
#define TESS_RL_REWARD_REWARD_CURL_H

#include "tessera/status.h"

#ifdef TESS_CURL

#include <curl/curl.h>

/* The functions in use, without "curl_". */
#define REWARD_CURL_FUNCTIONS(X) \
    X(version)                   \
    X(global_init)               \
    X(global_cleanup)            \
    X(slist_append)              \
    X(slist_free_all)            \
    X(easy_init)                 \
    X(easy_cleanup)              \
    X(easy_setopt)               \
    X(easy_getinfo)              \
    X(easy_perform)              \
    X(easy_strerror)             \
    X(multi_init)                \
    X(multi_cleanup)             \
    X(multi_add_handle)          \
    X(multi_remove_handle)       \
    X(multi_perform)             \
    X(multi_poll)                \
    X(multi_info_read)           \
    X(multi_strerror)

#define REWARD_CURL_FIELD(name) __typeof__(&curl_##name) name;
typedef struct reward_curl_functions {
    REWARD_CURL_FUNCTIONS(REWARD_CURL_FIELD)
} reward_curl_functions;
#undef REWARD_CURL_FIELD

/* Valid after reward_curl_load. */
extern reward_curl_functions reward_curl;

/* Loads libcurl, once in a process; any thread. TESS_E_UNSUPPORTED names every library that was tried, and why it
 * failed. */
tess_status reward_curl_load(void);

#endif

#endif
