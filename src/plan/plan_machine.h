/* A machine: what a data sheet says of a device, its host and its links. The machines of machines/ are part of the
 * binary; users name files of their own, which the same reader reads. Times that were measured on a machine are in a
 * table of their own (kernel_times.h). */
#ifndef TESS_PLAN_PLAN_MACHINE_H
#define TESS_PLAN_PLAN_MACHINE_H

#include "base/core/options.h"

/* Kinds of links: ROW(ID, NAME, IN_HOST, HELP), the fastest inside a host first, then the fastest between hosts.
 * IN_HOST: the link connects devices of one host, or of a rack that is like one host. */
#define TESS_LINK_ROWS(ROW)                                                              \
    ROW(NVLINK, nvlink, true, "NVLink, NVSwitch or Infinity Fabric between devices")     \
    ROW(SHARED_MEMORY, shared_memory, true, "the memory of one host, between its ranks") \
    ROW(PCIE, pcie, true, "PCIe between devices of one host")                            \
    ROW(INFINIBAND, infiniband, false, "InfiniBand between hosts")                       \
    ROW(ROCE, roce, false, "RDMA over Ethernet between hosts")                           \
    ROW(ETHERNET, ethernet, false, "TCP over Ethernet between hosts")
#define TESS_LINK_ENUM(id, name, in_host, help) TESS_LINK_##id,
typedef enum tess_link_kind { TESS_LINK_ROWS(TESS_LINK_ENUM) TESS_LINKS } tess_link_kind;
#undef TESS_LINK_ENUM
const char *tess_link_name(tess_link_kind kind);

typedef struct tess_machine_link {
    double gb_per_s;      /* 10^9 bytes per second and direction of one device; 0: the machine lacks the link */
    double gb_per_s_peer; /* the same between two devices, where each pair has a link of its own; 0: gb_per_s */
    double latency_us;    /* time of one message without its bytes */
    double efficiency;    /* share of gb_per_s that large messages reach */
    int64_t reach;        /* consecutive ranks that it connects; 0: those of a host, or of the whole job */
    char source[TESS_TEXT_SIZE];
} tess_machine_link;

typedef struct tess_machine_about {
    char name[TESS_TEXT_SIZE], title[TESS_TEXT_SIZE];
    int kind;        /* tess_machine_kind */
    int64_t devices; /* number of GPUs of a host, or of cores */
} tess_machine_about;

typedef struct tess_machine_compute {
    /* peak of a GPU, or of a host, for dense products, in 10^12 operations per second; 0: it lacks the dtype */
    double bf16_tflops, fp32_tflops;
    double fp8_tflops;    /* the same for operands of 8 bits, which other programs use; ours has no such products */
    double vector_tflops; /* the same for elementwise kernels in float32 */
    double efficiency, attention_efficiency; /* share of the peak that large products, and attention, reach */
    double launch_us;                        /* time from one kernel to the next */
    int64_t processors;                      /* multiprocessors of a GPU; 0: not known, as the figures below */
    int64_t shared_kb;                       /* KiB of shared memory of each */
    double clock_ghz;                        /* cycles of each that a long step sustains, 10^9 a second */
    double mma_tflops;                       /* peak of tensor cores by the instructions of one warp (mma.sync) */
    char source[TESS_TEXT_SIZE];
} tess_machine_compute;

typedef struct tess_machine_memory {
    double gb, gb_per_s;   /* size and bandwidth of a GPU's or a host's memory: 10^9 bytes (per second) */
    double efficiency;     /* share of gb_per_s that kernels reach */
    double cache_gb_per_s; /* bandwidth of the cache that all multiprocessors share; 0: not known, as the next */
    double cache_mb;       /* its size, 10^6 bytes */
    double latency_ns, cache_latency_ns; /* time of a load from the memory, and from the cache */
    double host_gb;                      /* memory of the host, for what is there; 0: not known */
    char source[TESS_TEXT_SIZE];
} tess_machine_memory;

typedef struct tess_machine_cost {
    double watts;    /* power of a GPU with its share of the host, or of a host; 0: not known */
    double per_hour; /* price of a GPU, or of a host; 0: not known */
    char currency[TESS_TEXT_SIZE];
    char source[TESS_TEXT_SIZE];
} tess_machine_cost;

typedef struct tess_machine {
    tess_machine_about machine;
    tess_machine_compute compute;
    tess_machine_memory memory;
    tess_machine_cost cost;
    tess_machine_link links[TESS_LINKS];
    const struct tess_kernel_times
        *times;        /* measured times, which replace those of the data sheet; borrowed; or NULL */
    bool fp8_products; /* products of bfloat16 reach the peak of FP8; attention does not */
} tess_machine;

/* GPU: links work while the device computes. CPU: ranks share the cores of a host, and move bytes themselves. */
typedef enum tess_machine_kind { TESS_MACHINE_GPU, TESS_MACHINE_CPU } tess_machine_kind;

/* Reads a machine from text (size), which messages call `what`.
 * TESS_E_FORMAT, TESS_E_INVALID: the message names the line, the key and the range */
tess_status tess_machine_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_machine *machine);
/* Finds a machine by its name, or reads the file `name`.
 * TESS_E_NOT_FOUND: neither; the message names the nearest machine, or all */
tess_status tess_machine_load(tess_mem *mem, const char *name, tess_machine *machine);
/* Returns the name of machine `i` of the binary, or NULL after the last. */
const char *tess_machine_name(int i);
/* Returns the peak of products, in 10^12 operations per second: of float32 operands, or of those of 16 bits, which
 * fp8_products replaces by 8. A machine that lacks one of the two takes the other. */
double tess_machine_product_tflops(const tess_machine *machine, bool float32);
/* Describes the machine that this process runs on: its cores and memory, and the peaks and the bandwidth of `times`, or
 * if that is NULL, peaks that are measured for about 20 ms. */
tess_status tess_machine_here(tess_mem *mem, const struct tess_kernel_times *times, tess_machine *machine);

/* Finds the link between the ranks of a team: `size` ranks from `first` on, `stride` apart, on hosts of `ranks_a_host`.
 * It is the fastest one that connects all of them. TESS_E_INVALID: the machine has none; the message names the kinds
 * that would do. */
tess_status tess_machine_link_of(const tess_machine *machine, int first, int stride, int size, int ranks_a_host,
                                 tess_link_kind *kind);
/* Returns the ranks of a host for this many ranks: as many as it has GPUs; a host of CPUs takes all. */
int tess_machine_ranks_a_host(const tess_machine *machine, int n_ranks);

#endif
