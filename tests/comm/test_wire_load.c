/* Plug-ins of MPI: the one that fits is found, and others are refused by name. */
#include <stdlib.h>
#include <unistd.h>

#include "comm/wire/wire_load.h"
#include "support/test.h"

static const wire_table *table;

static void a_missing_plugin_names_the_packages(void)
{
    clearenv();
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_OPEN_MPI, &table), TESS_E_NOT_FOUND,
                 "this job was started by Open MPI (OMPI_COMM_WORLD_SIZE=4), but libtessera_mpi_openmpi.so is missing: "
                 "install the packages openmpi-bin and libopenmpi-dev and build Tessera again");
    clearenv();
    setenv("PMI_RANK", "1", 1);
    setenv("PMI_SIZE", "4", 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_MPICH, &table), TESS_E_NOT_FOUND,
                 "this job was started by MPICH (PMI_SIZE=4), but libtessera_mpi_mpich.so is missing: install the "
                 "packages mpich and libmpich-dev and build Tessera again");
    clearenv();
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_NONE, &table), TESS_E_NOT_FOUND,
                 "libtessera_mpi_openmpi.so is missing: install");
}

static void slurm_uses_the_mpi_that_it_speaks_to(void)
{
    clearenv();
    setenv("PMIX_RANK", "1", 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_SLURM, &table), TESS_E_NOT_FOUND, "libtessera_mpi_openmpi.so is missing");
    clearenv();
    setenv("PMI_RANK", "1", 1);
    setenv("PMI_SIZE", "2", 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_SLURM, &table), TESS_E_NOT_FOUND, "libtessera_mpi_mpich.so is missing");
    clearenv();
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_SLURM, &table), TESS_E_INVALID,
                 "srun has started this rank without the PMI that an MPI needs: srun --mpi=pmix");
}

static void the_users_choice_comes_first(void)
{
    setenv("TESSERA_MPI", "lam", 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_OPEN_MPI, &table), TESS_E_INVALID,
                 "TESSERA_MPI is 'lam', expected openmpi, mpich, tcp or the path of a plug-in");
    setenv("TESSERA_MPI", "mpich", 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_OPEN_MPI, &table), TESS_E_NOT_FOUND, "libtessera_mpi_mpich.so is missing");
    setenv("TESSERA_MPI", "/no/such/file.so", 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_OPEN_MPI, &table), TESS_E_NOT_FOUND, "cannot load /no/such/file.so");
}

static void what_is_no_plugin_is_refused(void)
{
    setenv("TESSERA_MPI", test_path("CMakeLists.txt"), 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_OPEN_MPI, &table), TESS_E_UNSUPPORTED, "invalid ELF header");
    setenv("TESSERA_MPI", TEST_OTHER_LIBRARY, 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_OPEN_MPI, &table), TESS_E_UNSUPPORTED, "is no plug-in of Tessera");
    setenv("TESSERA_MPI", TEST_OTHER_VERSION, 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_OPEN_MPI, &table), TESS_E_UNSUPPORTED,
                 "belongs to another version of Tessera (its table is version 77, ours ");
}

static const test_case cases[] = {
    CASE(a_missing_plugin_names_the_packages),
    CASE(slurm_uses_the_mpi_that_it_speaks_to),
    CASE(the_users_choice_comes_first),
    CASE(what_is_no_plugin_is_refused),
};

/* The dynamic loader reads LD_LIBRARY_PATH once and must find no plug-in here: the program starts itself again without
 * it. */
int main(int argc, char **argv)
{
    if (getenv("LD_LIBRARY_PATH") != NULL) {
        unsetenv("LD_LIBRARY_PATH");
        execv("/proc/self/exe", argv);
    }
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
