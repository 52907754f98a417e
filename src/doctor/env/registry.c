/* Loads the registry of variables: the built-in rows, and the user's own. */
#include <string.h>

#include "base/core/variables.h"
#include "base/text/text.h"
#include "doctor/data.h"
#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"

static const tess_table_field fields[] = {{"of", offsetof(tess_env_variable, of), false},
                                          {"does", offsetof(tess_env_variable, does), true},
                                          {"default", offsetof(tess_env_variable, fallback), false},
                                          {"values", offsetof(tess_env_variable, values), false},
                                          {"risky", offsetof(tess_env_variable, risky), false},
                                          {"risk", offsetof(tess_env_variable, risk), false},
                                          {"state", offsetof(tess_env_variable, state), false},
                                          {"note", offsetof(tess_env_variable, note), false},
                                          {"tessera", offsetof(tess_env_variable, ours), false},
                                          {"source", offsetof(tess_env_variable, source), false}};

#define TORCH_STRINGS "`strings` of PyTorch's libtorch_cuda.so and libtorch_cpu.so has the names that it reads"
#define NCCL_PRINTS "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ENV prints the variables that NCCL reads from the environment"

/* A closed family is complete: the registry holds all of its names, so any other name is a mistake. An open family
 * is not: the registry holds the names used in training, and newer versions read more. A longer prefix must stand
 * before a shorter prefix that it begins with. */
static const env_family families[] = {
    {"NCCL_FASTRAK_", "Google's NCCL plug-in", "Google Cloud, GPUDirect-TCPXO", "the plug-in's documentation", NULL},
    {"NCCL_GPUDIRECTTCPX_", "Google's NCCL plug-in", "Google Cloud, GPUDirect-TCPX", "the plug-in's documentation",
     NULL},
    {"NCCL_OFI_", "aws-ofi-nccl", "aws-ofi-nccl, nccl_ofi_param.h", "the plug-in's variables begin with OFI_NCCL_",
     "OFI_NCCL"},
    {"NCCL_", "NCCL", "NCCL user guide, environment variables", NCCL_PRINTS, "NCCL"},
    {"NCLL_", "nobody", "NCCL user guide, environment variables", NULL, "NCCL"},
    {"OFI_NCCL_", "aws-ofi-nccl", "aws-ofi-nccl, nccl_ofi_param.h", "nccl_ofi_param.h of the plug-in's version",
     "OFI_NCCL"},
    {"RCCL_", "RCCL", "RCCL, src", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ENV prints the variables that RCCL reads",
     "NCCL"},
    {"TORCH_NCCL_", "PyTorch", "PyTorch, ProcessGroupNCCL environment variables", TORCH_STRINGS, "NCCL"},
    {"TESSERA_", "Tessera", "Tessera", NULL, NULL},
    {"GLOO_", "PyTorch", "PyTorch, torch/csrc/distributed/c10d", TORCH_STRINGS, NULL},
    {"TORCHELASTIC_", "torchrun", "PyTorch, torchrun", "the documentation of torchrun", NULL},
    {"OMP_", "OpenMP", "OpenMP 5.2, environment variables", "OMP_DISPLAY_ENV=true prints those that the runtime reads",
     NULL},
    {"TORCH_", "PyTorch", "PyTorch, torch.distributed", "the documentation of PyTorch", "PyTorch"},
    {"PYTORCH_", "PyTorch", "PyTorch, CUDA semantics", "the documentation of PyTorch", "PyTorch"},
    {"CUDA_", "CUDA", "CUDA C++ programming guide, environment variables",
     "the CUDA C programming guide, \"CUDA environment variables\"", NULL},
    {"UCX_", "UCX", "UCX, `ucx_info -c -f`", "`ucx_info -c -f` lists all of them", "UCX"},
    {"UCT_", "nobody", "UCX, `ucx_info -c -f`", NULL, "UCX"},
    {"UCC_", "UCC", "UCC, `ucc_info -caf`", "`ucc_info -caf` lists all of them", NULL},
    {"FI_", "libfabric", "libfabric, fabric(7) and the manual pages of its providers",
     "`fi_info -e` lists those of the installed providers", NULL},
    {"SHARP_", "SHARP", "NVIDIA SHARP, collective library", "the documentation of NVIDIA SHARP", NULL},
    {"NVSHMEM_", "NVSHMEM", "NVSHMEM, env_defs.h", "NVSHMEM_INFO=1 prints all of them at start", NULL},
    {"MELLANOX_", "enroot", "enroot, 99-mellanox.sh", "the hooks of the container runtime", NULL},
    {"OMPI_MCA_", "Open MPI", "Open MPI, MCA parameters", "`ompi_info --all --parsable | grep NAME` lists all of them",
     NULL},
    {"MPICH_", "MPICH", "MPICH, environment", "`man mpiexec`, or the list of CVARs of this MPICH", NULL},
    {"MPIR_CVAR_", "MPICH", "MPICH, environment", "the list of CVARs of this MPICH", NULL},
    {"PMI_", "a launcher", "MPICH, environment", "set by the launcher", NULL},
    {"PMIX_", "a launcher", "Open MPI, MCA parameters", "set by the launcher", NULL},
};

const env_family *env_family_of(const char *name)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (strncmp(name, families[i].prefix, strlen(families[i].prefix)) == 0)
            return &families[i];
    return NULL;
}

static tess_status check_values(const tess_env_variable *variable, const char *field, const char *values)
{
    TESS_CHECK(tess_env_are_values(values), TESS_E_FORMAT,
               "%s:%d: %s: %s '%.80s': write bool, on, off, int LO..HI, ints LO..HI, number LO..HI, one A|B, list A|B, "
               "has A|B, lacks A|B or gpus",
               variable->row.file, variable->row.line, variable->row.id, field, values);
    return TESS_OK;
}

static tess_status check_rows(const tess_table *table)
{
    for (int i = 0; i < table->n; i++) {
        const tess_env_variable *variable = tess_table_at(table, i);
        TESS_CHECK(variable->of != NULL || env_family_of(variable->row.id) != NULL, TESS_E_FORMAT,
                   "%s:%d: '%s' needs the field 'of'", variable->row.file, variable->row.line, variable->row.id);
        TESS_TRY(check_values(variable, "values", variable->values));
        TESS_TRY(check_values(variable, "risky", variable->risky));
        TESS_CHECK((variable->risky != NULL) == (variable->risk != NULL), TESS_E_FORMAT,
                   "%s:%d: %s: the fields 'risky' and 'risk' need each other", variable->row.file, variable->row.line,
                   variable->row.id);
    }
    return TESS_OK;
}

static tess_status write_field(const char *name, const char *text, tess_buffer *out)
{
    if (text[0] == '\0')
        return TESS_OK;
    TESS_TRY(tess_buffer_printf(out, "  %s: '", name));
    for (; *text != '\0'; text++)
        TESS_TRY(tess_buffer_append(out, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1));
    return tess_buffer_append(out, "'\n", 2);
}

/* Writes Tessera's own variables as the text of a table. */
static tess_status write_ours(tess_buffer *out)
{
    for (int v = 0; v < TESS_VARIABLE_COUNT; v++) {
        const tess_variable_row *row = &tess_variables[v];
        if (strncmp(row->name, "TESSERA_", 8) != 0)
            continue;
        TESS_TRY(tess_buffer_printf(out, "%s:\n", row->name));
        TESS_TRY(write_field("does", row->does, out));
        TESS_TRY(write_field("default", row->fallback, out));
        TESS_TRY(write_field("values", row->values, out));
    }
    return TESS_OK;
}

static tess_status add_ours(tess_table *table)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = table->mem};
    TESS_TRY(write_ours(&text));
    return tess_table_parse(table, text.data, text.size, ENV_OURS);
}

tess_status tess_env_registry_load(tess_mem *mem, const char *const *files, int n_files, tess_env_registry *registry)
{
    tess_table *table = &registry->table;
    *table = (tess_table){.mem = mem,
                          .fields = fields,
                          .n_fields = sizeof(fields) / sizeof(fields[0]),
                          .row_size = sizeof(tess_env_variable)};
#define X(subject)                                                                \
    TESS_TRY(tess_table_parse(table, (const char *)tess_data_variables_##subject, \
                              tess_data_variables_##subject##_size, ENV_BUILT_IN #subject ".yaml"));
    TESS_DOCTOR_VARIABLES(X)
#undef X
    TESS_TRY(add_ours(table));
    TESS_TRY(tess_table_load_own(table, "variables.yaml"));
    for (int i = 0; i < n_files; i++)
        TESS_TRY(tess_table_load(table, files[i]));
    return check_rows(table);
}

void tess_env_registry_free(tess_env_registry *registry)
{
    tess_table_free(&registry->table);
}
