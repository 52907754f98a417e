/* The text of a PTX module (tests/device/ptx/ptx_program.h). */
#include <stdlib.h>
#include <string.h>

#include "device/ptx/ptx_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[256];
    char *text = malloc(size > 0 ? size : 1); /* a block of the exact size, so that a step beyond is seen */
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    ptx_module *m = ptx_module_parse(text, size, error, sizeof(error));
    if (m != NULL)
        ptx_module_kernel(m, "planted");
    ptx_module_free(m);
    free(text);
    return 0;
}
