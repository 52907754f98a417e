#include "doctor/web/microhttpd.h"

#ifdef TESS_MICROHTTPD

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef struct web_symbol {
    const char *name;
    size_t offset; /* bytes from the beginning of web_microhttpd_functions */
} web_symbol;

#define SYMBOL(name) {"MHD_" #name, offsetof(web_microhttpd_functions, name)},
static const web_symbol symbols[] = {WEB_MICROHTTPD_FUNCTIONS(SYMBOL)};
#undef SYMBOL

/* The library stays loaded: the system counts how often it is opened. */
tess_status web_microhttpd_load(web_microhttpd_functions *functions)
{
    static const char file[] = "libmicrohttpd.so.12";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    TESS_CHECK(library != NULL, TESS_E_UNSUPPORTED, "pages over HTTP need libmicrohttpd: install libmicrohttpd12 (%s)",
               dlerror());
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *function = dlsym(library, symbols[i].name);
        if (function == NULL) {
            dlclose(library);
            return TESS_FAIL(TESS_E_UNSUPPORTED, "pages over HTTP need libmicrohttpd 0.9.75 or newer: %s has no %s",
                             file, symbols[i].name);
        }
        memcpy((char *)functions + symbols[i].offset, &function, sizeof(function));
    }
    return TESS_OK;
}

#endif
