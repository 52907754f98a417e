#include "comm/wire/wire_load.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/plugins.h"
#include "comm/tcp/tcp_wire.h"

/* A wire: links over TCP, or an MPI. */
typedef struct kind {
    const char *word; /* value of TESSERA_MPI */
    const char *name;
    tess_starter starter;        /* launcher whose jobs use it */
    const wire_table *table;     /* NULL: in a plug-in */
    const char *file, *packages; /* the plug-in, and what it needs */
    bool is_open_mpi;
} kind;

static const kind kinds[] = {
    {"openmpi", "Open MPI", TESS_STARTER_OPEN_MPI, NULL, "libtessera_mpi_openmpi.so", "openmpi-bin and libopenmpi-dev",
     true},
    {"mpich", "MPICH", TESS_STARTER_MPICH, NULL, "libtessera_mpi_mpich.so", "mpich and libmpich-dev", false},
    {"tcp", "TCP", TESS_STARTER_TORCHRUN, &tess_tcp_wire, NULL, NULL, false},
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- Choice ---- */

/* Returns the wire of the launcher that started this process. Slurm, or an unknown launcher, starts both MPIs: the one
 * that it speaks to comes first, unless only the other one is installed. */
static const kind *choose(tess_starter starter)
{
    char path[PATH_MAX];
    for (int i = 0; i < N_KINDS; i++)
        if (kinds[i].starter == starter)
            return &kinds[i];
    bool speaks_pmi = starter == TESS_STARTER_SLURM && tess_variable_value(TESS_VAR_PMI_RANK) != NULL &&
                      tess_variable_value(TESS_VAR_PMIX_RANK) == NULL;
    const kind *first = &kinds[speaks_pmi], *second = &kinds[!speaks_pmi];
    return !tess_plugin_find(first->file, path) && tess_plugin_find(second->file, path) ? second : first;
}

/* Refuses a second MPI in the process, because it would bind to symbols of the first and work on the first one's
 * data. */
static tess_status refuse_second(const kind *wanted)
{
    void *init = dlsym(RTLD_DEFAULT, "MPI_Init");
    bool has_open_mpi = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL;
    if (init == NULL || has_open_mpi == wanted->is_open_mpi)
        return TESS_OK;
    Dl_info info;
    return TESS_FAIL(TESS_E_INVALID,
                     "this process has another MPI in it already (%s), so it cannot use %s: start it with the mpirun "
                     "of the MPI that it is linked with",
                     dladdr(init, &info) != 0 ? info.dli_fname : "MPI_Init is known", wanted->name);
}

/* An MPI needs PMI to find the other ranks. The message of Open MPI blames how it was built. */
static tess_status refuse_bare_srun(tess_starter starter)
{
    bool has_pmi = tess_variable_value(TESS_VAR_PMI_RANK) != NULL || tess_variable_value(TESS_VAR_PMIX_RANK) != NULL;
    TESS_CHECK(starter != TESS_STARTER_SLURM || has_pmi, TESS_E_INVALID,
               "srun has started this rank without the PMI that an MPI needs: srun --mpi=pmix for Open MPI, --mpi=pmi2 "
               "for MPICH; `srun --mpi=list` says what this Slurm has");
    return TESS_OK;
}

/* ---- Loading ---- */

static tess_status read_table(void *library, const char *path, const wire_table **table)
{
    const wire_table *found = dlsym(library, WIRE_TABLE_SYMBOL);
    TESS_CHECK(found != NULL, TESS_E_UNSUPPORTED, "%s is no plug-in of Tessera: it has no %s", path, WIRE_TABLE_SYMBOL);
    TESS_CHECK(found->version == WIRE_VERSION, TESS_E_UNSUPPORTED,
               "%s belongs to another version of Tessera (its table is version %u, ours %d): build and install both "
               "again",
               path, found->version, WIRE_VERSION);
    *table = found;
    return TESS_OK;
}

/* RTLD_GLOBAL is needed because components of Open MPI are plug-ins themselves, and look for its symbols in the
 * whole process. */
enum { OPEN_FLAGS = RTLD_NOW | RTLD_GLOBAL };

static tess_status load_path(const char *path, const wire_table **table)
{
    void *library = dlopen(path, OPEN_FLAGS);
    if (library == NULL)
        return TESS_FAIL(access(path, R_OK) == 0 ? TESS_E_UNSUPPORTED : TESS_E_NOT_FOUND, "cannot load %s: %s", path,
                         dlerror());
    return read_table(library, path, table);
}

static tess_status fail_missing(const kind *wanted)
{
    tess_environment environment;
    TESS_TRY(tess_environment_read(&environment));
    if (environment.reported_by[0] == '\0')
        return TESS_FAIL(TESS_E_NOT_FOUND, "%s is missing: install the packages %s and build Tessera again",
                         wanted->file, wanted->packages);
    return TESS_FAIL(TESS_E_NOT_FOUND,
                     "this job was started by %s (%s), but %s is missing: install the packages %s and build Tessera "
                     "again",
                     tess_starter_name(environment.starter), environment.reported_by, wanted->file, wanted->packages);
}

static tess_status load_kind(const kind *wanted, const wire_table **table)
{
    char path[PATH_MAX];
    *table = wanted->table;
    if (wanted->table != NULL)
        return TESS_OK;
    TESS_TRY(refuse_second(wanted));
    if (tess_plugin_find(wanted->file, path))
        return load_path(path, table);
    void *library = dlopen(wanted->file, OPEN_FLAGS); /* searched in LD_LIBRARY_PATH and /etc/ld.so.conf */
    return library != NULL ? read_table(library, wanted->file, table) : fail_missing(wanted);
}

tess_status tess_wire_load(tess_starter starter, const wire_table **table)
{
    const char *wish = tess_variable_value(TESS_VAR_MPI);
    if (wish == NULL || wish[0] == '\0') {
        TESS_TRY(refuse_bare_srun(starter));
        return load_kind(choose(starter), table);
    }
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(wish, kinds[i].word) == 0)
            return load_kind(&kinds[i], table);
    TESS_CHECK(strchr(wish, '/') != NULL, TESS_E_INVALID,
               "TESSERA_MPI is '%s', expected openmpi, mpich, tcp or the path of a plug-in (with a '/' in it)", wish);
    return load_path(wish, table);
}
