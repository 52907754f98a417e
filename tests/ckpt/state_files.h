/* Small checkpoints of known values, for tests that read and rewrite them. */
#ifndef TESS_TESTS_CKPT_STATE_FILES_H
#define TESS_TESTS_CKPT_STATE_FILES_H

#include <jansson.h>

#include "ckpt/store/store_write.h"
#include "rows.h"
#include "files.h"

enum { STATE_ROWS = 13, STATE_COLUMNS = 5, STATE_BIAS = 7 };

/* Weights differ from step to step, moments from weights. */
static inline float state_value(int64_t step, int kind, int64_t i)
{
    return (float)(kind + 1) * 0.25f + (float)i / 3 + (float)step * 1e-3f;
}

/* `dir`/step-%08d with "model.layers.0.w" (13, 5), "model.bias" (7) and their moments, as of `writers` ranks; of which,
 * with `hosts`, the first alone wrote into this folder. */
static inline void save_part(const char *dir, int64_t step, int writers, const tess_ckpt_hosts *hosts)
{
    static const char *const suffixes[] = {"", ".exp_avg", ".exp_avg_sq"};
    float values[3][STATE_ROWS * STATE_COLUMNS];
    char folder[TESS_CKPT_PATH], names[6][64];
    json_t *parts[8];
    json_t *meta = json_pack("{s:I, s:i, s:{s:f, s:s}}", "step", (json_int_t)step, "seed", 7, "schedule", "lr", 3e-3,
                             "shape", "cosine");
    json_t *host = hosts != NULL ? tess_store_describe_host(hosts) : NULL;
    const tess_store_facts facts = {.meta = meta, .world_size = writers, .host = host};
    int n_parts = hosts != NULL ? 1 : writers;
    for (int kind = 0; kind < 3; kind++)
        for (int64_t i = 0; i < STATE_ROWS * STATE_COLUMNS; i++)
            values[kind][i] = state_value(step, kind, i);
    EXPECT_OK(tess_store_begin(NULL, dir, step, folder));
    for (int w = 0; w < n_parts; w++) {
        char file[32];
        tess_store_piece pieces[6];
        for (int i = 0; i < 6; i++) {
            int kind = i / 2, columns = i % 2 == 0 ? STATE_COLUMNS : 1;
            tess_store_piece *p = &pieces[i];
            snprintf(names[i], sizeof(names[i]), "%s.%s%s", kind == 0 ? "model" : "optimizer",
                     i % 2 == 0 ? "layers.0.w" : "bias", suffixes[kind]);
            *p = (tess_store_piece){.name = names[i], .dtype = "F32", .rank = w};
            p->n_dims = i % 2 == 0 ? 2 : 1;
            p->dim[0] = i % 2 == 0 ? STATE_ROWS : STATE_BIAS, p->dim[1] = STATE_COLUMNS;
            p->held = p->box = chunk_of(&(tess_shape){p->n_dims, {p->dim[0], columns}}, writers, w);
            p->data = values[kind] + p->box.begin[0] * columns;
        }
        snprintf(file, sizeof(file), "rank-%05d.data", w);
        EXPECT_OK(tess_store_write_part(test_mem(), NULL, folder, file, pieces, 6, &parts[w]));
    }
    EXPECT_OK(tess_store_commit(NULL, dir, step, parts, n_parts, &facts));
    for (int w = 0; w < n_parts; w++)
        json_decref(parts[w]);
    json_decref(host);
    json_decref(meta);
}

static inline void save_state(const char *dir, int64_t step, int writers)
{
    save_part(dir, step, writers, NULL);
}

/* Changes one byte of a file. */
static inline void flip_byte(const char *path, size_t at)
{
    char *data;
    size_t size;
    EXPECT_OK(tess_os_read(test_mem(), path, 64 << 20, &data, &size));
    EXPECT(at < size);
    data[at] = (char)(data[at] ^ 0x10);
    put_file(path, data, size);
    tess_mem_free(test_mem(), data);
}

#endif
