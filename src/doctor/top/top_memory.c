#include "doctor/top/top_memory.h"

#include <math.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"

enum { MOST_BYTES = 1 << 16 }; /* bytes read from the end of the file: more than the lines that are shown */

static bool read_line(const char *line, size_t n, int64_t *step, double bytes[TESS_POOL_COUNT])
{
    json_t *object, *in_use;
    if (tess_json_parse(line, n, "memory", false, &object) != TESS_OK)
        return false;
    bool fits = tess_json_get_int(object, "step", "memory", step) == TESS_OK &&
                json_is_object(in_use = json_object_get(object, "in_use"));
    for (int pool = 0; fits && pool < TESS_POOL_COUNT; pool++)
        bytes[pool] = json_number_value(json_object_get(in_use, tess_pool_name((tess_pool)pool)));
    json_decref(object);
    return fits;
}

static void push(tess_top_memory *m, int64_t step, const double bytes[TESS_POOL_COUNT])
{
    bool full = m->n == TESS_TOP_HISTORY;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        double *values = m->bytes[pool];
        if (full)
            memmove(values, values + 1, (TESS_TOP_HISTORY - 1) * sizeof(*values));
        values[full ? m->n - 1 : m->n] = fmax(bytes[pool], 0);
    }
    m->n += !full;
    if (full)
        memmove(m->step, m->step + 1, (TESS_TOP_HISTORY - 1) * sizeof(*m->step));
    m->step[m->n - 1] = step;
}

void tess_top_memory_of(const char *text, size_t n, tess_top_memory *m)
{
    *m = (tess_top_memory){0};
    while (n > 0) {
        const char *newline = memchr(text, '\n', n);
        size_t length = newline != NULL ? (size_t)(newline - text) : n, taken = length + (newline != NULL);
        double bytes[TESS_POOL_COUNT];
        int64_t step;
        if (read_line(text, length, &step, bytes))
            push(m, step, bytes);
        text += taken;
        n -= taken;
    }
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
    char path[1024];
    tess_mapping file;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "memory.jsonl"));
    TESS_CHECK(tess_os_is_file(path), TESS_E_NOT_FOUND, "%s: no such file: no run has written its memory there", path);
    TESS_TRY(tess_os_map(path, &file));
    size_t skip = file.size > MOST_BYTES ? file.size - MOST_BYTES : 0;
    tess_top_memory_of((const char *)file.data + skip, file.size - skip, m);
    tess_os_unmap(&file);
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
