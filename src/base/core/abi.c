#include "base/core/abi.h"

#include "tessera/version.h"

int tess_version(const char **text)
{
    if (text != NULL)
        *text = TESS_VERSION;
    return TESS_VERSION_NUMBER;
}

tess_status tess_abi_check_size(const char *type, const void *options, size_t size, size_t known)
{
    for (size_t i = known; i < size; i++)
        TESS_CHECK(((const char *)options)[i] == 0, TESS_E_UNSUPPORTED,
                   "%s: a field at byte %zu is set; this is libtessera " TESS_VERSION ", whose struct ends at byte %zu",
                   type, i, known);
    return TESS_OK;
}
