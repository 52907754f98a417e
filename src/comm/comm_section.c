#include "comm/comm_section.h"

#include "base/core/option_rows.h"

static const tess_option comm[] = {
    FLOAT(comm, timeout_s, CALLS, "600", 0.1, 1e6, "deadline of a collective, in seconds"),
    FLOAT(comm, soft_timeout_s, CALLS, "0.75", 0, 1e6,
          "seconds until a rank that keeps others waiting is named; longer if such waits are usual; 0: never"),
    CHOICE(comm, on_timeout, CALLS, "abort", "report|abort|recover",
           "reaction at comm.timeout_s; report: name the late rank and wait on; abort: end the job; recover: end it "
           "for a restart"),
    CHOICE(comm, backend, CALLS, "auto", "auto|shm|mpi",
           "auto: shared memory on a host and MPI between hosts; mpi: MPI between any two ranks"),
    CHOICE(comm, reduction, BITS, "tree", "tree|native",
           "native: MPI computes sums between hosts, so results depend on the number of ranks"),
    PATH(comm, tuning, CALLS, "", "file that `tessera bench comm --tune` wrote; empty: built-in choices"),
};
const tess_option_section tess_section_comm = SECTION("comm", "collectives", comm);
