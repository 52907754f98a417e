/* The variables of launchers, and the starter that they reveal. */
#include <stdlib.h>

#include "job/environment.h"
#include "support/test.h"

enum { MOST_VARIABLES = 10 };

typedef struct expected {
    tess_starter starter;
    int rank, world, local_rank, local_world;
    const char *reported_by;
} expected;

typedef struct example {
    const char *variables[MOST_VARIABLES]; /* "NAME=value"; the rest of the environment is empty */
    expected place;
    const char *error; /* NULL: none */
} example;

#define TESSERA(rank, world) "TESSERA_RANK=" #rank, "TESSERA_WORLD=" #world, "TESSERA_SHM_FD=5"
#define OPEN_MPI(rank, world) "OMPI_COMM_WORLD_RANK=" #rank, "OMPI_COMM_WORLD_SIZE=" #world
#define HYDRA(rank, world, local_rank, local_world) \
    "PMI_RANK=" #rank, "PMI_SIZE=" #world, "PMI_FD=6", "MPI_LOCALRANKID=" #local_rank, "MPI_LOCALNRANKS=" #local_world
#define SRUN(step, rank, world, local_rank) \
    "SLURM_STEP_ID=" #step, "SLURM_PROCID=" #rank, "SLURM_NTASKS=" #world, "SLURM_LOCALID=" #local_rank
#define TORCHRUN(rank, world) "RANK=" #rank, "WORLD_SIZE=" #world

static const example examples[] = {
    {{NULL}, {TESS_STARTER_NONE, 0, 1, -1, -1, ""}, NULL},
    {{TESSERA(2, 4)}, {TESS_STARTER_TESSERA, 2, 4, 2, 4, "TESSERA_WORLD=4"}, NULL},
    {{OPEN_MPI(5, 8), "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_RANK=5"},
     {TESS_STARTER_OPEN_MPI, 5, 8, 1, 2, "OMPI_COMM_WORLD_SIZE=8"},
     NULL},
    {{OPEN_MPI(5, 8)}, {TESS_STARTER_OPEN_MPI, 5, 8, -1, -1, "OMPI_COMM_WORLD_SIZE=8"}, NULL},
    {{HYDRA(3, 4, 1, 2)}, {TESS_STARTER_MPICH, 3, 4, 1, 2, "PMI_SIZE=4"}, NULL},
    {{SRUN(0, 3, 4, 1)}, {TESS_STARTER_SLURM, 3, 4, 1, -1, "SLURM_NTASKS=4"}, NULL},
    {{"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"},
     {TESS_STARTER_TORCHRUN, 3, 4, 1, 2, "WORLD_SIZE=4"},
     NULL},
    {{TORCHRUN(3, 4)}, {TESS_STARTER_TORCHRUN, 3, 4, -1, -1, "WORLD_SIZE=4"}, NULL},

    /* The nearest starter counts. */
    {{TESSERA(1, 2), OPEN_MPI(0, 1)}, {TESS_STARTER_TESSERA, 1, 2, 1, 2, "TESSERA_WORLD=2"}, NULL},
    {{TESSERA(1, 2), TORCHRUN(0, 1)}, {TESS_STARTER_TESSERA, 1, 2, 1, 2, "TESSERA_WORLD=2"}, NULL},
    {{OPEN_MPI(1, 4), SRUN(0, 0, 2, 0)}, {TESS_STARTER_OPEN_MPI, 1, 4, -1, -1, "OMPI_COMM_WORLD_SIZE=4"}, NULL},
    {{HYDRA(1, 4, 1, 2), SRUN(0, 0, 2, 0)}, {TESS_STARTER_MPICH, 1, 4, 1, 2, "PMI_SIZE=4"}, NULL},
    {{SRUN(0, 1, 4, 1), "PMI_RANK=1", "PMI_SIZE=4"}, {TESS_STARTER_SLURM, 1, 4, 1, -1, "SLURM_NTASKS=4"}, NULL},
    {{SRUN(0, 1, 4, 1), "PMIX_RANK=1"}, {TESS_STARTER_SLURM, 1, 4, 1, -1, "SLURM_NTASKS=4"}, NULL},
    {{SRUN(0, 1, 2, 0), TORCHRUN(5, 8), "TORCHELASTIC_RUN_ID=none"},
     {TESS_STARTER_TORCHRUN, 5, 8, -1, -1, "WORLD_SIZE=8"},
     NULL},

    /* The script of sbatch and the shell of salloc are no ranks. */
    {{"SLURM_JOB_ID=12", "SLURM_PROCID=0", "SLURM_NTASKS=8"}, {TESS_STARTER_NONE, 0, 1, -1, -1, ""}, NULL},
    {{SRUN(4294967291, 0, 8, 0)}, {TESS_STARTER_NONE, 0, 1, -1, -1, ""}, NULL},
    {{SRUN(4294967290, 0, 8, 0)}, {TESS_STARTER_NONE, 0, 1, -1, -1, ""}, NULL},

    /* RANK alone is anybody's variable. */
    {{"RANK=3"}, {TESS_STARTER_NONE, 0, 1, -1, -1, ""}, NULL},
    {{"LOCAL_RANK=1", "MASTER_PORT=29500"}, {TESS_STARTER_NONE, 0, 1, -1, -1, ""}, NULL},
    {{OPEN_MPI(2, 4), "RANK=0"}, {TESS_STARTER_OPEN_MPI, 2, 4, -1, -1, "OMPI_COMM_WORLD_SIZE=4"}, NULL},
    {{OPEN_MPI(2, 4), TORCHRUN(2, 4)}, {TESS_STARTER_OPEN_MPI, 2, 4, -1, -1, "OMPI_COMM_WORLD_SIZE=4"}, NULL},

    {.variables = {OPEN_MPI(2, 4), TORCHRUN(0, 1)},
     .error = "RANK=0 WORLD_SIZE=1 (torchrun) contradict OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4: unset RANK and "
              "WORLD_SIZE"},
    {.variables = {SRUN(0, 2, 4, 0), TORCHRUN(1, 4)},
     .error = "RANK=1 WORLD_SIZE=4 (torchrun) contradict SLURM_PROCID=2 SLURM_NTASKS=4"},
    {.variables = {OPEN_MPI(2, 4), TORCHRUN(2, many)}, .error = "WORLD_SIZE is 'many', expected a number from 1 to "},
    {.variables = {"WORLD_SIZE=4"}, .error = "WORLD_SIZE is set, but RANK is not: torchrun sets both"},
    {.variables = {"TESSERA_RANK=0"}, .error = "TESSERA_RANK is set, but TESSERA_WORLD is not"},
    {.variables = {"OMPI_COMM_WORLD_SIZE=4"}, .error = "OMPI_COMM_WORLD_SIZE is set, but OMPI_COMM_WORLD_RANK is not"},
    {.variables = {"PMI_RANK=4"}, .error = "PMI_RANK is set, but PMI_SIZE is not: MPICH sets both"},
    {.variables = {"SLURM_STEP_ID=0", "SLURM_PROCID=1"}, .error = "SLURM_PROCID is set, but SLURM_NTASKS is not"},
    {.variables = {OPEN_MPI(4, 4)}, .error = "OMPI_COMM_WORLD_RANK is '4', expected a number from 0 to 3"},
    {.variables = {OPEN_MPI(-1, 4)}, .error = "OMPI_COMM_WORLD_RANK is '-1', expected a number from 0 to 3"},
    {.variables = {OPEN_MPI(0, 0)}, .error = "OMPI_COMM_WORLD_SIZE is '0', expected a number from 1 to "},
    {.variables = {OPEN_MPI(0, 99999999999)}, .error = "OMPI_COMM_WORLD_SIZE is '99999999999', expected"},
    {.variables = {OPEN_MPI(, 4)}, .error = "OMPI_COMM_WORLD_RANK is '', expected"},
    {.variables = {OPEN_MPI(1x, 4)}, .error = "OMPI_COMM_WORLD_RANK is '1x', expected"},
    {.variables = {HYDRA(0, 4, 2, 2)}, .error = "MPI_LOCALRANKID is '2', expected a number from 0 to 1"},
    {.variables = {HYDRA(0, 4, 2, 5)}, .error = "MPI_LOCALNRANKS is '5', expected a number from 1 to 4"},
    {.variables = {TORCHRUN(0, 4), "MASTER_PORT=70000"},
     .error = "MASTER_PORT is '70000', expected a number from 1 to"},
};

static void set_environment(const example *e)
{
    clearenv();
    for (int i = 0; i < MOST_VARIABLES && e->variables[i] != NULL; i++)
        EXPECT(putenv((char *)e->variables[i]) == 0);
}

static void every_starter_is_recognised_and_contradictions_are_named(void)
{
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        const example *e = &examples[i];
        tess_environment environment;
        set_environment(e);
        if (e->error != NULL) {
            EXPECT_FAILS(tess_environment_read(&environment), TESS_E_INVALID, e->error);
            continue;
        }
        EXPECT_OK(tess_environment_read(&environment));
        EXPECT_TEXT(tess_starter_name(environment.starter), tess_starter_name(e->place.starter));
        EXPECT_TEXT(environment.reported_by, e->place.reported_by);
        EXPECT_INT(environment.rank, e->place.rank);
        EXPECT_INT(environment.world, e->place.world);
        EXPECT_INT(environment.local_rank, e->place.local_rank);
        EXPECT_INT(environment.local_world, e->place.local_world);
    }
}

static void torchruns_words_are_kept_beside_another_starter(void)
{
    tess_environment environment;
    set_environment(&(example){.variables = {TESSERA(1, 2), TORCHRUN(0, 1)}});
    EXPECT_OK(tess_environment_read(&environment));
    EXPECT(environment.has_torchrun);
    EXPECT_INT(environment.torchrun_rank, 0);
    EXPECT_INT(environment.torchrun_world, 1);
    set_environment(&(example){.variables = {TESSERA(1, 2), "RANK=0"}});
    EXPECT_OK(tess_environment_read(&environment));
    EXPECT(!environment.has_torchrun);
}

static void torchruns_master_is_read(void)
{
    tess_environment environment;
    set_environment(&(example){.variables = {TORCHRUN(1, 2), "MASTER_ADDR=node-1", "MASTER_PORT=29500"}});
    EXPECT_OK(tess_environment_read(&environment));
    EXPECT_TEXT(environment.master, "node-1");
    EXPECT_INT(environment.master_port, 29500);
    char longer[200];
    memset(longer, 'a', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    setenv("MASTER_ADDR", longer, 1);
    EXPECT_FAILS(tess_environment_read(&environment), TESS_E_INVALID, "MASTER_ADDR is longer than 127 characters");
}

static void torchrun_over_hosts_uses_the_port_after_its_own(void)
{
    tess_environment environment;
    set_environment(&(example){.variables = {TORCHRUN(3, 4), "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
                                             "GROUP_WORLD_SIZE=2", "MASTER_ADDR=h1", "MASTER_PORT=29500"}});
    EXPECT_OK(tess_environment_read(&environment));
    EXPECT(environment.uses_wire);
    EXPECT_INT(environment.node, 1);
    EXPECT_INT(environment.n_nodes, 2);
    EXPECT_INT(environment.master_port, 29500);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    EXPECT_OK(tess_environment_read(&environment));
    EXPECT_INT(environment.master_port, 29501);
    setenv("LOCAL_WORLD_SIZE", "4", 1); /* all on one host: no port is needed */
    EXPECT_OK(tess_environment_read(&environment));
    EXPECT(!environment.uses_wire);
    EXPECT_INT(environment.master_port, 29500);
}

static const test_case cases[] = {
    CASE(every_starter_is_recognised_and_contradictions_are_named),
    CASE(torchruns_words_are_kept_beside_another_starter),
    CASE(torchruns_master_is_read),
    CASE(torchrun_over_hosts_uses_the_port_after_its_own),
};

TEST_MAIN(cases)
