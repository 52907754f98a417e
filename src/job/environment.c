#include "job/environment.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "job/warden_call.h"

static bool is_set(tess_variable variable)
{
    return tess_variable_value(variable) != NULL;
}

/* Whether this is a step of srun. The script of sbatch and the shell of salloc have reserved step numbers, from
 * 0xfffffff0 on. */
static bool in_slurm_step(void)
{
    const char *step = tess_variable_value(TESS_VAR_SLURM_STEP_ID);
    return step != NULL && strtoull(step, NULL, 10) < 0xfffffff0ull;
}

/* Whether hydra started this process. srun also offers PMI to an MPICH, but only hydra tells a process its rank on
 * the host. */
static bool by_hydra(void)
{
    return is_set(TESS_VAR_PMI_RANK) && (is_set(TESS_VAR_MPI_LOCALRANKID) || !in_slurm_step());
}

static bool by_tessera(void)
{
    return is_set(TESS_VAR_RANK) || is_set(TESS_VAR_WORLD);
}

static bool by_open_mpi(void)
{
    return is_set(TESS_VAR_OMPI_RANK) || is_set(TESS_VAR_OMPI_SIZE);
}

/* Whether torchrun started this process. RANK alone may be a variable of another program. */
static bool by_torchrun(void)
{
    return is_set(TESS_VAR_TORCH_WORLD);
}

/* When srun has started a torchrun on every host, torchrun started this process. */
static bool by_srun(void)
{
    return in_slurm_step() && is_set(TESS_VAR_SLURM_PROCID) && !is_set(TESS_VAR_TORCH_RUN_ID);
}

typedef struct launcher_variables {
    tess_starter starter;
    bool (*started_us)(void);
    tess_variable rank, world;
    tess_variable local_rank, local_world; /* NONE: the starter sets no such variable */
} launcher_variables;

/* Nearest to the process first: Tessera's own launcher may run below any of the others, and mpirun starts its ranks
 * through srun where there is one. */
static const launcher_variables launchers[] = {
    {TESS_STARTER_TESSERA, by_tessera, TESS_VAR_RANK, TESS_VAR_WORLD, TESS_VAR_RANK, TESS_VAR_WORLD},
    {TESS_STARTER_OPEN_MPI, by_open_mpi, TESS_VAR_OMPI_RANK, TESS_VAR_OMPI_SIZE, TESS_VAR_OMPI_LOCAL_RANK,
     TESS_VAR_OMPI_LOCAL_SIZE},
    {TESS_STARTER_MPICH, by_hydra, TESS_VAR_PMI_RANK, TESS_VAR_PMI_SIZE, TESS_VAR_MPI_LOCALRANKID,
     TESS_VAR_MPI_LOCALNRANKS},
    {TESS_STARTER_SLURM, by_srun, TESS_VAR_SLURM_PROCID, TESS_VAR_SLURM_NTASKS, TESS_VAR_SLURM_LOCALID,
     TESS_VARIABLE_NONE},
    {TESS_STARTER_TORCHRUN, by_torchrun, TESS_VAR_TORCH_RANK, TESS_VAR_TORCH_WORLD, TESS_VAR_TORCH_LOCAL_RANK,
     TESS_VAR_TORCH_LOCAL_WORLD},
};

static const launcher_variables *const torchrun = &launchers[sizeof(launchers) / sizeof(launchers[0]) - 1];

const char *tess_starter_name(tess_starter starter)
{
    static const char *const names[] = {
        [TESS_STARTER_NONE] = "nobody", [TESS_STARTER_TESSERA] = "tessera", [TESS_STARTER_OPEN_MPI] = "Open MPI",
        [TESS_STARTER_MPICH] = "MPICH", [TESS_STARTER_SLURM] = "Slurm",     [TESS_STARTER_TORCHRUN] = "torchrun",
    };
    return names[starter];
}

tess_status tess_environment_number(tess_variable variable, int least, int most, int *number)
{
    const char *text = tess_variable_value(variable);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    TESS_CHECK(errno == 0 && end != text && *end == '\0' && value >= least && value <= most, TESS_E_INVALID,
               "%s is '%s', expected a number from %d to %d", tess_variable_name(variable), text, least, most);
    *number = (int)value;
    return TESS_OK;
}

static tess_status read_place(const launcher_variables *from, int *rank, int *world)
{
    bool has_rank = is_set(from->rank), has_world = is_set(from->world);
    TESS_CHECK(has_rank && has_world, TESS_E_INVALID, "%s is set, but %s is not: %s sets both, unset the first",
               tess_variable_name(has_rank ? from->rank : from->world),
               tess_variable_name(has_rank ? from->world : from->rank), tess_starter_name(from->starter));
    TESS_TRY(tess_environment_number(from->world, 1, INT_MAX, world));
    return tess_environment_number(from->rank, 0, *world - 1, rank);
}

static tess_status read_local_place(const launcher_variables *from, tess_environment *e)
{
    e->local_rank = e->local_world = -1;
    if (is_set(from->local_world))
        TESS_TRY(tess_environment_number(from->local_world, 1, e->world, &e->local_world));
    if (is_set(from->local_rank))
        TESS_TRY(tess_environment_number(from->local_rank, 0, (e->local_world > 0 ? e->local_world : e->world) - 1,
                                         &e->local_rank));
    return TESS_OK;
}

static tess_status read_master(tess_environment *e)
{
    const char *master = tess_variable_value(TESS_VAR_MASTER_ADDR);
    if (master != NULL) {
        TESS_CHECK(strlen(master) < sizeof(e->master), TESS_E_INVALID, "MASTER_ADDR is longer than %zu characters",
                   sizeof(e->master) - 1);
        strcpy(e->master, master);
    }
    e->node = e->n_nodes = -1;
    if (is_set(TESS_VAR_TORCH_NODE))
        TESS_TRY(tess_environment_number(TESS_VAR_TORCH_NODE, 0, INT_MAX, &e->node));
    if (is_set(TESS_VAR_TORCH_NODES))
        TESS_TRY(tess_environment_number(TESS_VAR_TORCH_NODES, 1, INT_MAX, &e->n_nodes));
    if (!is_set(TESS_VAR_MASTER_PORT))
        return TESS_OK;
    TESS_TRY(tess_environment_number(TESS_VAR_MASTER_PORT, 1, UINT16_MAX - 1, &e->master_port));
    /* torchrun itself listens on the port, for PyTorch */
    const char *store = tess_variable_value(TESS_VAR_TORCH_AGENT_STORE);
    e->master_port += e->uses_wire && store != NULL && strcmp(store, "True") == 0;
    return TESS_OK;
}

/* Compares torchrun's variables with those of another starter: they must agree. Ranks of our own launcher are
 * exempt, because it was asked to start a job of its own, whatever started the launcher. */
static tess_status compare_with_torchrun(const launcher_variables *from, tess_environment *e)
{
    e->has_torchrun = is_set(torchrun->rank) && is_set(torchrun->world);
    if (!e->has_torchrun)
        return TESS_OK;
    TESS_TRY(read_place(torchrun, &e->torchrun_rank, &e->torchrun_world));
    bool same = e->torchrun_rank == e->rank && e->torchrun_world == e->world;
    TESS_CHECK(same || from->starter == TESS_STARTER_TESSERA, TESS_E_INVALID,
               "RANK=%d WORLD_SIZE=%d (torchrun) contradict %s=%d %s=%d: unset RANK and WORLD_SIZE", e->torchrun_rank,
               e->torchrun_world, tess_variable_name(from->rank), e->rank, tess_variable_name(from->world), e->world);
    return TESS_OK;
}

tess_status tess_environment_read(tess_environment *e)
{
    const launcher_variables *from = launchers;
    *e = (tess_environment){.world = 1, .local_rank = -1, .local_world = -1};
    while (from <= torchrun && !from->started_us())
        from++;
    if (from > torchrun)
        return TESS_OK;
    e->starter = from->starter;
    TESS_TRY(read_place(from, &e->rank, &e->world));
    TESS_TRY(read_local_place(from, e));
    bool on_one_host = e->local_world <= 0 || e->local_world == e->world;
    e->uses_wire = from->starter != TESS_STARTER_TESSERA && (from != torchrun || !on_one_host);
    snprintf(e->reported_by, sizeof(e->reported_by), "%s=%d", tess_variable_name(from->world), e->world);
    return from == torchrun ? read_master(e) : compare_with_torchrun(from, e);
}

bool tess_launch_is_rank(void)
{
    int fd;
    return (is_set(TESS_VAR_RANK) && is_set(TESS_VAR_SHM_FD)) || tess_warden_find(&fd);
}
