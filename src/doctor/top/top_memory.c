#include "doctor/top/top_memory.h"

#include <math.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/text.h"
#include "doctor/top/top_facts.h"

/* Sets number `i` of the history. Returns false if the line has another form. */
static bool read_line(const json_t *line, int i, tess_top_memory *m)
{
    const json_t *in_use = json_object_get(line, "in_use");
    if (tess_json_get_int(line, "step", "memory", &m->step[i]) != TESS_OK || !json_is_object(in_use))
        return false;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        m->bytes[pool][i] = fmax(json_number_value(json_object_get(in_use, tess_pool_name((tess_pool)pool))), 0);
    return true;
}

void tess_top_memory_of(const char *text, size_t n, tess_top_memory *m)
{
    int first = TESS_TOP_HISTORY;
    json_t *line;
    *m = (tess_top_memory){0};
    while (first > 0 && (line = tess_top_last_line(text, &n)) != NULL) {
        first -= read_line(line, first - 1, m);
        json_decref(line);
    }
    m->n = TESS_TOP_HISTORY - first;
    memmove(m->step, m->step + first, (size_t)m->n * sizeof(*m->step));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        memmove(m->bytes[pool], m->bytes[pool] + first, (size_t)m->n * sizeof(**m->bytes));
    tess_error_clear();
}

const char *tess_top_spark(const double *values, int n, char *text)
{
    double most = 0;
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < n; i++)
        most = fmax(most, values[i]);
    for (int i = 0; i < n; i++) { /* characters U+2581 to U+2588 */
        int height = most > 0 ? (int)(values[i] / most * 7 + 0.5) : 0;
        at = tess_text_add(text, TESS_TOP_SPARK, at, "\xe2\x96%c", 0x81 + height);
    }
    return text;
}

tess_status tess_top_memory_read(const char *folder, tess_top_memory *m)
{
    tess_top_lines lines;
    TESS_TRY(tess_top_lines_read(folder, "memory.jsonl", &lines));
    tess_top_memory_of(lines.text, lines.n, m);
    return TESS_OK;
}

void tess_top_memory_print(const tess_top_memory *m, FILE *out)
{
    char spark[TESS_TOP_SPARK], bytes[32];
    if (m->n == 0)
        return;
    fprintf(out, "memory of all ranks in use, steps %lld to %lld\n", (long long)m->step[0],
            (long long)m->step[m->n - 1]);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        double now = m->bytes[pool][m->n - 1];
        if (now > 0)
            fprintf(out, "  %-12s %s  %s\n", tess_pool_name((tess_pool)pool),
                    tess_top_spark(m->bytes[pool], m->n, spark), tess_format_bytes(now, bytes, sizeof(bytes)));
    }
}
