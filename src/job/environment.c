#include "job/environment.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/warden_call.h"

/* True in a step of srun. The script of sbatch and the shell of salloc have reserved numbers, from 0xfffffff0 on. */
static bool in_slurm_step(void)
{
    const char *step = getenv("SLURM_STEP_ID");
    return step != NULL && strtoull(step, NULL, 10) < 0xfffffff0ull;
}

/* srun offers PMI to an MPICH too, but only hydra tells a process its rank on the host. */
static bool by_hydra(void)
{
    return getenv("PMI_RANK") != NULL && (getenv("MPI_LOCALRANKID") != NULL || !in_slurm_step());
}

static bool by_tessera(void)
{
    return getenv("TESSERA_RANK") != NULL || getenv("TESSERA_WORLD") != NULL;
}

static bool by_open_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_RANK") != NULL || getenv("OMPI_COMM_WORLD_SIZE") != NULL;
}

/* RANK alone may be anybody's variable. */
static bool by_torchrun(void)
{
    return getenv("WORLD_SIZE") != NULL;
}

/* When srun has started a torchrun on every host, torchrun started this process. */
static bool by_srun(void)
{
    return in_slurm_step() && getenv("SLURM_PROCID") != NULL && getenv("TORCHELASTIC_RUN_ID") == NULL;
}

typedef struct launcher_variables {
    tess_starter starter;
    bool (*started_us)(void);
    const char *rank, *world;
    const char *local_rank, *local_world; /* NULL: the starter sets none */
} launcher_variables;

/* Nearest to the process first: Tessera's own launcher may run below any of the others, and mpirun starts its ranks
 * through srun where there is one. */
static const launcher_variables launchers[] = {
    {TESS_STARTER_TESSERA, by_tessera, "TESSERA_RANK", "TESSERA_WORLD", "TESSERA_RANK", "TESSERA_WORLD"},
    {TESS_STARTER_OPEN_MPI, by_open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {TESS_STARTER_MPICH, by_hydra, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {TESS_STARTER_SLURM, by_srun, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
    {TESS_STARTER_TORCHRUN, by_torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
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

tess_status tess_environment_number(const char *name, int least, int most, int *number)
{
    const char *text = getenv(name);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    TESS_CHECK(errno == 0 && end != text && *end == '\0' && value >= least && value <= most, TESS_E_INVALID,
               "%s is '%s', expected a number from %d to %d", name, text, least, most);
    *number = (int)value;
    return TESS_OK;
}

static tess_status read_place(const launcher_variables *from, int *rank, int *world)
{
    bool has_rank = getenv(from->rank) != NULL, has_world = getenv(from->world) != NULL;
    TESS_CHECK(has_rank && has_world, TESS_E_INVALID, "%s is set, but %s is not: %s sets both, unset the first",
               has_rank ? from->rank : from->world, has_rank ? from->world : from->rank,
               tess_starter_name(from->starter));
    TESS_TRY(tess_environment_number(from->world, 1, INT_MAX, world));
    return tess_environment_number(from->rank, 0, *world - 1, rank);
}

static tess_status read_local_place(const launcher_variables *from, tess_environment *e)
{
    e->local_rank = e->local_world = -1;
    if (from->local_world != NULL && getenv(from->local_world) != NULL)
        TESS_TRY(tess_environment_number(from->local_world, 1, e->world, &e->local_world));
    if (getenv(from->local_rank) != NULL)
        TESS_TRY(tess_environment_number(from->local_rank, 0, (e->local_world > 0 ? e->local_world : e->world) - 1,
                                         &e->local_rank));
    return TESS_OK;
}

static tess_status read_master(tess_environment *e)
{
    const char *master = getenv("MASTER_ADDR");
    if (master != NULL) {
        TESS_CHECK(strlen(master) < sizeof(e->master), TESS_E_INVALID, "MASTER_ADDR is longer than %zu characters",
                   sizeof(e->master) - 1);
        strcpy(e->master, master);
    }
    return getenv("MASTER_PORT") != NULL ? tess_environment_number("MASTER_PORT", 1, UINT16_MAX, &e->master_port)
                                         : TESS_OK;
}

/* Variables of torchrun must agree with those of another starter. Ranks of our own launcher are exempt: it was asked to
 * start a job of its own, whatever started the launcher. */
static tess_status compare_with_torchrun(const launcher_variables *from, tess_environment *e)
{
    e->has_torchrun = getenv(torchrun->rank) != NULL && getenv(torchrun->world) != NULL;
    if (!e->has_torchrun)
        return TESS_OK;
    TESS_TRY(read_place(torchrun, &e->torchrun_rank, &e->torchrun_world));
    bool same = e->torchrun_rank == e->rank && e->torchrun_world == e->world;
    TESS_CHECK(same || from->starter == TESS_STARTER_TESSERA, TESS_E_INVALID,
               "RANK=%d WORLD_SIZE=%d (torchrun) contradict %s=%d %s=%d: unset RANK and WORLD_SIZE", e->torchrun_rank,
               e->torchrun_world, from->rank, e->rank, from->world, e->world);
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
    snprintf(e->reported_by, sizeof(e->reported_by), "%s=%d", from->world, e->world);
    return from == torchrun ? read_master(e) : compare_with_torchrun(from, e);
}

bool tess_launch_is_rank(void)
{
    int fd;
    return (getenv("TESSERA_RANK") != NULL && getenv("TESSERA_SHM_FD") != NULL) || tess_warden_find(&fd);
}
