#include "plan/kernel_times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/core/variables.h"
#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "device/kernels.h"
#include "trace/ring.h"

enum { VERSION = 1, NEAREST = 4, MOST_ROWS = 1 << 17, MOST_FILE = 64 << 20 };

/* ---- Rows ---- */
static bool is_same_call(const tess_kernel_time *a, const tess_kernel_time *b)
{
    return a->threads == b->threads && memcmp(&a->key, &b->key, sizeof(a->key)) == 0;
}

tess_status tess_kernel_times_add(tess_kernel_times *t, const tess_kernel_time *time)
{
    size_t i = 0;
    while (i < t->n_calls && !is_same_call(&t->calls[i], time))
        i++;
    if (i == t->n_calls) {
        TESS_TRY(tess_mem_make_room(t->mem, TESS_POOL_MISC, t->n_calls, sizeof(*t->calls), "times", &t->calls_room,
                                    &t->calls));
        t->n_calls++;
    }
    t->calls[i] = *time;
    return TESS_OK;
}

tess_status tess_kernel_times_add_op(tess_kernel_times *t, const tess_op_time *time)
{
    size_t i = 0;
    while (i < t->n_ops &&
           (t->ops[i].kind != time->kind || t->ops[i].ranks != time->ranks || t->ops[i].bytes != time->bytes))
        i++;
    if (i == t->n_ops) {
        TESS_TRY(tess_mem_make_room(t->mem, TESS_POOL_MISC, t->n_ops, sizeof(*t->ops), "times", &t->ops_room, &t->ops));
        t->n_ops++;
    }
    t->ops[i] = *time;
    return TESS_OK;
}

tess_status tess_kernel_times_correct(tess_kernel_times *t, const tess_step_correction *correction)
{
    size_t i = 0;
    while (i < t->n_corrections && t->corrections[i].config != correction->config)
        i++;
    if (i == t->n_corrections) {
        TESS_TRY(tess_mem_make_room(t->mem, TESS_POOL_MISC, t->n_corrections, sizeof(*t->corrections), "corrections",
                                    &t->corrections_room, &t->corrections));
        t->n_corrections++;
    }
    t->corrections[i] = *correction;
    return TESS_OK;
}

void tess_kernel_times_free(tess_kernel_times *t)
{
    tess_mem_free(t->mem, t->calls);
    tess_mem_free(t->mem, t->ops);
    tess_mem_free(t->mem, t->corrections);
    *t = (tess_kernel_times){.mem = t->mem};
}

/* ---- Estimates ---- */
/* Returns the work that limits a call: flops if it makes many for each byte, else bytes. */
static double work_of(const tess_call_key *key)
{
    enum { FLOPS_A_BYTE = 8 };
    return key->flops > FLOPS_A_BYTE * key->bytes ? key->flops : key->bytes;
}

static bool is_alike(const tess_call_key *a, const tess_call_key *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->to_dtype == b->to_dtype;
}

/* The distance of two calls: differences of their sizes in factors of two. Another variant, or another number of
 * threads, is as far as a size of twice as much. */
static double distance_of(const tess_kernel_time *a, const tess_call_key *key, int threads)
{
    double sum = 0;
    for (int i = 0; i < TESS_CALL_SIZES; i++) {
        const double d = log2((double)(a->key.size[i] + 1) / (double)(key->size[i] + 1));
        sum += d * d;
    }
    const double work = log2((work_of(&a->key) + 1) / (work_of(key) + 1)),
                 many = log2((double)a->threads / (double)threads);
    return sum + work * work + many * many + (a->key.variant != key->variant);
}

double tess_kernel_times_find(const tess_kernel_times *t, const tess_call_key *key, int threads, bool *exact)
{
    const tess_kernel_time wanted = {.key = *key, .threads = threads};
    double nearest[NEAREST], rates[NEAREST], sum = 0, weights = 0;
    int n = 0;
    *exact = false;
    for (size_t i = 0; i < t->n_calls; i++) {
        const tess_kernel_time *row = &t->calls[i];
        if (!is_alike(&row->key, key))
            continue;
        if (is_same_call(row, &wanted)) {
            *exact = true;
            return row->seconds;
        }
        const double distance = distance_of(row, key, threads);
        /* seconds for a unit of work on one thread */
        const double rate = row->seconds * row->threads / fmax(work_of(&row->key), 1);
        int at = n < NEAREST ? n++ : distance < nearest[NEAREST - 1] ? NEAREST - 1 : -1;
        if (at < 0)
            continue;
        for (; at > 0 && nearest[at - 1] > distance; at--) {
            nearest[at] = nearest[at - 1];
            rates[at] = rates[at - 1];
        }
        nearest[at] = distance;
        rates[at] = rate;
    }
    for (int i = 0; i < n; i++) {
        const double weight = 1 / (nearest[i] * nearest[i] + 1e-4);
        sum += weight * log(fmax(rates[i], 1e-30));
        weights += weight;
    }
    return n > 0 ? exp(sum / weights) * fmax(work_of(key), 1) / threads : 0;
}

/* Operations that were not measured cost as much as others that move the same bytes in the same way. */
static int like(int kind)
{
    switch (kind) {
    case TESS_TRACE_ALL_TO_ALL_V:
    case TESS_TRACE_GATHER:
    case TESS_TRACE_SCATTER:
        return TESS_TRACE_ALL_TO_ALL;
    case TESS_TRACE_REDUCE_SCATTER:
    case TESS_TRACE_REDUCE:
        return TESS_TRACE_REDUCE_SCATTER_PIECES;
    case TESS_TRACE_RECV:
        return TESS_TRACE_SEND;
    default:
        return kind;
    }
}

double tess_kernel_times_find_op(const tess_kernel_times *t, int kind, int ranks, double bytes)
{
    const tess_op_time *below = NULL, *above = NULL;
    int nearest = 0;
    for (size_t i = 0; i < t->n_ops; i++)
        if (t->ops[i].kind == like(kind) && (nearest == 0 || abs(t->ops[i].ranks - ranks) < abs(nearest - ranks)))
            nearest = t->ops[i].ranks;
    for (size_t i = 0; i < t->n_ops; i++) {
        const tess_op_time *row = &t->ops[i];
        if (row->kind != like(kind) || row->ranks != nearest)
            continue;
        if (row->bytes <= bytes && (below == NULL || row->bytes > below->bytes))
            below = row;
        if (row->bytes >= bytes && (above == NULL || row->bytes < above->bytes))
            above = row;
    }
    if (below == NULL && above == NULL)
        return 0;
    if (below == NULL)
        return above->seconds;
    if (above == NULL)
        return below->bytes > 0 ? below->seconds * bytes / below->bytes : below->seconds;
    if (above == below || above->bytes <= below->bytes)
        return below->seconds;
    return below->seconds + (above->seconds - below->seconds) * (bytes - below->bytes) / (above->bytes - below->bytes);
}

double tess_kernel_times_factor(const tess_kernel_times *t, uint64_t config)
{
    for (size_t i = 0; i < t->n_corrections; i++)
        if (t->corrections[i].config == config)
            return t->corrections[i].factor;
    return 1;
}

/* ---- Places ---- */
const char *tess_machine_fingerprint(char *text, size_t size)
{
    char info[4096];
    const tess_kernels *kernels;
    (void)tess_os_read_text("/proc/cpuinfo", info, sizeof(info));
    const char *name = strstr(info, "model name"), *colon = name != NULL ? strchr(name, ':') : NULL;
    const bool known = tess_kernels_select(NULL, &kernels) == TESS_OK;
    snprintf(text, size, "%.*s; %d cores; kernels %s", colon != NULL ? (int)strcspn(colon + 2, "\n") : 7,
             colon != NULL ? colon + 2 : "unknown", tess_os_cores(), known ? kernels->name : "unknown");
    tess_error_clear();
    return text;
}

tess_status tess_kernel_times_path(const char *folder, char *path, size_t size)
{
    char fingerprint[256], name[64], cache[1024];
    const char *xdg = tess_variable_value(TESS_VAR_XDG_CACHE_HOME), *home = tess_variable_value(TESS_VAR_HOME);
    if (folder[0] != '\0')
        snprintf(cache, sizeof(cache), "%s", folder);
    else if (xdg != NULL && xdg[0] == '/')
        snprintf(cache, sizeof(cache), "%s/tessera", xdg);
    else if (home != NULL && home[0] == '/')
        snprintf(cache, sizeof(cache), "%s/.cache/tessera", home);
    else
        return TESS_FAIL(TESS_E_NOT_FOUND, "there is no home folder for measured times: name a folder with --cache");
    snprintf(name, sizeof(name), "times-%016llx.json",
             (unsigned long long)tess_hash_text(tess_machine_fingerprint(fingerprint, sizeof(fingerprint))));
    return tess_os_join(path, size, cache, name);
}

/* ---- Files ---- */
static int kind_of(const char *name)
{
    int kind = 0;
    while (kind < TESS_CALL_KINDS && strcmp(tess_call_name(kind), name) != 0)
        kind++;
    return kind;
}

static bool is_time(double seconds)
{
    return isfinite(seconds) && seconds >= 0;
}

/* Reads {"kernel", "variant", "dtypes": [from, to], "threads", "sizes": [..], "bytes", "flops", "seconds"}. A kernel
 * that this program does not have is left out. */
static tess_status parse_call(tess_kernel_times *times, const json_t *row, const char *what)
{
    const char *name = "";
    int64_t variant = 0, threads = 0;
    tess_kernel_time t;
    memset(&t, 0, sizeof(t)); /* keys are compared as bytes */
    TESS_TRY(tess_json_get_string(row, "kernel", what, &name));
    TESS_TRY(tess_json_get_int(row, "variant", what, &variant));
    TESS_TRY(tess_json_get_int(row, "threads", what, &threads));
    TESS_TRY(tess_json_get_double(row, "bytes", what, &t.key.bytes));
    TESS_TRY(tess_json_get_double(row, "flops", what, &t.key.flops));
    TESS_TRY(tess_json_get_double(row, "seconds", what, &t.seconds));
    const json_t *sizes = json_object_get(row, "sizes"), *dtypes = json_object_get(row, "dtypes");
    TESS_CHECK(threads >= 1 && threads <= 1 << 16 && is_time(t.seconds) && is_time(t.key.bytes) &&
                   is_time(t.key.flops) && variant >= 0 && variant <= INT32_MAX &&
                   json_array_size(sizes) == TESS_CALL_SIZES && json_array_size(dtypes) == 2,
               TESS_E_FORMAT, "%s: kernel '%.40s': a row has a variant, two dtypes, %d sizes, threads and times", what,
               name, TESS_CALL_SIZES);
    t.threads = (int)threads;
    t.key.kind = kind_of(name);
    t.key.variant = (int32_t)variant;
    for (int i = 0; i < TESS_CALL_SIZES; i++)
        t.key.size[i] = json_integer_value(json_array_get(sizes, (size_t)i));
    const int64_t from = json_integer_value(json_array_get(dtypes, 0)),
                  to = json_integer_value(json_array_get(dtypes, 1));
    TESS_CHECK(from >= 0 && from < TESS_DTYPE_COUNT && to >= 0 && to < TESS_DTYPE_COUNT, TESS_E_FORMAT,
               "%s: kernel '%.40s': no such dtype", what, name);
    t.key.dtype = (int32_t)from;
    t.key.to_dtype = (int32_t)to;
    return t.key.kind < TESS_CALL_KINDS ? tess_kernel_times_add(times, &t) : TESS_OK;
}

static tess_status parse_op(tess_kernel_times *times, const json_t *row, const char *what)
{
    const char *name = "";
    int64_t ranks = 0;
    tess_op_time t = {.kind = 0};
    TESS_TRY(tess_json_get_string(row, "operation", what, &name));
    TESS_TRY(tess_json_get_int(row, "ranks", what, &ranks));
    TESS_TRY(tess_json_get_double(row, "bytes", what, &t.bytes));
    TESS_TRY(tess_json_get_double(row, "seconds", what, &t.seconds));
    while (t.kind < TESS_TRACE_OP_COUNT && strcmp(tess_trace_op_name((tess_trace_op)t.kind), name) != 0)
        t.kind++;
    TESS_CHECK(t.kind < TESS_TRACE_OP_COUNT && ranks >= 1 && ranks <= 1 << 20 && is_time(t.bytes) && is_time(t.seconds),
               TESS_E_FORMAT, "%s: operation '%.40s': a row has a known operation, ranks, bytes and seconds", what,
               name);
    t.ranks = (int)ranks;
    return tess_kernel_times_add_op(times, &t);
}

static tess_status parse_correction(tess_kernel_times *times, const json_t *row, const char *what)
{
    int64_t config = 0;
    tess_step_correction c = {.factor = 0};
    TESS_TRY(tess_json_get_int(row, "configuration", what, &config));
    TESS_TRY(tess_json_get_double(row, "factor", what, &c.factor));
    TESS_CHECK(isfinite(c.factor) && c.factor > 0, TESS_E_FORMAT, "%s: a correction's factor is above 0", what);
    c.config = (uint64_t)config;
    return tess_kernel_times_correct(times, &c);
}

static tess_status parse_rows(tess_kernel_times *times, const json_t *document, const char *list, const char *what,
                              tess_status (*parse)(tess_kernel_times *, const json_t *, const char *))
{
    size_t i;
    const json_t *row, *rows = json_object_get(document, list);
    TESS_CHECK(json_array_size(rows) <= MOST_ROWS, TESS_E_FORMAT, "%s: more than %d rows", what, MOST_ROWS);
    json_array_foreach (rows, i, row) {
        TESS_CHECK(json_is_object(row), TESS_E_FORMAT, "%s: %s: row %zu is no object", what, list, i);
        TESS_TRY(parse(times, row, what));
    }
    return TESS_OK;
}

tess_status tess_kernel_times_parse(tess_kernel_times *times, const char *text, size_t size, const char *what)
{
    json_auto_t *document = NULL;
    const char *machine = "";
    int64_t version = 0;
    TESS_TRY(tess_json_parse(text, size, what, true, &document));
    TESS_CHECK(json_is_object(document), TESS_E_FORMAT, "%s: no times of a machine", what);
    TESS_TRY(tess_json_get_int(document, "version", what, &version));
    TESS_CHECK(version == VERSION, TESS_E_FORMAT,
               "%s: version %lld of the times, this program reads %d: run tessera plan "
               "--calibrate again",
               what, (long long)version, VERSION);
    TESS_TRY(tess_json_get_string(document, "machine", what, &machine));
    snprintf(times->machine, sizeof(times->machine), "%s", machine);
    TESS_TRY(tess_json_get_double(document, "flops_bf16", what, &times->flops_bf16));
    TESS_TRY(tess_json_get_double(document, "flops_f32", what, &times->flops_f32));
    TESS_CHECK(is_time(times->flops_bf16) && is_time(times->flops_f32), TESS_E_FORMAT, "%s: a peak is not negative",
               what);
    TESS_TRY(parse_rows(times, document, "kernels", what, parse_call));
    TESS_TRY(parse_rows(times, document, "operations", what, parse_op));
    return parse_rows(times, document, "corrections", what, parse_correction);
}

tess_status tess_kernel_times_load(tess_kernel_times *times, const char *path)
{
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    size_t size;
    TESS_TRY(tess_os_read(times->mem, path, MOST_FILE, &text, &size));
    return tess_kernel_times_parse(times, text, size, path);
}

static json_t *calls_json(const tess_kernel_times *times)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < times->n_calls; i++) {
        const tess_call_key *k = &times->calls[i].key;
        json_t *sizes = json_array();
        for (int s = 0; s < TESS_CALL_SIZES; s++)
            json_array_append_new(sizes, json_integer(k->size[s]));
        json_array_append_new(rows,
                              json_pack("{s:s, s:i, s:[i, i], s:i, s:o, s:f, s:f, s:f}", "kernel",
                                        tess_call_name(k->kind), "variant", (int)k->variant, "dtypes", (int)k->dtype,
                                        (int)k->to_dtype, "threads", times->calls[i].threads, "sizes", sizes, "bytes",
                                        k->bytes, "flops", k->flops, "seconds", times->calls[i].seconds));
    }
    return rows;
}

tess_status tess_kernel_times_save(const tess_kernel_times *times, const char *path)
{
    json_t *ops = json_array(), *corrections = json_array();
    for (size_t i = 0; i < times->n_ops; i++)
        json_array_append_new(ops, json_pack("{s:s, s:i, s:f, s:f}", "operation",
                                             tess_trace_op_name((tess_trace_op)times->ops[i].kind), "ranks",
                                             times->ops[i].ranks, "bytes", times->ops[i].bytes, "seconds",
                                             times->ops[i].seconds));
    for (size_t i = 0; i < times->n_corrections; i++)
        json_array_append_new(corrections,
                              json_pack("{s:I, s:f}", "configuration", (json_int_t)times->corrections[i].config,
                                        "factor", times->corrections[i].factor));
    json_t *document = json_pack("{s:i, s:s, s:f, s:f, s:o, s:o, s:o}", "version", VERSION, "machine", times->machine,
                                 "flops_bf16", times->flops_bf16, "flops_f32", times->flops_f32, "kernels",
                                 calls_json(times), "operations", ops, "corrections", corrections);
    return tess_json_write(document, JSON_INDENT(1), path);
}
