/* Any error.json: refused, or a record that says the same when it is written again. */
#include <stdlib.h>
#include <string.h>

#include "doctor/job/error_report.h"
#include "trace/error_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tess_error_file file;
    tess_mem *mem;
    if (tess_error_file_parse((const char *)data, size, "error.json", &file) != TESS_OK || tess_mem_create(&mem) != 0)
        return 0;
    tess_buffer out = {.mem = mem};
    if (file.n_messages > TESS_ERROR_MESSAGES || tess_error_report_put(&file, &out) != TESS_OK)
        abort();
    for (size_t i = 0; i < out.size; i++)
        if ((unsigned char)out.data[i] < ' ' && out.data[i] != '\n')
            abort(); /* a terminal would obey it */
    tess_buffer_free(&out);
    if (tess_mem_destroy(&mem) != 0)
        abort();
    return 0;
}
