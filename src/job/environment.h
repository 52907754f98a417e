/* Finds out which launcher started this process, from the variables that launchers set. */
#ifndef TESS_JOB_ENVIRONMENT_H
#define TESS_JOB_ENVIRONMENT_H

#include <stdbool.h>

#include "base/core/variables.h"
#include "tessera/status.h"

typedef enum tess_starter {
    TESS_STARTER_NONE,     /* none: the process was started alone */
    TESS_STARTER_TESSERA,  /* `tessera run` or `tessera train -n`: TESSERA_RANK, _WORLD, _SHM_FD */
    TESS_STARTER_OPEN_MPI, /* OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE */
    TESS_STARTER_MPICH,    /* PMI_RANK, PMI_SIZE (hydra), MPI_LOCALRANKID, MPI_LOCALNRANKS */
    TESS_STARTER_SLURM,    /* srun: SLURM_STEP_ID, SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, with or without PMI */
    TESS_STARTER_TORCHRUN  /* RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT */
} tess_starter;

typedef struct tess_environment {
    tess_starter starter;
    int rank, world;             /* numbers that the starter gives; 0 of 1 if the process was started alone */
    int local_rank, local_world; /* numbers on this host; -1: not known */
    bool uses_wire;              /* ranks may be on several hosts, and meet over MPI or TCP (comm/wire) */
    char reported_by[64];        /* "OMPI_COMM_WORLD_SIZE=8", for messages */
    char master[128];            /* torchrun: MASTER_ADDR */
    int master_port;
    int node, n_nodes; /* torchrun: GROUP_RANK and GROUP_WORLD_SIZE; -1: not known */
    bool has_torchrun; /* RANK and WORLD_SIZE are also set, in addition to another starter's variables */
    int torchrun_rank, torchrun_world;
} tess_environment;

/* Reads the variables. TESS_E_INVALID: a variable is not a number or out of range, or two of them contradict each
 * other. The message names both with their values, and says which one to unset. */
tess_status tess_environment_read(tess_environment *environment);

/* Returns "Open MPI", "Slurm" and the like. */
const char *tess_starter_name(tess_starter starter);

/* Reads a variable that is set. TESS_E_INVALID: not a number from `least` to `most`. */
tess_status tess_environment_number(tess_variable variable, int least, int most, int *number);

/* Whether a launcher started this process. */
bool tess_launch_is_rank(void);

#endif
