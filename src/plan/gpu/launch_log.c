#include "plan/gpu/launch_log.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_LINE = 2048,
    MOST_WORDS = 40,
    SECTOR = 32,
    SECTORS_A_PASS = 4,
    FLOPS_OF_MMA_THREAD = 128,
    MOST_NUMBERS = 26
};

static tess_status number(const tess_launch_log *log, const char *word, double *value)
{
    char *end;
    *value = strtod(word, &end);
    TESS_CHECK(end != word && *end == '\0' && *value >= 0 && isfinite(*value), TESS_E_FORMAT,
               "%s:%d: '%.40s' is no number: give a log of tools/gpu-step", log->what, log->line, word);
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
/* A word of a line that is a number, and the count of a launch that it adds to. `offset` NO_COUNT: it is only checked.
 */
enum { NO_COUNT = -1 };
typedef struct log_word {
    int offset;
    double factor;
} log_word;
#define ADDS(field, factor)                           \
    {                                                 \
        (int)offsetof(tess_gpu_launch, field), factor \
    }
#define ADDS_NOTHING \
    {                \
        NO_COUNT, 0  \
    }

/* A kind of line. */
typedef struct log_line {
    const char *word;
    int n_words; /* the fewest */
    tess_gpu_kind kind;
    int first_number; /* the words from here on are numbers: those of `numbers` */
    log_word numbers[MOST_NUMBERS];
    /* Completes a launch whose name is the second word. NULL: nothing is left to do */
    tess_status (*finish)(tess_launch_log *log, char *const *words, tess_gpu_launch *launch);
} log_line;

/* Names a kernel by its source, and finds its registers. */
static tess_status finish_launch(tess_launch_log *log, char *const *w, tess_gpu_launch *l)
{
    TESS_CHECK(l->blocks > 0 && l->threads > 0, TESS_E_FORMAT, "%s:%d: a launch without threads", log->what, log->line);
    name_kernel(w[1], l->name, sizeof(l->name));
    l->registers = registers_of(log, w[1]);
    return TESS_OK;
}

static tess_status finish_product(TESS_UNUSED tess_launch_log *log, char *const *w, tess_gpu_launch *l)
{
    l->adds = strtod(w[5], NULL) != 0;
    l->splits_k = w[6] != NULL;
    l->tensor_flops = 2 * l->m * l->n * l->k;
    l->memory_bytes = 2 * (l->m + l->n) * l->k + (l->adds ? 2 : 1) * l->c_bytes * l->m * l->n;
    snprintf(l->name, sizeof(l->name), "cublas %gx%gx%g%s", l->m, l->n, l->k, l->adds ? " adds" : "");
    return TESS_OK;
}

static tess_status finish_attention(tess_launch_log *log, TESS_UNUSED char *const *w, tess_gpu_launch *l)
{
    TESS_CHECK(l->n > 0, TESS_E_FORMAT, "%s:%d: attention without tokens", log->what, log->line);
    return TESS_OK;
}

/* A copy within the GPU reads and writes its memory. */
static tess_status finish_copy(TESS_UNUSED tess_launch_log *log, char *const *w, tess_gpu_launch *l)
{
    const bool within = strcmp(w[1], "within") == 0, fills = strcmp(w[0], "fill") == 0;
    l->kind = within ? TESS_GPU_MOVES : TESS_GPU_COPY;
    l->memory_bytes *= within && !fills ? 2 : 1;
    snprintf(l->name, sizeof(l->name), "%s %s", w[0], w[1]);
    return TESS_OK;
}

/* The numbers of a launch are, in their order: blocks, threads, bytes of shared memory; instructions of threads by
 * class; those of warps, fused ones, bytes read and written; sectors read and written, passes and conflicts of shared
 * memory; barriers; bytes of the memory read and written, sectors of the cache, waits. */
static const log_line lines[] = {{"launch",
                                  30,
                                  TESS_GPU_KERNEL,
                                  4,
                                  {ADDS(blocks, 1),
                                   ADDS(threads, 1),
                                   ADDS(shared_bytes, 1),
                                   ADDS(integer, 1),
                                   ADDS(floats, 1),
                                   ADDS(doubles, 1),
                                   ADDS(special, 1),
                                   ADDS(convert, 1),
                                   ADDS_NOTHING,
                                   ADDS_NOTHING,
                                   ADDS_NOTHING,
                                   ADDS(tensor_flops, FLOPS_OF_MMA_THREAD),
                                   ADDS_NOTHING,
                                   ADDS(warp_instructions, 1),
                                   ADDS_NOTHING,
                                   ADDS_NOTHING,
                                   ADDS_NOTHING,
                                   ADDS(passes, 1.0 / SECTORS_A_PASS),
                                   ADDS(passes, 1.0 / SECTORS_A_PASS),
                                   ADDS(passes, 1),
                                   ADDS(passes, 1),
                                   ADDS_NOTHING,
                                   ADDS(memory_bytes, 1),
                                   ADDS(memory_bytes, 1),
                                   ADDS(cache_bytes, SECTOR),
                                   ADDS(waits, 1)},
                                  finish_launch},
                                 {"product",
                                  6,
                                  TESS_GPU_PRODUCT,
                                  1,
                                  {ADDS(m, 1), ADDS(n, 1), ADDS(k, 1), ADDS(c_bytes, 1), ADDS_NOTHING},
                                  finish_product},
                                 {"launched", 2, TESS_GPU_MOVES, 2, {{0}}, NULL},
                                 {"moves", 3, TESS_GPU_MOVES, 2, {ADDS(memory_bytes, 1)}, NULL},
                                 {"attention",
                                  6,
                                  TESS_GPU_ATTENTION,
                                  2,
                                  {ADDS(tensor_flops, 1), ADDS(memory_bytes, 1), ADDS(n, 1), ADDS(k, 1)},
                                  finish_attention},
                                 {"copy", 3, TESS_GPU_COPY, 2, {ADDS(memory_bytes, 1)}, finish_copy},
                                 {"fill", 3, TESS_GPU_COPY, 2, {ADDS(memory_bytes, 1)}, finish_copy},
                                 {"wait", 1, TESS_GPU_WAIT, 1, {{0}}, NULL}};

static tess_status check_words(const tess_launch_log *log, const char *word, int n, int n_least)
{
    TESS_CHECK(n >= n_least, TESS_E_FORMAT, "%s:%d: '%s' has %d words, not %d", log->what, log->line, word, n, n_least);
    return TESS_OK;
}

static tess_status read_launch(tess_launch_log *log, const log_line *of, char *const *w, int n)
{
    tess_gpu_launch l = {.kind = of->kind};
    TESS_TRY(check_words(log, of->word, n, of->n_words));
    if (of->n_words > 1)
        snprintf(l.name, sizeof(l.name), "%s", w[1]);
    for (int i = of->first_number; i < of->n_words; i++) {
        const log_word *adds = &of->numbers[i - of->first_number];
        double value;
        TESS_TRY(number(log, w[i], &value));
        if (adds->offset != NO_COUNT)
            *(double *)((char *)&l + adds->offset) += adds->factor * value;
    }
    if (of->finish != NULL)
        TESS_TRY(of->finish(log, w, &l));
    add(log, &l);
    return TESS_OK;
}

/* Keeps the registers of a kernel, which is launched later. */
static tess_status read_registers(tess_launch_log *log, char *const *w, int n)
{
    const int i = log->n_registers;
    TESS_TRY(check_words(log, w[0], n, 3));
    TESS_CHECK(i < (int)(sizeof(log->registers) / sizeof(log->registers[0])), TESS_E_FORMAT,
               "%s:%d: more kernels than a log may have", log->what, log->line);
    snprintf(log->registers[i].name, sizeof(log->registers[i].name), "%s", w[1]);
    log->n_registers++;
    return number(log, w[2], &log->registers[i].n);
}

static tess_status read_line(tess_launch_log *log, char *line)
{
    char *words[MOST_WORDS + 1] = {NULL}, *rest = line;
    int n = 0;
    for (char *word; n < MOST_WORDS && (word = strtok_r(rest, " \t", &rest)) != NULL;)
        words[n++] = word;
    if (n == 0)
        return TESS_OK;
    if (strcmp(words[0], "registers") == 0)
        return read_registers(log, words, n);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (strcmp(words[0], lines[i].word) == 0)
            return read_launch(log, &lines[i], words, n);
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
