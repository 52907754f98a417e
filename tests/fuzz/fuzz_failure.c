/* Any line from the ranks of another host: no failure, or one that says the same when it is written again. */
#include <stdlib.h>
#include <string.h>

#include "recover/failure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[4096], line[TESS_FAILURE_LINE_BYTES], again[TESS_FAILURE_LINE_BYTES];
    tess_failure failure;
    size = size < sizeof(text) ? size : sizeof(text) - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    if (!tess_failure_line_read(text, &failure))
        return 0;
    tess_failure_line_write(&failure, line);
    if (!tess_failure_line_read(line, &failure) || strcmp(tess_failure_line_write(&failure, again), line) != 0)
        abort();
    return 0;
}
