#include "base/os/symbols.h"

#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <string.h>

#include "base/os/debug_info.h"
#include "base/os/objects.h"
#include "base/os/os.h"

static const Dwfl_Callbacks callbacks = {.find_debuginfo = tess_find_debug_info,
                                         .section_address = dwfl_offline_section_address};

tess_status tess_symbols_open(const char *program, tess_symbols *symbols)
{
    *symbols = (tess_symbols){0};
    TESS_CHECK(tess_os_is_file(program), TESS_E_NOT_FOUND, "%s: there is no such program", program);
    Dwfl *dwfl = dwfl_begin(&callbacks);
    TESS_CHECK(dwfl != NULL, TESS_E_NOMEM, "%s: no memory for its symbols", program);
    GElf_Addr bias;
    Dwfl_Module *module = dwfl_report_offline(dwfl, "", program, -1);
    if (module == NULL || dwfl_report_end(dwfl, NULL, NULL) != 0 || dwfl_module_getelf(module, &bias) == NULL) {
        dwfl_end(dwfl);
        return TESS_FAIL(TESS_E_FORMAT, "%s: not a program with symbols: %s", program, dwfl_errmsg(-1));
    }
    const unsigned char *build_id;
    GElf_Addr at;
    int n = dwfl_module_build_id(module, &build_id, &at);
    *symbols = (tess_symbols){
        .dwfl = dwfl, .module = module, .bias = bias, .id = n > 0 ? tess_object_id(build_id, (size_t)n) : 0};
    return TESS_OK;
}

void tess_symbols_close(tess_symbols *symbols)
{
    if (symbols->dwfl != NULL)
        dwfl_end(symbols->dwfl);
    *symbols = (tess_symbols){0};
}

const char *tess_symbols_report(const tess_symbols *symbols, const char *object, uint64_t offset, char *text,
                                size_t size)
{
    text[0] = '\0';
    if (symbols->module != NULL && offset > 0)
        tess_place_report(symbols->module, offset - 1 + symbols->bias, object, text, size);
    return text;
}
