#ifdef TESS_CURL

#include "rl/reward/reward_curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char LIBRARY[] = "libcurl.so.4";

typedef struct symbol {
    const char *name;
    size_t offset; /* bytes from the beginning of reward_curl_functions */
} symbol;

#define SYMBOL(name) {"curl_" #name, offsetof(reward_curl_functions, name)},
static const symbol symbols[] = {REWARD_CURL_FUNCTIONS(SYMBOL)};
#undef SYMBOL

reward_curl_functions reward_curl;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static tess_status load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    TESS_CHECK(library != NULL, TESS_E_UNSUPPORTED, "rewards over HTTP need libcurl: %s; install libcurl4", dlerror());
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *function = dlsym(library, symbols[i].name);
        TESS_CHECK(function != NULL, TESS_E_UNSUPPORTED, "%s has no %s: install a newer libcurl4", LIBRARY,
                   symbols[i].name);
        memcpy((char *)&reward_curl + symbols[i].offset, &function, sizeof(function));
    }
    return TESS_OK;
}

tess_status reward_curl_load(void)
{
    pthread_mutex_lock(&lock);
    tess_status status = is_loaded ? TESS_OK : load();
    is_loaded = status == TESS_OK;
    pthread_mutex_unlock(&lock);
    return status;
}

#endif
