/* `tessera doctor env`: explains the environment variables of NCCL, PyTorch, MPI, UCX and CUDA. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "doctor/env/env.h"

enum { MOST_BYTES = 1 << 20 };

typedef struct env_options {
    char *const *names; /* variables to explain */
    int n_names;
    const char *file;
    int64_t pid; /* 0: not given */
    tess_form_style style;
    const char *knowledge[CLI_REPEATS + 1];
} env_options;

static tess_status read_process(int64_t pid, tess_buffer *text)
{
    char path[64], piece[4096];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return tess_os_error("read", path);
    tess_status status = TESS_OK;
    for (size_t n; status == TESS_OK && (n = fread(piece, 1, sizeof(piece), file)) > 0;)
        status = tess_buffer_append(text, piece, n);
    if (status == TESS_OK && ferror(file))
        status = tess_os_error("read", path);
    fclose(file);
    return status;
}

/* Reads the lines of a file, or an environment stored as a block of strings. */
static tess_status read_environment(const env_options *o, tess_buffer *text)
{
    if (o->file != NULL) {
        char *data;
        size_t size;
        TESS_TRY(tess_os_read(text->mem, o->file, MOST_BYTES, &data, &size));
        tess_status status = tess_buffer_append(text, data, size);
        tess_mem_free(text->mem, data);
        return status;
    }
    if (o->pid != 0)
        return read_process(o->pid, text);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        TESS_TRY(tess_buffer_append(text, *entry, strlen(*entry) + 1));
    return TESS_OK;
}

static tess_status examine(tess_mem *mem, const env_options *o, const tess_env_registry *registry, tess_buffer *text,
                           tess_buffer *out, int *n_findings, int *n_strangers)
{
    tess_env_report report = {.mem = mem};
    TESS_TRY(read_environment(o, text));
    const tess_env_format format = o->file != NULL ? TESS_ENV_LINES : TESS_ENV_BLOCK;
    tess_status status = o->n_names > 0
                             ? tess_env_explain(mem, registry, o->names, o->n_names, &report)
                             : tess_env_check(mem, registry, text->data, text->size, format, tess_os_cores(), &report);
    if (status == TESS_OK && o->file != NULL && report.n_seen == 0)
        status = TESS_FAIL(TESS_E_FORMAT, "%s: no line NAME=VALUE is in it", o->file);
    if (status == TESS_OK)
        status = tess_env_print(&report, registry, o->style, out);
    *n_findings = tess_env_n_findings(&report);
    *n_strangers = report.n_strangers;
    tess_env_report_free(&report);
    return status;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    env_options o = {0};
    const cli_flag flags[] = {
        {"--file", "FILE", "lines NAME=VALUE, as `env` prints them, or a shell script (which is not run)",
         .text = &o.file},
        {"--pid", "PID", "the environment that this process was started with", .integer = &o.pid, .min = 1,
         .max = INT32_MAX},
        CLI_STYLES(&o.style),
        {"--knowledge", "FILE ...", "more variables; ~/.config/tessera/variables.yaml is read where there is one",
         .text = o.knowledge},
    };
    int n = cli_parse(argc, argv, &cli_doctor_env, flags, sizeof(flags) / sizeof(flags[0]));
    int n_files = 0, n_findings = 0, n_strangers = 0;
    o.names = argv + 1;
    o.n_names = n;
    if ((n > 0) + (o.file != NULL) + (o.pid != 0) > 1)
        return cli_misuse(&cli_doctor_env, "name one environment: --file or --pid, or none for this one and for names");
    while (o.knowledge[n_files] != NULL)
        n_files++;
    tess_env_registry registry;
    tess_buffer text = {.mem = mem}, out = {.mem = mem};
    tess_status status = tess_env_registry_load(mem, o.knowledge, n_files, &registry);
    if (status == TESS_OK)
        status = examine(mem, &o, &registry, &text, &out, &n_findings, &n_strangers);
    status = cli_print_text(status, &out);
    tess_env_registry_free(&registry);
    tess_buffer_free(&text);
    if (status == TESS_OK && n_strangers > 0)
        return TESS_EXIT_BAD_INPUT;
    return status == TESS_OK && n_findings > 0 ? CLI_DOCTOR_FINDS : cli_end(status);
}

const cli_command cli_doctor_env = {
    "doctor env",
    "[NAME[=VALUE]... | --file FILE | --pid PID] [--json | --html | --prometheus] [--knowledge FILE]...",
    "explain variables of NCCL, PyTorch, MPI, UCX, CUDA: what they do, which are void\n\n"
    "Lists every variable of these, OpenMP and Tessera that is set: what it does, whether anybody reads it, whether\n"
    "its value is accepted, whether it is dangerous, and which contradict each other. With names: what each of these\n"
    "does, set or not; NAME=VALUE is judged as if it were set.",
    .exit_codes = "0 nothing to correct; 1 failed; 2 bad input or a name that no known library reads;\n"
                  "3 something to correct",
    .examples = "tessera doctor env\n"
                "tessera doctor env NCCL_IB_DISABLE=1 NCCL_P2P_LEVEL\n"
                "tessera doctor env --pid 4711",
    .run = run};
