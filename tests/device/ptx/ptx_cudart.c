/* CUDA's runtime, of which the interpreter is the GPU: the functions that nvcc's host code calls. So the launches of
 * the real objects of src/device/cuda run here, with the PTX that nvcc put into them. TESS_PTX_TARGET chooses among its
 * targets ("sm_90a"; default: the first). TESS_PTX_LOG=FILE gets a line for each kernel that is registered and for each
 * launch. CUDA_SHIM_ERROR=LAUNCH:ERROR has one launch report an error, counted from 1. A fault ends the process.
 * TESS_PTX_PLANT=KERNEL~N~FIND~TEXT plants an error: in the PTX of the first kernel whose name begins with KERNEL, the
 * N-th FIND becomes TEXT. TESS_PTX_SAMPLE=N: launches only count. N of a launch's blocks run, and none of a launch that
 * equals an earlier one (ptx_sample_key), so what kernels compute is not there. */
#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda_fake/fake_work.h"
#include "device/ptx/ptx_heap.h"
#include "device/ptx/ptx_machine.h"
#include "device/ptx/ptx_sample.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    MOST_KERNELS = 1024,
    MOST_MODULES = 64,
    MOST_ARGUMENTS = 64,
    MOST_OPERANDS = 256,
    MOST_SAMPLES = 4096,
    FATBIN_MAGIC = 0xba55ed50,
    PTX_ENTRY = 1,
    MAX_DYNAMIC_SHARED = 8, /* the attribute that asks for more than 48 KiB */
    SHARED_UNASKED = 48 << 10,
    SHARED_LIMIT = 99 << 10 /* the least of all GPUs: sm_86, sm_89 and sm_120 */
};

typedef struct dimensions {
    unsigned x, y, z;
} dimensions;

/* NVIDIA's container of code: a header, then entries. */
typedef struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
} fatbin_header;

typedef struct fatbin_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t compressed_bytes;
} fatbin_entry;

typedef struct fatbin_wrapper {
    uint32_t magic, version;
    const fatbin_header *data;
    void *names;
} fatbin_wrapper;

typedef struct loaded_module {
    const fatbin_header *fatbin;
    ptx_module *module; /* NULL: not parsed yet */
} loaded_module;

typedef struct registered_kernel {
    const void *host;
    const char *name;
    loaded_module *module;
    const ptx_kernel *kernel;
    size_t shared; /* bytes that cudaFuncSetAttribute has allowed */
} registered_kernel;

/* The counts of a launch that ran, for those that equal it. */
typedef struct known_launch {
    uint64_t key;
    ptx_counts counts;
} known_launch;

static loaded_module modules[MOST_MODULES];
static registered_kernel kernels[MOST_KERNELS];
static int n_modules, n_kernels, n_launches, last_error;
static _Thread_local struct {
    dimensions grid, block;
    size_t shared;
    void *stream;
} configuration;

static _Noreturn void stop(const char *why, const char *what)
{
    fprintf(stderr, "CUDA on the interpreter: %s%s\n", why, what);
    abort();
}

/* ---- Modules ---- */
static bool is_wanted(const char *text, size_t bytes)
{
    const char *wanted = getenv("TESS_PTX_TARGET"), *target = memmem(text, bytes, ".target ", 8);
    if (target == NULL || wanted == NULL)
        return target != NULL;
    const size_t n = strlen(wanted);
    target += 8;
    return (size_t)(text + bytes - target) > n && memcmp(target, wanted, n) == 0 &&
           (target[n] == '\n' || target[n] == ',');
}

static void append_log(const char *line)
{
    const char *path = getenv("TESS_PTX_LOG");
    const int file = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    if (write(file, line, strlen(line)) < 0)
        stop("cannot write ", path);
    close(file);
}

enum { MOST_GROUPS = 3 };

/* Returns the text with a match replaced, where \1 and \2 in `by` are what its groups have matched. */
static char *replace(const char *text, size_t bytes, const char *at, const regmatch_t *groups, const char *by)
{
    const size_t before = (size_t)(at - text) + (size_t)groups[0].rm_so;
    size_t n = before;
    char *planted =
        ptx_heap_own(bytes + MOST_GROUPS * (size_t)(groups[0].rm_eo - groups[0].rm_so) + 2 * strlen(by) + 1);
    if (planted == NULL)
        stop("no memory for a planted error", "");
    memcpy(planted, text, before);
    for (; *by != '\0'; by++) {
        const int group = by[0] == '\\' && by[1] > '0' && by[1] < '0' + MOST_GROUPS ? *++by - '0' : 0;
        const size_t length = group > 0 ? (size_t)(groups[group].rm_eo - groups[group].rm_so) : 1;
        memcpy(planted + n, group > 0 ? at + groups[group].rm_so : by, length);
        n += length;
    }
    const char *rest = at + groups[0].rm_eo;
    memcpy(planted + n, rest, bytes - (size_t)(rest - text));
    return planted;
}

/* Returns the text with the error that TESS_PTX_PLANT names, or NULL: none is planted in this module. */
static char *plant(const char *text, size_t bytes)
{
    char wish[512], entry[600], *rest = wish;
    const char *given = getenv("TESS_PTX_PLANT");
    snprintf(wish, sizeof(wish), "%s", given != NULL ? given : "");
    const char *kernel = strsep(&rest, "~"), *number = strsep(&rest, "~"), *find = strsep(&rest, "~");
    if (rest == NULL)
        return NULL;
    snprintf(entry, sizeof(entry), ".entry %s", kernel);
    const char *begin = memmem(text, bytes, entry, strlen(entry)), *at = begin;
    if (begin == NULL)
        return NULL;
    regex_t pattern;
    regmatch_t groups[MOST_GROUPS] = {{.rm_eo = 0}};
    if (regcomp(&pattern, find, REG_EXTENDED) != 0)
        stop("TESS_PTX_PLANT has a bad pattern: ", find);
    bool found = true;
    for (long n = strtol(number, NULL, 10); n > 0 && found; n--) {
        at += groups[0].rm_eo;
        found = regexec(&pattern, at, MOST_GROUPS, groups, 0) == 0;
    }
    regfree(&pattern);
    if (!found)
        return NULL;
    append_log("planted\n");
    return replace(text, bytes, at, groups, rest);
}

static ptx_module *parse_fatbin(const fatbin_header *f)
{
    const char *at = (const char *)f + f->header_bytes, *end = at + f->bytes;
    char error[512];
    if (f->magic != FATBIN_MAGIC)
        stop("the container of code has an unknown form", "");
    while (at < end) {
        const fatbin_entry *e = (const fatbin_entry *)(const void *)at;
        const char *text = at + e->header_bytes;
        at = text + e->bytes;
        if (e->kind != PTX_ENTRY)
            continue;
        if (e->compressed_bytes != 0)
            stop("the PTX is compressed: build with --no-compress", "");
        const size_t bytes = strnlen(text, e->bytes);
        if (!is_wanted(text, bytes))
            continue;
        const char *planted = plant(text, bytes);
        ptx_module *m = planted != NULL ? ptx_module_parse(planted, strlen(planted), error, sizeof(error))
                                        : ptx_module_parse(text, bytes, error, sizeof(error));
        if (m == NULL)
            stop(error, "");
        return m;
    }
    stop("no PTX for the target ", getenv("TESS_PTX_TARGET") != NULL ? getenv("TESS_PTX_TARGET") : "");
}

EXPORT void **__cudaRegisterFatBinary(void *wrapper);
EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
EXPORT void __cudaUnregisterFatBinary(void **handle);
EXPORT void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int limit,
                                   void *tid, void *bid, void *block, void *grid, int *warp);
EXPORT unsigned __cudaPushCallConfiguration(dimensions grid, dimensions block, size_t shared, void *stream);
EXPORT int __cudaPopCallConfiguration(dimensions *grid, dimensions *block, size_t *shared, void *stream);
EXPORT int __cudaGetKernel(void **kernel, const void *host);
EXPORT int __cudaLaunchKernel(void *kernel, dimensions grid, dimensions block, void **arguments, size_t shared,
                              void *stream);
EXPORT int cudaLaunchKernel(const void *host, dimensions grid, dimensions block, void **arguments, size_t shared,
                            void *stream);
EXPORT int cudaFuncSetAttribute(const void *host, int attribute, int value);
EXPORT int cudaGetLastError(void);

void **__cudaRegisterFatBinary(void *wrapper)
{
    if (n_modules == MOST_MODULES)
        stop("more modules than the interpreter keeps", "");
    modules[n_modules].fatbin = ((const fatbin_wrapper *)wrapper)->data;
    return (void **)&modules[n_modules++];
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    ptx_module_free(((loaded_module *)handle)->module);
    ((loaded_module *)handle)->module = NULL;
}

void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *warp)
{
    char line[512];
    (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (n_kernels == MOST_KERNELS)
        stop("more kernels than the interpreter keeps", "");
    kernels[n_kernels++] = (registered_kernel){.host = host, .name = name, .module = (loaded_module *)handle};
    snprintf(line, sizeof(line), "kernel %s\n", name);
    append_log(line);
}

static registered_kernel *find(const void *host)
{
    for (int k = 0; k < n_kernels; k++)
        if (kernels[k].host == host)
            return &kernels[k];
    stop("a launch of a kernel that was not registered", "");
}

static const ptx_kernel *kernel_of(registered_kernel *r)
{
    if (r->module->module == NULL)
        r->module->module = parse_fatbin(r->module->fatbin);
    if (r->kernel == NULL)
        r->kernel = ptx_module_kernel(r->module->module, r->name);
    if (r->kernel == NULL)
        stop("the PTX has no kernel ", r->name);
    return r->kernel;
}

/* ---- Launches ---- */
unsigned __cudaPushCallConfiguration(dimensions grid, dimensions block, size_t shared, void *stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return 0;
}

int __cudaPopCallConfiguration(dimensions *grid, dimensions *block, size_t *shared, void *stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    *(void **)stream = configuration.stream;
    return 0;
}

int __cudaGetKernel(void **kernel, const void *host)
{
    *kernel = find(host);
    return 0;
}

/* The file that the kernel was compiled from. */
static const char *source_of(const ptx_module *m)
{
    const char *path = m->n_files > 1 && m->files[1] != NULL ? m->files[1] : "?", *name = strrchr(path, '/');
    return name != NULL ? name + 1 : path;
}

static void log_launch(const registered_kernel *r, const ptx_launch *l, const ptx_counts *c)
{
    char line[1024];
    int n = snprintf(line, sizeof(line), "launch %s %s %s %u %u %zu", r->name, source_of(l->module),
                     l->kernel->approximates ? "approximates" : "exact", l->blocks, l->threads,
                     (size_t)l->kernel->shared_bytes + l->dynamic_shared);
    const uint64_t counts[] = {
        c->warp_instructions, c->fused,           c->read_bytes,     c->written_bytes, c->read_sectors,
        c->written_sectors,   c->shared_accesses, c->bank_conflicts, c->barriers,      c->memory_read,
        c->memory_written,    c->cache_sectors,   c->waits};
    for (int k = 0; k < PTX_CLASS_COUNT; k++)
        n += snprintf(line + n, sizeof(line) - (size_t)n, " %" PRIu64, c->instructions[k]);
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
        n += snprintf(line + n, sizeof(line) - (size_t)n, " %" PRIu64, counts[k]);
    snprintf(line + n, sizeof(line) - (size_t)n, "\n");
    append_log(line);
}

/* Counts a sample of the launch, or takes the counts of an equal one. */
static bool sample(const ptx_launch *launch, ptx_counts *counts, char *fault, size_t fault_size)
{
    static known_launch *known;
    static int n_known;
    const uint64_t key = ptx_sample_key(launch);
    if (known == NULL && (known = ptx_heap_own(MOST_SAMPLES * sizeof(*known))) == NULL)
        stop("no memory for counts", "");
    for (int k = 0; k < n_known; k++)
        if (known[k].key == key) {
            *counts = known[k].counts;
            return true;
        }
    const bool ran = ptx_run(launch, counts, fault, fault_size);
    if (ran && n_known < MOST_SAMPLES)
        known[n_known++] = (known_launch){key, *counts};
    return ran;
}

/* A launch, with the values of its parameters. */
typedef struct kept_launch {
    registered_kernel *kernel;
    ptx_launch launch;
    void *arguments[MOST_ARGUMENTS];
    _Alignas(16) unsigned char values[];
} kept_launch;

static bool run_launch(void *self)
{
    const kept_launch *k = self;
    char fault[1024];
    ptx_counts counts = {0};
    if (k->launch.sample > 0 ? !sample(&k->launch, &counts, fault, sizeof(fault))
                             : !ptx_run(&k->launch, &counts, fault, sizeof(fault)))
        stop(fault, "");
    log_launch(k->kernel, &k->launch, &counts);
    return true;
}

static kept_launch *keep_launch(registered_kernel *r, const ptx_launch *launch, void **arguments)
{
    const ptx_kernel *code = launch->kernel;
    kept_launch *k = calloc(1, sizeof(*k) + code->parameter_bytes);
    if (k == NULL || code->n_parameters > MOST_ARGUMENTS)
        stop("too many parameters of a kernel: ", r->name);
    k->kernel = r;
    k->launch = *launch;
    k->launch.arguments = k->arguments;
    for (int i = 0; i < code->n_parameters; i++) {
        const ptx_variable *p = &code->parameters[i];
        k->arguments[i] = k->values + p->offset;
        memcpy(k->arguments[i], arguments[i], p->bytes);
    }
    return k;
}

/* Each word of the parameters may be an address. */
static int list_operands(const kept_launch *k, fake_operand operands[MOST_OPERANDS])
{
    int n = 0;
    for (uint64_t at = 0; at + sizeof(void *) <= k->launch.kernel->parameter_bytes && n < MOST_OPERANDS;
         at += sizeof(void *)) {
        const void *word;
        memcpy(&word, k->values + at, sizeof(word));
        operands[n] = (fake_operand){word, 0, FAKE_USES, n};
        n++;
    }
    return n;
}

/* Runs a launch, or has the queue of the fake driver run it later. CUDA's number for wrong parameters of a launch is 1.
 */
int __cudaLaunchKernel(void *kernel, dimensions grid, dimensions block, void **arguments, size_t shared, void *stream)
{
    registered_kernel *r = kernel;
    const size_t limit = r->shared > SHARED_UNASKED ? r->shared : SHARED_UNASKED;
    const ptx_kernel *code = kernel_of(r);
    const char *wish = getenv("CUDA_SHIM_ERROR"), *samples = getenv("TESS_PTX_SAMPLE");
    const ptx_launch launch = {.kernel = code,
                               .module = r->module->module,
                               .blocks = grid.x,
                               .threads = block.x,
                               .dynamic_shared = shared,
                               .sample = samples != NULL ? (unsigned)strtoul(samples, NULL, 10) : 0};
    /* A launch that only counts runs at once, so the log has the order of the calls. */
    const fake_enqueue enqueue = stream != NULL && launch.sample == 0 ? fake_find_enqueue() : NULL;
    fake_operand operands[MOST_OPERANDS];
    int at, error;
    n_launches++;
    if (wish != NULL && sscanf(wish, "%d:%d", &at, &error) == 2 && at == n_launches)
        return last_error = error;
    if (grid.y != 1 || grid.z != 1 || block.y != 1 || block.z != 1)
        stop("the interpreter has blocks and threads of one dimension only: ", r->name);
    if (shared + launch.kernel->shared_bytes > limit)
        stop("a launch with more shared memory than it may have: ", r->name);
    kept_launch *k = keep_launch(r, &launch, arguments);
    if (enqueue != NULL) {
        const int n = list_operands(k, operands);
        last_error = enqueue(stream, &(fake_work){r->name, NULL, run_launch, free, k, operands, n});
    } else {
        last_error = run_launch(k) ? 0 : 1;
    }
    if (enqueue == NULL || last_error != 0)
        free(k);
    return last_error;
}

int cudaLaunchKernel(const void *host, dimensions grid, dimensions block, void **arguments, size_t shared, void *stream)
{
    return __cudaLaunchKernel(find(host), grid, block, arguments, shared, stream);
}

int cudaFuncSetAttribute(const void *host, int attribute, int value)
{
    if (attribute != MAX_DYNAMIC_SHARED || value < 0 || value > SHARED_LIMIT)
        return last_error = 1;
    find(host)->shared = (size_t)value;
    return 0;
}

int cudaGetLastError(void)
{
    const int error = last_error;
    last_error = 0;
    return error;
}
