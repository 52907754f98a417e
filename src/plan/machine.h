/* A machine: what a data sheet says of a device, its host and its links. The machines of machines/ are part of the
 * binary; users name files of their own, which the same reader reads. Times that were measured on a machine are in a
 * table of their own (kernel_times.h). */
#ifndef TESS_PLAN_MACHINE_H
#define TESS_PLAN_MACHINE_H

#include "base/core/options.h"

/* Kinds of links, by what they connect. */
#define TESS_LINK_ROWS(ROW)                    \
    ROW(SHARED_MEMORY, shared_memory, "the memory of one host") \
    ROW(NVLINK, nvlink, "NVLink, NVSwitch and Infinity Fabric between devices") \
    ROW(PCIE, pcie, "PCIe between devices of one host") \
    ROW(INFINIBAND, infiniband, "InfiniBand between hosts") \
    ROW(ROCE, roce, "RDMA over Ethernet between hosts") \
    ROW(ETHERNET, ethernet, "TCP over Ethernet between hosts")
#define TESS_LINK_ENUM(id, name, help) TESS_LINK_##id,
typedef enum tess_link_kind { TESS_LINK_ROWS(TESS_LINK_ENUM) TESS_LINKS } tess_link_kind;
#undef TESS_LINK_ENUM
const char *tess_link_name(tess_link_kind kind);

typedef struct tess_machine_link {
    double gb_per_s;   /* 10^9 bytes per second and direction of one device; 0: the machine lacks the link */
    double latency_us; /* of one message */
    int64_t reach;     /* consecutive ranks that it connects; 0: all ranks of a host, or of the job between hosts */
    double efficiency; /* share of gb_per_s that large messages reach */
    char source[TESS_TEXT_SIZE];
} tess_machine_link;

typedef struct tess_machine {
    struct {
        char name[TESS_TEXT_SIZE], title[TESS_TEXT_SIZE];
        int64_t devices; /* of a host */
        int kind;        /* tess_machine_kind */
    } machine;
    struct {
        double bf16_tflops, fp16_tflops, fp8_tflops, fp32_tflops; /* dense; 0: the device lacks the dtype */
        double efficiency;        /* share of the peak that large products reach */
        double efficiency_attention;
        double launch_us;         /* time from one kernel to the next */
        double vector_tflops;     /* of elementwise kernels, in float32 */
        char source[TESS_TEXT_SIZE];
    } compute;
    struct {
        double gb, gb_per_s, efficiency; /* 10^9 bytes; share of gb_per_s that kernels reach */
        double host_gb;                  /* memory of a host, for what is there; 0: not known */
        char source[TESS_TEXT_SIZE];
    } memory;
    struct {
        double watts, per_hour; /* of one device, and its price; 0: not known */
        char currency[TESS_TEXT_SIZE];
        char source[TESS_TEXT_SIZE];
    } cost;
    tess_machine_link links[TESS_LINKS];
    const struct tess_kernel_times *times; /* measured times, or NULL; borrowed */
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
/* Describes the machine that this process runs on. */
void tess_machine_here(tess_machine *machine);

/* Finds the slowest link that connects these ranks, which are `stride` apart, `size` in number, on hosts of
 * `ranks_a_host`. TESS_E_INVALID: the machine lacks it; the message names the kinds that would do. */
tess_status tess_machine_link_of(const tess_machine *machine, int first, int stride, int size, int ranks_a_host,
                                 tess_link_kind *kind);

#endif
