#include "ckpt/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "ckpt/convert_impl.h"
#include "ckpt/formats/flat.h"
#include "ckpt/formats/formats.h"
#include "ckpt/new_folder.h"
#include "ckpt/safetensors/safetensors.h"

enum { STEP = 1 << 20 }; /* values at a time */

typedef struct convert {
    tess_mem *mem;
    const tess_convert_options *options;
    tess_catalog *catalog;
    const tess_catalog_tensor **sources; /* (n_tensors) in the order of the files */
    tess_st_tensor *tensors;             /* (n_tensors) as they will be written */
    tess_st_writer *writer;
    uint8_t *read; /* (STEP) of any dtype */
    float *values; /* (STEP) */
    void *encoded; /* (STEP) of the new dtype */
    uint64_t done, total;
    tess_convert_result result;
} convert;

/* ---- Values that are no numbers ---- */
typedef struct specials {
    uint64_t n_nan, n_inf;
} specials;

/* Values of an IEEE-like format whose exponent is all ones. */
#define COUNT(type, exponent)                                                         \
    do {                                                                              \
        type mask = (type)exponent, sign = (type)((type)1 << (8 * sizeof(type) - 1)); \
        for (size_t i = 0; i < n; i++) {                                              \
            type x;                                                                   \
            memcpy(&x, data + i * sizeof(type), sizeof(type));                        \
            x = (type)(x & (type)~sign);                                              \
            s.n_inf += x == mask;                                                     \
            s.n_nan += x > mask;                                                      \
        }                                                                             \
    } while (0)

static specials count_specials(const char *dtype, const uint8_t *data, size_t n)
{
    specials s = {0};
    if (strcmp(dtype, "F64") == 0)
        COUNT(uint64_t, 0x7ff0000000000000u);
    else if (strcmp(dtype, "F32") == 0)
        COUNT(uint32_t, 0x7f800000u);
    else if (strcmp(dtype, "BF16") == 0)
        COUNT(uint16_t, 0x7f80u);
    else if (strcmp(dtype, "F16") == 0)
        COUNT(uint16_t, 0x7c00u);
    return s;
}

/* ---- Tensors ---- */
static void report_progress(convert *c, uint64_t bytes)
{
    c->done += bytes;
    if (c->options->progress != NULL)
        c->options->progress(c->options->context, c->done, c->total);
}

static void report_tensor(convert *c, const tess_catalog_tensor *t, specials found, uint64_t overflowed)
{
    c->result.n_nan += found.n_nan;
    c->result.n_inf += found.n_inf;
    c->result.n_overflowed += overflowed;
    if (found.n_nan + found.n_inf > 0)
        tess_convert_report(c->options, "%s: tensor '%s' has %" PRIu64 " NaN and %" PRIu64 " infinite values",
                            tess_catalog_file_of(c->catalog, t), t->name, found.n_nan, found.n_inf);
    if (overflowed > 0)
        tess_convert_report(c->options, "tensor '%s': %" PRIu64 " values are too large for %s and became infinite",
                            t->name, overflowed, tess_dtype_name(*c->options->dtype));
}

/* n values from `read` to `encoded`; *overflowed counts those that became infinite. */
static tess_status recode(convert *c, const tess_catalog_tensor *t, const char *to, int64_t n, specials before,
                          uint64_t *overflowed)
{
    tess_st_decode(t->dtype, c->read, n, c->values);
    TESS_TRY(tess_st_encode(c->values, n, *c->options->dtype, c->encoded));
    *overflowed += count_specials(to, c->encoded, (size_t)n).n_inf - before.n_inf;
    return TESS_OK;
}

static tess_status convert_tensor(convert *c, int index)
{
    const tess_catalog_tensor *t = c->sources[index];
    const char *to = c->tensors[index].dtype_text;
    bool same = strcmp(t->dtype, to) == 0;
    size_t bytes = (size_t)(same ? t->element_bytes : tess_st_dtype_bytes(to));
    specials found = {0};
    uint64_t overflowed = 0;
    const tess_box whole = tess_catalog_whole(t);
    int64_t n;
    for (int64_t at = 0, count = tess_box_count(t->n_dims, &whole); at < count; at += n) {
        tess_box slice;
        n = tess_flat_slice(t->n_dims, &whole, at, STEP, &slice);
        TESS_TRY(tess_catalog_read(c->catalog, t, &slice, c->read));
        specials here = count_specials(t->dtype, c->read, (size_t)n);
        found.n_nan += here.n_nan;
        found.n_inf += here.n_inf;
        if (!same)
            TESS_TRY(recode(c, t, to, n, here, &overflowed));
        TESS_TRY(tess_st_write_bytes(c->writer, index, (size_t)at * bytes, (size_t)n * bytes,
                                     same ? (void *)c->read : c->encoded));
        report_progress(c, (uint64_t)(n * t->element_bytes));
    }
    report_tensor(c, t, found, overflowed);
    return TESS_OK;
}

/* The dtype that a tensor will have: integers and 8-bit floats stay what they are. */
static const char *new_dtype(const convert *c, const tess_catalog_tensor *t)
{
    if (c->options->dtype == NULL)
        return t->dtype;
    if (tess_st_dtype_is_float(t->dtype))
        return tess_st_dtype_of(*c->options->dtype);
    if (t->dtype[0] == 'F' || t->dtype[0] == 'C')
        tess_convert_report(c->options, "tensor '%s' stays %s", t->name, t->dtype);
    return t->dtype;
}

static tess_status describe(convert *c)
{
    const tess_catalog_tensor **sources;
    int n = c->catalog->n_tensors;
    TESS_TRY(tess_catalog_tensors_in_files(c->catalog, &sources));
    c->sources = sources;
    TESS_TRY(tess_mem_alloc_array(c->mem, TESS_POOL_MISC, (size_t)n, sizeof(c->tensors[0]), "tensors to convert",
                                  (void **)&c->tensors));
    for (int i = 0; i < n; i++) {
        const tess_catalog_tensor *t = sources[i];
        const char *dtype = new_dtype(c, t);
        TESS_CHECK(dtype != NULL, TESS_E_UNSUPPORTED, "numbers are written as float32, bfloat16 or float16");
        c->tensors[i] = (tess_st_tensor){.name = t->name, .n_dims = t->n_dims};
        snprintf(c->tensors[i].dtype_text, sizeof(c->tensors[i].dtype_text), "%s", dtype);
        memcpy(c->tensors[i].dim, t->dim, sizeof(t->dim));
        c->total += tess_catalog_tensor_bytes(t);
    }
    return TESS_OK;
}

static tess_status write_tensors(convert *c)
{
    const tess_st_plan *plan = tess_st_writer_plan(c->writer);
    c->result.n_tensors = plan->n_entries;
    c->result.n_files = plan->n_files;
    c->result.bytes = plan->bytes;
    for (int i = 0; i < plan->n_entries; i++)
        TESS_TRY(convert_tensor(c, plan->order[i]));
    return TESS_OK;
}

static tess_status convert_weights(convert *c, const char *in, const char *out)
{
    TESS_TRY(tess_catalog_open_safetensors(c->mem, in, &c->catalog));
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, STEP * sizeof(double), "values to convert", (void **)&c->read));
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, STEP * sizeof(float), "values to convert", (void **)&c->values));
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, STEP * sizeof(float), "converted values", &c->encoded));
    TESS_TRY(describe(c));
    TESS_TRY(tess_st_write_begin(c->mem, NULL, out, "model", c->tensors, c->catalog->n_tensors, c->options->shard_bytes,
                                 NULL, &c->writer));
    return tess_st_write_finish(&c->writer, write_tensors(c));
}

/* ---- Folders ---- */
static tess_status check_folders(const char *in, const char *out)
{
    TESS_CHECK(tess_os_is_dir(in), TESS_E_NOT_FOUND, "%s: no such model folder", in);
    TESS_CHECK(!tess_os_same_file(in, out), TESS_E_INVALID, "%s and %s are the same folder: convert into another one",
               in, out);
    TESS_CHECK(!tess_os_is_file(out), TESS_E_INVALID, "%s is a file: name a folder that is new or empty", out);
    return TESS_OK;
}

static tess_status build(convert *c, const char *in, const char *out)
{
    TESS_TRY(convert_weights(c, in, out));
    return tess_convert_companions(c->mem, in, out, c->options);
}

tess_status tess_convert(tess_mem *mem, const char *in, const char *out, const tess_convert_options *options,
                         tess_convert_result *result)
{
    convert c = {.mem = mem, .options = options};
    tess_new_folder folder;
    TESS_TRY(check_folders(in, out));
    TESS_TRY(tess_new_folder_begin(out, &folder));
    tess_status status = tess_new_folder_end(&folder, build(&c, in, folder.temporary));
    tess_catalog_destroy(&c.catalog);
    tess_mem_free(mem, c.sources);
    tess_mem_free(mem, c.tensors);
    tess_mem_free(mem, c.read);
    tess_mem_free(mem, c.values);
    tess_mem_free(mem, c.encoded);
    if (result != NULL)
        *result = c.result;
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "convert %s to %s", in, folder.path);
}
