/* Any bytes as a file of headers: lines that a request may carry, or an error that shows nothing of them. */
#include <stdlib.h>
#include <string.h>

#include "rl/reward/reward_headers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    if (tess_mem_create(&mem) != TESS_OK)
        return 0;
    reward_headers headers = {.lines.mem = mem};
    char message[256] = "http://name:password@host/?key=password: 'Bearer password'";
    int n = 0;
    tess_status status = reward_headers_add(&headers, (const char *)data, size, "headers");
    for (const char *line = NULL; (line = reward_headers_next(&headers, line)) != NULL; n++)
        if (strchr(line, ':') == NULL || strpbrk(line, "\r\n") != NULL)
            abort();
    if (n != headers.n || n > REWARD_MOST_HEADERS)
        abort();
    reward_headers_redact(&headers, "http://name:password@host/?key=password", message);
    if (strstr(message, "password") != NULL)
        abort();
    if (status != TESS_OK)
        tess_error_clear();
    tess_buffer_free(&headers.lines);
    tess_mem_destroy(&mem);
    return 0;
}
