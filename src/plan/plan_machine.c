#include "plan/plan_machine.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "base/text/yaml.h"
#include "device/device.h"
#include "device/peak.h"
#include "plan/kernel_times.h"

enum { MOST_FILE = 1 << 20 };

/* ---- Options ---- */
#define FIELD(struct_, section_, field_, type_, ...)                                                  \
    {                                                                                                 \
        .key = #section_ "." #field_, .type = type_, .offset = offsetof(struct_, field_), __VA_ARGS__ \
    }
#define TEXT(struct_, section_, field_, help_) \
    FIELD(struct_, section_, field_, TESS_OPTION_TEXT, .fallback = "", .help = help_)
#define NUMBER(struct_, section_, field_, fallback_, max_, help_) \
    FIELD(struct_, section_, field_, TESS_OPTION_FLOAT, .fallback = fallback_, .min = 0, .max = max_, .help = help_)
#define COUNT(struct_, section_, field_, fallback_, least_, help_)                                             \
    FIELD(struct_, section_, field_, TESS_OPTION_INT, .fallback = fallback_, .least = least_, .most = 1 << 24, \
          .help = help_)

static const tess_option about_rows[] = {
    TEXT(tess_machine_about, machine, name, "name for --machine"),
    TEXT(tess_machine_about, machine, title, "name for people"),
    FIELD(tess_machine_about, machine, kind, TESS_OPTION_CHOICE, .fallback = "gpu", .choices = "gpu|cpu",
          .help = "gpu: a rank has a device; cpu: ranks share the cores of a host"),
    COUNT(tess_machine_about, machine, devices, "8", 1, "GPUs of a host, or its cores"),
};

static const tess_option compute_rows[] = {
    NUMBER(tess_machine_compute, compute, bf16_tflops, "0", 1e9, "peak of dense products in bfloat16, 10^12 a second"),
    NUMBER(tess_machine_compute, compute, fp8_tflops, "0", 1e9, "the same in FP8; 0: it has no such products"),
    NUMBER(tess_machine_compute, compute, fp32_tflops, "0", 1e9, "the same for float32 operands"),
    NUMBER(tess_machine_compute, compute, vector_tflops, "0", 1e9, "the same for elementwise kernels"),
    NUMBER(tess_machine_compute, compute, efficiency, "0.7", 1, "share of the peak that large products reach"),
    NUMBER(tess_machine_compute, compute, attention_efficiency, "0.5", 1, "the same for attention"),
    NUMBER(tess_machine_compute, compute, launch_us, "4", 1e6, "microseconds from one kernel to the next"),
    COUNT(tess_machine_compute, compute, processors, "0", 0, "multiprocessors of a GPU; 0: not known"),
    COUNT(tess_machine_compute, compute, shared_kb, "100", 1, "KiB of shared memory of a multiprocessor"),
    NUMBER(tess_machine_compute, compute, clock_ghz, "0", 1e3, "10^9 cycles a second that a long step sustains"),
    NUMBER(tess_machine_compute, compute, mma_tflops, "0", 1e9, "peak of products by instructions of a single warp"),
    TEXT(tess_machine_compute, compute, source, "source of the figures"),
};

static const tess_option memory_rows[] = {
    NUMBER(tess_machine_memory, memory, gb, "0", 1e9, "memory of a device or a CPU host, 10^9 bytes"),
    NUMBER(tess_machine_memory, memory, gb_per_s, "0", 1e9, "its bandwidth, 10^9 bytes a second"),
    NUMBER(tess_machine_memory, memory, efficiency, "0.8", 1, "share of the bandwidth that kernels reach"),
    NUMBER(tess_machine_memory, memory, cache_gb_per_s, "0", 1e9, "bandwidth of a GPU's second-level cache"),
    NUMBER(tess_machine_memory, memory, cache_mb, "0", 1e9, "its size, 10^6 bytes"),
    NUMBER(tess_machine_memory, memory, cache_latency_ns, "0", 1e9, "nanoseconds from a load of it to the value"),
    NUMBER(tess_machine_memory, memory, latency_ns, "0", 1e9, "nanoseconds from a load to its value"),
    NUMBER(tess_machine_memory, memory, host_gb, "0", 1e9, "memory of a GPU's host; 0: not known"),
    TEXT(tess_machine_memory, memory, source, "source of the figures"),
};

static const tess_option cost_rows[] = {
    NUMBER(tess_machine_cost, cost, watts, "0", 1e9, "power of a device or a CPU host; 0: not known"),
    NUMBER(tess_machine_cost, cost, per_hour, "0", 1e9, "its price per hour; 0: not known"),
    FIELD(tess_machine_cost, cost, currency, TESS_OPTION_TEXT, .fallback = "USD", .help = "currency of the price"),
    TEXT(tess_machine_cost, cost, source, "source of the figures"),
};

#define LINK(id_, name_, in_host_, help_)                                                                           \
    static const tess_option name_##_rows[] = {                                                                     \
        NUMBER(tess_machine_link, name_, gb_per_s, "0", 1e9, "10^9 bytes a second of a device, in one direction"),  \
        NUMBER(tess_machine_link, name_, gb_per_s_peer, "0", 1e9, "the same to one peer; 0: as gb_per_s"),          \
        NUMBER(tess_machine_link, name_, latency_us, "10", 1e9, "microseconds of a message without its bytes"),     \
        NUMBER(tess_machine_link, name_, efficiency, "0.8", 1, "share of the bandwidth that large messages reach"), \
        COUNT(tess_machine_link, name_, reach, "0", 0, "consecutive ranks that it connects; 0: a host's, or all"),  \
        TEXT(tess_machine_link, name_, source, "source of the figures"),                                            \
    };
TESS_LINK_ROWS(LINK)

#define ROWS(name_, rows_, help_)                        \
    static const tess_option_section name_##_section = { \
        .name = #name_, .help = help_, .rows = rows_, .n_rows = (int)(sizeof(rows_) / sizeof(rows_[0]))}
ROWS(machine, about_rows, "the machine");
ROWS(compute, compute_rows, "what a device computes");
ROWS(memory, memory_rows, "its memory");
ROWS(cost, cost_rows, "what it costs");
#define LINK_SECTION(id_, name_, in_host_, help_) ROWS(name_, name_##_rows, help_);
TESS_LINK_ROWS(LINK_SECTION)

static const tess_option_table tables[] = {{&machine_section, offsetof(tess_machine, machine)},
                                           {&compute_section, offsetof(tess_machine, compute)},
                                           {&memory_section, offsetof(tess_machine, memory)},
                                           {&cost_section, offsetof(tess_machine, cost)},
#define LINK_TABLE(id_, name_, in_host_, help_) {&name_##_section, offsetof(tess_machine, links[TESS_LINK_##id_])},
                                           TESS_LINK_ROWS(LINK_TABLE)};
enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

/* ---- Links ---- */
typedef struct link_row {
    const char *name;
    bool in_host;
} link_row;

static const link_row link_rows[] = {
#define LINK_ROW(id_, name_, in_host_, help_) {#name_, in_host_},
    TESS_LINK_ROWS(LINK_ROW)};

const char *tess_link_name(tess_link_kind kind)
{
    return link_rows[kind].name;
}

int tess_machine_ranks_a_host(const tess_machine *m, int n_ranks)
{
    return m->machine.kind == TESS_MACHINE_CPU || n_ranks < m->machine.devices ? n_ranks : (int)m->machine.devices;
}

/* Whether the ranks first .. last are in one group of `reach` consecutive ranks. */
static bool is_within(int64_t reach, int first, int last)
{
    return first / reach == last / reach;
}

static bool connects(const tess_machine *m, int kind, int first, int last, int ranks_a_host)
{
    const tess_machine_link *link = &m->links[kind];
    if (link->gb_per_s <= 0)
        return false;
    if (link->reach > 0)
        return is_within(link->reach, first, last);
    return !link_rows[kind].in_host || is_within(ranks_a_host, first, last);
}

tess_status tess_machine_link_of(const tess_machine *m, int first, int stride, int size, int ranks_a_host,
                                 tess_link_kind *kind)
{
    const int last = first + (size - 1) * stride;
    double best = 0;
    for (int k = 0; k < TESS_LINKS; k++) {
        const double speed = m->links[k].gb_per_s * m->links[k].efficiency;
        if (connects(m, k, first, last, ranks_a_host) && speed > best) {
            best = speed;
            *kind = (tess_link_kind)k;
        }
    }
    if (best > 0)
        return TESS_OK;
    const bool inside = is_within(ranks_a_host, first, last);
    return TESS_FAIL(TESS_E_INVALID,
                     "machine '%s' has no link between ranks %d and %d, which are on %s: give it a section %s",
                     m->machine.name, first, last, inside ? "one host" : "different hosts",
                     inside ? "nvlink, shared_memory or pcie" : "infiniband, roce or ethernet");
}

/* ---- Files ---- */
typedef struct machine_reader {
    tess_machine *machine;
    const char *what;
} machine_reader;

static tess_status set(void *context, const char *key, const char *text, int line)
{
    const machine_reader *r = context;
    char place[TESS_TEXT_SIZE];
    snprintf(place, sizeof(place), "%.400s:%d", r->what, line);
    TESS_CHECK(text != NULL, TESS_E_INVALID, "%s: '%.100s' stands in no section: begin with 'machine:'", place, key);
    return tess_options_set(tables, N_TABLES, r->machine, key, text, place);
}

static tess_status check(const tess_machine *m, const char *what)
{
    TESS_CHECK(m->machine.name[0] != '\0', TESS_E_INVALID, "%s: machine.name is missing: it is the name for --machine",
               what);
    TESS_CHECK(m->compute.bf16_tflops > 0 || m->compute.fp32_tflops > 0, TESS_E_INVALID,
               "%s: compute.bf16_tflops and compute.fp32_tflops are 0: give the peak of its products", what);
    TESS_CHECK(m->compute.efficiency > 0 && m->compute.attention_efficiency > 0 && m->memory.efficiency > 0,
               TESS_E_INVALID, "%s: an efficiency is above 0", what);
    TESS_CHECK(m->memory.gb_per_s > 0 && m->memory.gb > 0, TESS_E_INVALID,
               "%s: memory.gb or memory.gb_per_s is missing: give its size and its bandwidth", what);
    for (int k = 0; k < TESS_LINKS; k++)
        TESS_CHECK(m->links[k].gb_per_s == 0 || m->links[k].efficiency > 0, TESS_E_INVALID,
                   "%s: %s.efficiency is above 0", what, link_rows[k].name);
    return TESS_OK;
}

tess_status tess_machine_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_machine *machine)
{
    machine_reader reader = {.machine = machine, .what = what};
    *machine = (tess_machine){.times = NULL};
    TESS_TRY(tess_options_defaults(tables, N_TABLES, machine));
    TESS_TRY(tess_yaml_parse(mem, text, size, what, set, &reader));
    return check(machine, what);
}

#define MACHINES(ROW)    \
    ROW(h100_sxm)        \
    ROW(h100_hbm2e_96gb) \
    ROW(h200_sxm)        \
    ROW(h800_sxm)        \
    ROW(b200)            \
    ROW(gb200)           \
    ROW(gb300)           \
    ROW(mi300x)          \
    ROW(a100_80gb)       \
    ROW(rtx4090)         \
    ROW(xeon_amx)        \
    ROW(epyc)
#define DATA(stem_)                                         \
    extern const unsigned char tess_data_machine_##stem_[]; \
    extern const size_t tess_data_machine_##stem_##_size;
MACHINES(DATA)

typedef struct machine_file {
    char name[32];
    const unsigned char *text;
    const size_t *size;
} machine_file;

static const machine_file files[] = {
#define FILE_ROW(stem_) {#stem_, tess_data_machine_##stem_, &tess_data_machine_##stem_##_size},
    MACHINES(FILE_ROW)};
enum { N_FILES = sizeof(files) / sizeof(files[0]) };

const char *tess_machine_name(int i)
{
    return i >= 0 && i < N_FILES ? files[i].name : NULL;
}

/* Whether a name is that of a file; '-' and '_' are equal. */
static bool is_name(const char *name, const char *of_file)
{
    while (*name != '\0' && (*name == *of_file || (*name == '-' && *of_file == '_'))) {
        name++;
        of_file++;
    }
    return *name == *of_file;
}

tess_status tess_machine_load(tess_mem *mem, const char *name, tess_machine *machine)
{
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    size_t size;
    const char *names[N_FILES];
    char hint[TESS_HINT_BYTES], all[TESS_HINT_BYTES];
    size_t at = 0;
    for (int i = 0; i < N_FILES; i++) {
        if (is_name(name, files[i].name))
            return tess_machine_parse(mem, (const char *)files[i].text, *files[i].size, files[i].name, machine);
        names[i] = files[i].name;
        at = tess_text_add(all, sizeof(all), at, "%s%s", i > 0 ? ", " : ": the machines are ", files[i].name);
    }
    if (tess_os_is_file(name)) {
        TESS_TRY(tess_os_read(mem, name, MOST_FILE, &text, &size));
        return tess_machine_parse(mem, text, size, name, machine);
    }
    return TESS_FAIL(TESS_E_NOT_FOUND, "--machine %s: no such machine or file%s", name,
                     tess_options_hint("", name, names, N_FILES, all, hint));
}

double tess_machine_product_tflops(const tess_machine *m, bool float32)
{
    const double narrow = m->fp8_products ? m->compute.fp8_tflops : m->compute.bf16_tflops;
    return (float32 || narrow <= 0) && m->compute.fp32_tflops > 0 ? m->compute.fp32_tflops : narrow;
}

/* ---- This machine ---- */
static tess_status measure_peaks(tess_mem *mem, tess_machine_compute *compute)
{
    tess_stream *stream;
    TESS_TRY(tess_stream_create(mem, tess_os_cores(), NULL, &stream));
    compute->bf16_tflops = tess_peak_flops(stream, TESS_BF16) * 1e-12;
    compute->fp32_tflops = tess_peak_flops(stream, TESS_F32) * 1e-12;
    tess_stream_destroy(&stream);
    return TESS_OK;
}

tess_status tess_machine_here(tess_mem *mem, const tess_kernel_times *times, tess_machine *m)
{
    /* Bandwidths are rough values of a server's core, for calls that nobody measured. */
    static const double gb_per_s_a_core = 12, shared_gb_per_s = 6;
    const int cores = tess_os_cores();
    *m = (tess_machine){.machine = {.name = "here", .kind = TESS_MACHINE_CPU, .devices = cores}, .times = times};
    TESS_TRY(tess_options_defaults(tables, N_TABLES, m));
    snprintf(m->machine.name, sizeof(m->machine.name), "here");
    m->machine.kind = TESS_MACHINE_CPU;
    m->machine.devices = cores;
    (void)tess_machine_fingerprint(m->machine.title, sizeof(m->machine.title));
    m->compute.efficiency = .6;
    m->compute.attention_efficiency = .3;
    m->compute.launch_us = 2;
    if (times != NULL && times->flops_bf16 > 0) {
        m->compute.bf16_tflops = times->flops_bf16 * 1e-12;
        m->compute.fp32_tflops = times->flops_f32 * 1e-12;
    } else {
        TESS_TRY(measure_peaks(mem, &m->compute));
    }
    m->compute.vector_tflops = m->compute.fp32_tflops;
    m->memory.gb = (double)tess_os_memory_bytes() * 1e-9;
    m->memory.gb_per_s = gb_per_s_a_core * cores;
    m->links[TESS_LINK_SHARED_MEMORY].gb_per_s = shared_gb_per_s;
    m->links[TESS_LINK_SHARED_MEMORY].latency_us = 5;
    m->links[TESS_LINK_ETHERNET].gb_per_s = 1.25;
    m->links[TESS_LINK_ETHERNET].latency_us = 40;
    return TESS_OK;
}
