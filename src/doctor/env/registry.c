#include <string.h>

#include "doctor/data.h"
#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"

static const tess_table_field fields[] = {{"of", offsetof(tess_env_variable, of), true},
                                          {"does", offsetof(tess_env_variable, does), true},
                                          {"default", offsetof(tess_env_variable, fallback), false},
                                          {"values", offsetof(tess_env_variable, values), false},
                                          {"state", offsetof(tess_env_variable, state), false},
                                          {"note", offsetof(tess_env_variable, note), false},
                                          {"source", offsetof(tess_env_variable, source), false}};

/* Families of names. The registry holds every name of a closed family, so another one is a mistake. Of an open family
 * it holds the names used in training; `ask` says where to find the others. */
static const env_family families[] = {
    {"NCCL_", true, NULL},
    {"TORCH_NCCL_", true, NULL},
    {"TESSERA_", true, NULL},
    {"GLOO_", true, NULL},
    {"TORCHELASTIC_", true, NULL},
    {"OMP_", true, NULL},
    {"TORCH_", false, "the documentation of PyTorch"},
    {"PYTORCH_", false, "the documentation of PyTorch"},
    {"CUDA_", false, "the CUDA C programming guide, \"CUDA environment variables\""},
    {"UCX_", false, "`ucx_info -c -f` lists all of them"},
    {"OMPI_MCA_", false, "`ompi_info --all --parsable | grep NAME` lists all of them"},
    {"MPICH_", false, "`man mpiexec`, or the list of CVARs of this MPICH"},
    {"MPIR_CVAR_", false, "the list of CVARs of this MPICH"},
    {"PMI_", false, "set by the launcher"},
    {"PMIX_", false, "set by the launcher"},
};

const env_family *env_family_of(const char *name)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (strncmp(name, families[i].prefix, strlen(families[i].prefix)) == 0)
            return &families[i];
    return NULL;
}

static tess_status check_rows(const tess_table *table)
{
    for (int i = 0; i < table->n; i++) {
        const tess_env_variable *variable = tess_table_at(table, i);
        TESS_CHECK(tess_env_are_values(variable->values), TESS_E_FORMAT,
                   "%s:%d: %s: values '%.80s': write bool, int LO..HI, number LO..HI, one A|B or list A|B",
                   variable->row.file, variable->row.line, variable->row.id, variable->values);
    }
    return TESS_OK;
}

tess_status tess_env_registry_load(tess_mem *mem, const char *const *files, int n_files, tess_env_registry *registry)
{
    tess_table *table = &registry->table;
    *table = (tess_table){.mem = mem,
                          .fields = fields,
                          .n_fields = sizeof(fields) / sizeof(fields[0]),
                          .row_size = sizeof(tess_env_variable)};
    TESS_TRY(tess_table_parse(table, (const char *)tess_data_variables, tess_data_variables_size, "variables.yaml"));
    TESS_TRY(tess_table_load_own(table, "variables.yaml"));
    for (int i = 0; i < n_files; i++)
        TESS_TRY(tess_table_load(table, files[i]));
    return check_rows(table);
}

void tess_env_registry_free(tess_env_registry *registry)
{
    tess_table_free(&registry->table);
}
