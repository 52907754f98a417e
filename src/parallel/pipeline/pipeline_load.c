/* Builds a schedule from the text of a CSV file or from the file, and checks it (rows: pipeline_csv.c). */
#include <ctype.h>

#include "base/os/os.h"
#include "parallel/pipeline/pipeline_orders_impl.h"

enum { MOST_BYTES = 256 << 20 };

/* Checks that nothing but empty lines follows the rows of all ranks. */
static tess_status check_rows(const pipeline_csv *csv, int ranks)
{
    int row = 0;
    bool extra = false;
    for (size_t i = 0; i < csv->size; i++) {
        extra |= row >= ranks && !isspace((unsigned char)csv->text[i]) && csv->text[i] != ',';
        row += csv->text[i] == '\n';
    }
    TESS_CHECK(!extra, TESS_E_INVALID, "%s: it has more rows than the %d ranks of the pipeline", csv->name, ranks);
    return TESS_OK;
}

tess_status tess_pipeline_parse_csv(tess_mem *mem, const char *text, size_t size, const char *name,
                                    const tess_pipeline_schedule *shape, tess_pipeline_schedule *schedule)
{
    const pipeline_csv csv = {text, size, name};
    const tess_pipeline_costs costs = {.forward = 1, .backward = 2, .input = 1, .weight = 1};
    *schedule = (tess_pipeline_schedule){0};
    TESS_TRY(check_rows(&csv, shape->ranks));
    TESS_TRY(pipeline_build_from(mem, &csv, shape, schedule));
    tess_status status = tess_pipeline_check(schedule, &costs, NULL);
    if (status == TESS_OK)
        return TESS_OK;
    tess_pipeline_free(schedule);
    return tess_fail_context(status, "%s", name);
}

tess_status tess_pipeline_load_csv(tess_mem *mem, const char *path, const tess_pipeline_schedule *shape,
                                   tess_pipeline_schedule *schedule)
{
    char *text;
    size_t size;
    *schedule = (tess_pipeline_schedule){0};
    TESS_TRY(tess_os_read(mem, path, MOST_BYTES, &text, &size));
    const tess_status status = tess_pipeline_parse_csv(mem, text, size, path, shape, schedule);
    tess_mem_free(mem, text);
    return status;
}
