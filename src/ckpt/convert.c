#include "ckpt/convert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "ckpt/convert_impl.h"
#include "ckpt/new_folder.h"
#include "ckpt/safetensors/safetensors.h"

enum { STEP = 1 << 20 }; /* values at a time */

typedef struct convert {
    tess_mem *mem;
    const tess_convert_options *options;
    tess_st_reader *reader;
    tess_st_tensor *tensors; /* as they will be written */
    tess_st_writer *writer;
    float *values; /* (STEP) */
    void *encoded; /* (STEP) of the new dtype */
    uint64_t done, total;
    tess_convert_result result;
} convert;

void tess_convert_report(const tess_convert_options *options, const char *format, ...)
{
    char line[2048];
    va_list args;
    if (options->report == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    options->report(options->context, line);
}

/* ---- Values that are no numbers ---- */
typedef struct specials {
    uint64_t n_nan, n_inf;
} specials;

/* An IEEE-like format: where its exponent is, and the bits below it. */
static bool format_of(const char *dtype_text, int *bytes, uint64_t *exponent)
{
    static const struct {
        const char *text;
        int bytes;
        uint64_t exponent;
    } formats[] = {{"F64", 8, 0x7ff0000000000000u}, {"F32", 4, 0x7f800000u}, {"BF16", 2, 0x7f80u}, {"F16", 2, 0x7c00u}};
    for (int i = 0; i < 4; i++) {
        if (strcmp(formats[i].text, dtype_text) == 0) {
            *bytes = formats[i].bytes;
            *exponent = formats[i].exponent;
            return true;
        }
    }
    return false;
}

#define COUNT(type)                                                                   \
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

static specials count_specials(const char *dtype_text, const uint8_t *data, size_t n)
{
    specials s = {0};
    int bytes;
    uint64_t exponent;
    if (!format_of(dtype_text, &bytes, &exponent))
        return s;
    if (bytes == 8)
        COUNT(uint64_t);
    else if (bytes == 4)
        COUNT(uint32_t);
    else
        COUNT(uint16_t);
    return s;
}

/* ---- Tensors ---- */
static void tell_progress(convert *c, uint64_t bytes)
{
    c->done += bytes;
    if (c->options->progress != NULL)
        c->options->progress(c->options->context, c->done, c->total);
}

static void report_tensor(convert *c, const tess_st_tensor *t, specials found, uint64_t overflowed)
{
    c->result.n_nan += found.n_nan;
    c->result.n_inf += found.n_inf;
    c->result.n_overflowed += overflowed;
    if (found.n_nan + found.n_inf > 0)
        tess_convert_report(c->options, "%s: tensor '%s' has %" PRIu64 " NaN and %" PRIu64 " infinite values", t->file,
                            t->name, found.n_nan, found.n_inf);
    if (overflowed > 0)
        tess_convert_report(c->options, "tensor '%s': %" PRIu64 " values are too large for %s and became infinite",
                            t->name, overflowed, tess_dtype_name(*c->options->dtype));
}

/* Of what is no number, the size is not known. */
static size_t element_bytes(const char *dtype_text)
{
    int bytes = 1;
    uint64_t exponent;
    format_of(dtype_text, &bytes, &exponent);
    return (size_t)bytes;
}

static tess_status put_tensor(convert *c, int index, const tess_st_tensor *t)
{
    const char *dtype_text = c->tensors[index].dtype_text;
    bool same = strcmp(t->dtype_text, dtype_text) == 0;
    size_t from = element_bytes(t->dtype_text), to = element_bytes(dtype_text), count = t->bytes / from;
    specials found = {0};
    uint64_t overflowed = 0;
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < STEP ? count - at : STEP;
        const void *data = t->data + at * from;
        specials before = count_specials(t->dtype_text, data, n);
        found.n_nan += before.n_nan;
        found.n_inf += before.n_inf;
        if (!same) {
            TESS_TRY(tess_st_read_values(t, (int64_t)at, (int64_t)n, c->values));
            TESS_TRY(tess_st_encode(c->values, (int64_t)n, *c->options->dtype, c->encoded));
            data = c->encoded;
            overflowed += count_specials(dtype_text, data, n).n_inf - before.n_inf;
        }
        TESS_TRY(tess_st_write_bytes(c->writer, index, at * to, n * to, data));
        tell_progress(c, n * from);
    }
    report_tensor(c, t, found, overflowed);
    return TESS_OK;
}

/* The source's tensors with the dtype they will have; integers and 8-bit floats stay what they are. */
static tess_status describe(convert *c)
{
    int n = tess_st_count(c->reader);
    TESS_TRY(tess_mem_alloc_array(c->mem, TESS_POOL_MISC, (size_t)n, sizeof(c->tensors[0]), "tensors to convert",
                                  (void **)&c->tensors));
    for (int i = 0; i < n; i++) {
        int bytes;
        uint64_t exponent;
        c->tensors[i] = *tess_st_tensor_at(c->reader, i);
        c->total += c->tensors[i].bytes;
        if (c->options->dtype == NULL)
            continue;
        if (format_of(c->tensors[i].dtype_text, &bytes, &exponent)) {
            tess_st_tensor as;
            tess_st_entry entry = {.name = c->tensors[i].name, .dtype = *c->options->dtype};
            TESS_TRY(tess_st_describe(&entry, &as));
            memcpy(c->tensors[i].dtype_text, as.dtype_text, sizeof(as.dtype_text));
        } else if (c->tensors[i].dtype_text[0] == 'F' || c->tensors[i].dtype_text[0] == 'C') {
            tess_convert_report(c->options, "tensor '%s' stays %s", c->tensors[i].name, c->tensors[i].dtype_text);
        }
    }
    return TESS_OK;
}

static tess_status write_tensors(convert *c)
{
    const tess_st_plan *plan = tess_st_writer_plan(c->writer);
    c->result.n_tensors = plan->n_entries;
    c->result.n_files = plan->n_files;
    c->result.bytes = plan->bytes;
    for (int i = 0; i < plan->n_entries; i++) {
        int index = plan->order[i];
        TESS_TRY(put_tensor(c, index, tess_st_tensor_at(c->reader, index)));
    }
    return TESS_OK;
}

static tess_status convert_weights(convert *c, const char *in, const char *out)
{
    TESS_TRY(tess_st_open_model(c->mem, in, &c->reader));
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, STEP * sizeof(float), "values to convert", (void **)&c->values));
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, STEP * sizeof(float), "converted values", &c->encoded));
    TESS_TRY(describe(c));
    TESS_TRY(tess_st_write_begin(c->mem, NULL, out, "model", c->tensors, tess_st_count(c->reader),
                                 c->options->shard_bytes, &c->writer));
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
    tess_st_close(&c.reader);
    tess_mem_free(mem, c.tensors);
    tess_mem_free(mem, c.values);
    tess_mem_free(mem, c.encoded);
    if (result != NULL)
        *result = c.result;
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "convert %s to %s", in, folder.path);
}
