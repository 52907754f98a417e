#include "comm/call_sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/symbols.h"

enum { MOST_BYTES = 4096 };

static const char mark[] = "called at program+0x";

void tess_call_sites_name(const char *program, char *text, size_t size)
{
    char named[MOST_BYTES], site[160];
    const char *from = text, *at;
    size_t n = 0;
    tess_symbols symbols;
    if (strstr(text, mark) == NULL || tess_symbols_open(program, &symbols) != TESS_OK) {
        tess_error_clear();
        return;
    }
    while ((at = strstr(from, mark)) != NULL && n < sizeof(named)) {
        char *end;
        uint64_t offset = strtoull(at + sizeof(mark) - 1, &end, 16);
        bool known = tess_symbols_tell(&symbols, offset, site, sizeof(site))[0] != '\0';
        n +=
            (size_t)snprintf(named + n, sizeof(named) - n, "%.*s%s%.*s", (int)(at - from), from,
                             known ? "called by " : "", known ? (int)strlen(site) : (int)(end - at), known ? site : at);
        from = end;
    }
    if (n < sizeof(named))
        n += (size_t)snprintf(named + n, sizeof(named) - n, "%s", from);
    if (n < sizeof(named) && n < size)
        memcpy(text, named, n + 1);
    tess_symbols_close(&symbols);
}
