#include "plan/gpu/launch_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINE = 2048, MOST_WORDS = 40, SECTOR = 32, SECTORS_A_PASS = 4, FLOPS_OF_MMA_THREAD = 128 };

/* The counts of a launch, in the order of a line. */
enum {
    NAME = 1,
    SOURCE,
    HOW,
    BLOCKS,
    THREADS,
    SHARED,
    INTEGER,
    FLOAT,
    DOUBLE,
    SPECIAL,
    CONVERT,
    MOVE,
    MEMORY,
    WARP_CLASS,
    TENSOR,
    CONTROL,
    WARP_INSTRUCTIONS,
    FUSED,
    READ,
    WRITTEN,
    READ_SECTORS,
    WRITTEN_SECTORS,
    SHARED_PASSES,
    CONFLICTS,
    BARRIERS,
    MEMORY_READ,
    MEMORY_WRITTEN,
    CACHE_SECTORS,
    WAITS,
    LAUNCH_WORDS
};

static tess_status number(const tess_launch_log *log, const char *word, double *value)
{
    char *end;
    *value = strtod(word, &end);
    TESS_CHECK(end != word && *end == '\0' && *value >= 0 && isfinite(*value), TESS_E_FORMAT,
               "%s:%d: '%.40s' is no number: give a log of tools/gpu-step", log->what, log->line, word);
    return TESS_OK;
}

static tess_status numbers(const tess_launch_log *log, char *const *words, int n, double *values)
{
    for (int i = 0; i < n; i++)
        TESS_TRY(number(log, words[i], &values[i]));
    return TESS_OK;
}

/* The name in the source of a function that C++ has mangled, with its template's arguments as they are. */
static void name_kernel(const char *mangled, char *name, size_t size)
{
    char *end;
    const long n = strncmp(mangled, "_Z", 2) == 0 ? strtol(mangled + 2, &end, 10) : 0;
    if (n <= 0 || (size_t)n > strlen(end)) {
        snprintf(name, size, "%.*s", (int)size - 1, mangled);
        return;
    }
    const char *arguments = end + n, *last = strstr(arguments, "Ev");
    const int n_arguments = *arguments == 'I' && last != NULL ? (int)(last - arguments) - 1 : 0;
    snprintf(name, size, "%.*s%s%.*s", (int)n, end, n_arguments > 0 ? " " : "", n_arguments, arguments + 1);
}

static double registers_of(const tess_launch_log *log, const char *name)
{
    for (int i = 0; i < log->n_registers; i++)
        if (strcmp(log->registers[i].name, name) == 0)
            return log->registers[i].n;
    return 0;
}

/* ---- Totals ---- */
static tess_launched_kernel *find_kernel(tess_launch_totals *t, const char *name)
{
    enum { OTHERS = TESS_LAUNCH_KERNELS - 1 };
    int i = 0;
    while (i < t->n_kernels && i < OTHERS && strcmp(t->kernels[i].name, name) != 0)
        i++;
    if (i == t->n_kernels) {
        t->kernels[t->n_kernels++] = (tess_launched_kernel){.n = 0};
        snprintf(t->kernels[i].name, sizeof(t->kernels[i].name), "%s", i == OTHERS ? "others" : name);
    }
    return &t->kernels[i];
}

static void add(tess_launch_log *log, const tess_gpu_launch *l)
{
    tess_launch_totals *t = &log->totals;
    tess_gpu_bound bound;
    const double seconds = tess_gpu_queue_add(&log->queue, log->machine, l, &bound);
    if (l->kind == TESS_GPU_WAIT) {
        t->waits++;
        return;
    }
    const bool is_copy = l->kind == TESS_GPU_COPY;
    *(is_copy ? &t->copies : &t->launches) += 1;
    *(is_copy ? &t->copied_bytes : &t->memory_bytes) += l->memory_bytes;
    t->flops += l->tensor_flops;
    tess_launched_kernel *k = find_kernel(t, l->name);
    k->n++;
    k->seconds += seconds;
    k->memory_bytes += l->memory_bytes;
    k->flops += l->tensor_flops;
    if (seconds >= k->longest_s) {
        k->longest_s = seconds;
        k->bound = bound;
        k->occupancy = l->kind == TESS_GPU_KERNEL ? tess_gpu_occupancy(log->machine, l) : 0;
    }
}

/* ---- Lines ---- */
static tess_status read_launch(tess_launch_log *log, char *const *w)
{
    double c[LAUNCH_WORDS];
    tess_gpu_launch l = {.kind = TESS_GPU_KERNEL};
    TESS_TRY(numbers(log, w + BLOCKS, LAUNCH_WORDS - BLOCKS, c + BLOCKS));
    TESS_CHECK(c[BLOCKS] > 0 && c[THREADS] > 0, TESS_E_FORMAT, "%s:%d: a launch without threads", log->what, log->line);
    name_kernel(w[NAME], l.name, sizeof(l.name));
    l.blocks = c[BLOCKS];
    l.threads = c[THREADS];
    l.shared_bytes = c[SHARED];
    l.registers = registers_of(log, w[NAME]);
    l.warp_instructions = c[WARP_INSTRUCTIONS];
    l.integer = c[INTEGER];
    l.floats = c[FLOAT];
    l.doubles = c[DOUBLE];
    l.special = c[SPECIAL];
    l.convert = c[CONVERT];
    l.passes = c[SHARED_PASSES] + c[CONFLICTS] + (c[READ_SECTORS] + c[WRITTEN_SECTORS]) / SECTORS_A_PASS;
    l.waits = c[WAITS];
    l.memory_bytes = c[MEMORY_READ] + c[MEMORY_WRITTEN];
    l.cache_bytes = c[CACHE_SECTORS] * SECTOR;
    l.tensor_flops = c[TENSOR] * FLOPS_OF_MMA_THREAD;
    add(log, &l);
    return TESS_OK;
}

static tess_status read_registers(tess_launch_log *log, char *const *w)
{
    const int i = log->n_registers;
    TESS_CHECK(i < (int)(sizeof(log->registers) / sizeof(log->registers[0])), TESS_E_FORMAT,
               "%s:%d: more kernels than a log may have", log->what, log->line);
    snprintf(log->registers[i].name, sizeof(log->registers[i].name), "%s", w[1]);
    log->n_registers++;
    return number(log, w[2], &log->registers[i].n);
}

static tess_status read_product(tess_launch_log *log, char *const *w)
{
    double v[5];
    tess_gpu_launch l = {.kind = TESS_GPU_PRODUCT};
    TESS_TRY(numbers(log, w + 1, 5, v));
    l.m = v[0];
    l.n = v[1];
    l.k = v[2];
    l.c_bytes = v[3];
    l.adds = v[4] != 0;
    l.splits_k = w[6] != NULL;
    l.tensor_flops = 2 * l.m * l.n * l.k;
    l.memory_bytes = 2 * (l.m + l.n) * l.k + (l.adds ? 2 : 1) * l.c_bytes * l.m * l.n;
    snprintf(l.name, sizeof(l.name), "cublas %gx%gx%g%s", l.m, l.n, l.k, l.adds ? " adds" : "");
    add(log, &l);
    return TESS_OK;
}

static tess_status read_moves(tess_launch_log *log, char *const *w)
{
    tess_gpu_launch l = {.kind = TESS_GPU_MOVES};
    snprintf(l.name, sizeof(l.name), "%s", w[1]);
    TESS_TRY(number(log, w[2], &l.memory_bytes));
    add(log, &l);
    return TESS_OK;
}

static tess_status read_launched(tess_launch_log *log, char *const *w)
{
    tess_gpu_launch l = {.kind = TESS_GPU_MOVES};
    snprintf(l.name, sizeof(l.name), "%s", w[1]);
    add(log, &l);
    return TESS_OK;
}

static tess_status read_attention(tess_launch_log *log, char *const *w)
{
    tess_gpu_launch l = {.kind = TESS_GPU_ATTENTION};
    snprintf(l.name, sizeof(l.name), "%s", w[1]);
    TESS_TRY(number(log, w[2], &l.tensor_flops));
    TESS_TRY(number(log, w[3], &l.memory_bytes));
    TESS_TRY(number(log, w[4], &l.n));
    TESS_TRY(number(log, w[5], &l.k));
    TESS_CHECK(l.n > 0, TESS_E_FORMAT, "%s:%d: attention without tokens", log->what, log->line);
    add(log, &l);
    return TESS_OK;
}

/* A copy within the GPU reads and writes its memory. */
static tess_status read_copy(tess_launch_log *log, char *const *w)
{
    const bool within = strcmp(w[1], "within") == 0, fills = strcmp(w[0], "fill") == 0;
    tess_gpu_launch l = {.kind = within ? TESS_GPU_MOVES : TESS_GPU_COPY};
    snprintf(l.name, sizeof(l.name), "%s %s", w[0], w[1]);
    TESS_TRY(number(log, w[2], &l.memory_bytes));
    l.memory_bytes *= within && !fills ? 2 : 1;
    add(log, &l);
    return TESS_OK;
}

static tess_status read_wait(tess_launch_log *log, TESS_UNUSED char *const *w)
{
    add(log, &(tess_gpu_launch){.kind = TESS_GPU_WAIT});
    return TESS_OK;
}

static const struct {
    const char *word;
    int n_words; /* the fewest */
    tess_status (*read)(tess_launch_log *log, char *const *words);
} lines[] = {{"launch", LAUNCH_WORDS, read_launch},
             {"registers", 3, read_registers},
             {"product", 6, read_product},
             {"launched", 2, read_launched},
             {"moves", 3, read_moves},
             {"attention", 6, read_attention},
             {"copy", 3, read_copy},
             {"fill", 3, read_copy},
             {"wait", 1, read_wait}};

static tess_status read_line(tess_launch_log *log, char *line)
{
    char *words[MOST_WORDS + 1] = {NULL}, *rest = line;
    int n = 0;
    for (char *word; n < MOST_WORDS && (word = strtok_r(rest, " \t", &rest)) != NULL;)
        words[n++] = word;
    for (size_t i = 0; n > 0 && i < sizeof(lines) / sizeof(lines[0]); i++)
        if (strcmp(words[0], lines[i].word) == 0) {
            TESS_CHECK(n >= lines[i].n_words, TESS_E_FORMAT, "%s:%d: '%s' has %d words, not %d", log->what, log->line,
                       words[0], n, lines[i].n_words);
            return lines[i].read(log, words);
        }
    return TESS_OK;
}

static int by_seconds(const void *a, const void *b)
{
    const double x = ((const tess_launched_kernel *)a)->seconds, y = ((const tess_launched_kernel *)b)->seconds;
    return (x < y) - (x > y);
}

tess_status tess_launch_log_read(tess_launch_log *log, const char *text, size_t size)
{
    char line[MOST_LINE];
    TESS_CHECK(tess_gpu_is_known(log->machine), TESS_E_INVALID,
               "machine '%s' lacks compute.processors, compute.clock_ghz, compute.mma_tflops, memory.cache_gb_per_s or "
               "memory.latency_ns, by which launches have times",
               log->machine->machine.name);
    for (const char *at = text, *end = text + size; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t n = stop != NULL ? (size_t)(stop - at) : (size_t)(end - at);
        log->line++;
        TESS_CHECK(n < sizeof(line), TESS_E_FORMAT, "%s:%d: a line of %zu bytes", log->what, log->line, n);
        memcpy(line, at, n);
        line[n] = '\0';
        TESS_TRY(read_line(log, line));
        at += n + 1;
    }
    tess_launch_totals *t = &log->totals;
    t->busy_s = log->queue.busy_s;
    t->time_s = tess_gpu_queue_time(&log->queue);
    qsort(t->kernels, (size_t)t->n_kernels, sizeof(t->kernels[0]), by_seconds);
    return TESS_OK;
}
