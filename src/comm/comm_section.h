/* Declares the options of collectives. */
#ifndef TESS_COMM_COMM_SECTION_H
#define TESS_COMM_COMM_SECTION_H

#include "base/core/options.h"

typedef enum tess_reduction_choice { TESS_REDUCTION_TREE, TESS_REDUCTION_NATIVE } tess_reduction_choice;

/* clang-format off */
#define TESS_COMM_OPTIONS(OPTION)                                                                                      \
    OPTION(FLOAT, comm, timeout_s, CALLS, "600", 0.1, 1e6, "deadline of a collective, in seconds")                     \
    OPTION(FLOAT, comm, soft_timeout_s, CALLS, "0.75", 0, 1e6,                                                         \
           "seconds until a rank that keeps others waiting is named; longer if such waits are usual; 0: never")        \
    /* action: report, abort or recover */                                                                             \
    OPTION(CHOICE, comm, on_timeout, CALLS, "abort", "report|abort|recover",                                           \
           "reaction at comm.timeout_s; report: name the late rank and wait on; abort: end the job; recover: end "     \
           "it for a restart")                                                                                         \
    /* values of tess_backend */                                                                                       \
    OPTION(CHOICE, comm, backend, CALLS, "auto", "auto|shm|mpi",                                                       \
           "auto: shared memory on a host and MPI between hosts; mpi: MPI between any two ranks")                      \
    /* values of tess_reduction_choice */                                                                              \
    OPTION(CHOICE, comm, reduction, BITS, "tree", "tree|native",                                                       \
           "native: MPI computes sums between hosts, so results depend on the number of ranks")                        \
    OPTION(BOOL, comm, tls, CALLS, "false",                                                                            \
           "encrypt connections between hosts without an MPI (TLS 1.3, a key from the job's secret)")                  \
    OPTION(PATH, comm, tuning, CALLS, "", "file that `tessera bench comm --tune` wrote; empty: built-in choices")
/* clang-format on */

typedef struct tess_comm_section {
    TESS_COMM_OPTIONS(TESS_OPTION_FIELD)
} tess_comm_section;

extern const tess_option_section tess_section_comm;

#endif
