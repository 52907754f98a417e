#include "rl/reward/reward_curl.h"

#ifdef TESS_CURL

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/text/text.h"

/* Builds of one library, with OpenSSL and with GnuTLS: Debian installs either without the other. */
static const char *const libraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

typedef struct symbol {
    const char *name;
    size_t offset; /* bytes from the beginning of reward_curl_functions */
} symbol;

#define SYMBOL(name) {"curl_" #name, offsetof(reward_curl_functions, name)},
static const symbol symbols[] = {REWARD_CURL_FUNCTIONS(SYMBOL)};
#undef SYMBOL

/* The library is the process's: it is loaded and initialised once, and stays. */
reward_curl_functions reward_curl;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

/* Returns the first of the symbols that the library lacks; NULL once reward_curl has all of them. */
static const char *take_functions(void *library)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *function = dlsym(library, symbols[i].name);
        if (function == NULL)
            return symbols[i].name;
        memcpy((char *)&reward_curl + symbols[i].offset, &function, sizeof(function));
    }
    return NULL;
}

static tess_status load(void)
{
    char why[768];
    size_t end = 0;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        const char *missing = library != NULL ? take_functions(library) : NULL;
        if (library != NULL && missing == NULL)
            return TESS_OK;
        end = library == NULL ? tess_text_add(why, sizeof(why), end, "; %s", dlerror())
                              : tess_text_add(why, sizeof(why), end, "; %s has no %s", libraries[i], missing);
        if (library != NULL)
            dlclose(library);
    }
    return TESS_FAIL(TESS_E_UNSUPPORTED, "rewards over HTTP need libcurl: install libcurl4 7.85 or newer%s", why);
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
