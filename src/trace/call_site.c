#include "trace/call_site.h"

#include <stdio.h>

static const uint64_t elsewhere = UINT64_C(1) << 63, in_object = UINT64_C(1) << 62;
enum { OFFSET_BITS = 40 };
static const uint64_t offset_mask = (UINT64_C(1) << OFFSET_BITS) - 1, id_mask = (UINT64_C(1) << 22) - 1;

static bool is_in_object(uint64_t site)
{
    return (site & elsewhere) != 0 && (site & in_object) != 0;
}

uint64_t tess_call_site_in_object(uint32_t object, uint64_t offset)
{
    return elsewhere | in_object | (object & id_mask) << OFFSET_BITS | (offset & offset_mask);
}

uint64_t tess_call_site_at_address(uintptr_t address)
{
    return elsewhere | ((uint64_t)address & ~in_object);
}

bool tess_call_site_is_address(uint64_t site)
{
    return (site & elsewhere) != 0 && (site & in_object) == 0;
}

uint32_t tess_call_site_object(uint64_t site)
{
    return is_in_object(site) ? (uint32_t)(site >> OFFSET_BITS & id_mask) : 0;
}

uint64_t tess_call_site_offset(uint64_t site)
{
    return is_in_object(site) ? site & offset_mask : site & ~elsewhere;
}

const char *tess_call_site_format(uint64_t site, const char *object, char *text, size_t size)
{
    unsigned long long offset = tess_call_site_offset(site);
    if (!is_in_object(site))
        snprintf(text, size, tess_call_site_is_address(site) ? "address 0x%llx" : "program+0x%llx", offset);
    else if (object[0] != '\0')
        snprintf(text, size, "%s+0x%llx", object, offset);
    else
        snprintf(text, size, "object-%06x+0x%llx", tess_call_site_object(site), offset);
    return text;
}
