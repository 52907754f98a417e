#include "base/os/address_space.h"

#include <stdio.h>
#include <sys/resource.h>

const char *tess_os_address_space_hint(char text[TESS_ADDRESS_SPACE_TEXT])
{
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(
            text, TESS_ADDRESS_SPACE_TEXT,
            "; RLIMIT_AS allows this process %.2f GiB of address space, most of which shared memory only reserves: "
            "lift it by `ulimit -v unlimited`",
            (double)limit.rlim_cur / 0x1p30);
    return text;
}
