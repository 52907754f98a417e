/* Builds a schedule from the text of a CSV file or from the file, and checks it (rows: pipeline_csv.c). */
#include <string.h>

#include "base/os/os.h"
#include "parallel/pipeline/pipeline_orders_impl.h"

enum { MOST_BYTES = 256 << 20 };

static tess_status check_rows(const pipeline_csv *csv, int ranks)
{
    const char *at = csv->text;
    int rows = 0;
    while (rows <= ranks && pipeline_csv_next(csv, &at) != NULL)
        rows++;
    TESS_CHECK(rows <= ranks, TESS_E_INVALID, "%s: it has more rows than the %d ranks of the pipeline", csv->name,
               ranks);
    return TESS_OK;
}

tess_status tess_pipeline_parse_csv(tess_mem *mem, const char *text, size_t size, const char *name,
                                    const tess_pipeline_schedule *shape, tess_pipeline_schedule *schedule)
{
    const size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
    const pipeline_csv csv = {text + mark, size - mark, name};
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
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    size_t size;
    *schedule = (tess_pipeline_schedule){0};
    TESS_TRY(tess_os_read(mem, path, MOST_BYTES, &text, &size));
    return tess_pipeline_parse_csv(mem, text, size, path, shape, schedule);
}
