/* `tessera verify invariance`: checks that a kernel computes a row with the same bits in any batch. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cli_verify.h"
#include "device/stream.h"
#include "verify/invariance.h"

static const char *const tables[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx"};
enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

typedef struct invariance_flags {
    const char *table, *library, *symbol;
    int64_t width, threads;
    double tolerance;
    tess_form_style style;
} invariance_flags;

static void show_progress(void *self, const char *row)
{
    cli_status_line("invariance: %s of %s", row, (const char *)self);
}

static tess_status show(tess_mem *mem, const invariance_flags *f, const tess_invariance_result *results, int n,
                        int *code)
{
    tess_buffer text = {.mem = mem};
    cli_status_clear();
    for (int i = 0; i < n; i++)
        *code = tess_invariance_holds(&results[i]) ? *code : TESS_EXIT_FAILED;
    return cli_print_text(tess_invariance_print(results, n, f->style, &text), &text);
}

static tess_status check_table(tess_mem *mem, const invariance_flags *f, const char *name,
                               tess_invariance_result *result)
{
    const int threads =
        f->threads > 0 ? (int)f->threads : 3; /* the same on any machine, and not a divisor of the batch sizes */
    const tess_kernels *kernels;
    TESS_TRY(tess_kernels_select(name, &kernels));
    return tess_invariance_check_table(mem, kernels, threads, show_progress, (void *)kernels->name, result);
}

/* Checks the best kernel table, the named one, or all tables that the machine supports. */
static tess_status check_tables(tess_mem *mem, const invariance_flags *f, int *code)
{
    tess_invariance_result results[N_TABLES] = {0};
    bool all = f->table != NULL && strcmp(f->table, "all") == 0;
    int n = 0;
    if (!all)
        TESS_TRY(check_table(mem, f, f->table, &results[n++]));
    for (int i = 0; i < N_TABLES && all; i++) {
        tess_status status = check_table(mem, f, tables[i], &results[n]);
        if (status == TESS_OK)
            n++;
        else if (status != TESS_E_UNSUPPORTED)
            return status;
    }
    return show(mem, f, results, n, code);
}

static tess_status check_library(tess_mem *mem, const invariance_flags *f, int *code)
{
    tess_invariance_result result = {0};
    char name[96];
    tess_invariance_fn function;
    TESS_TRY(tess_invariance_load(f->library, f->symbol, &function));
    snprintf(name, sizeof(name), "%s: %s", f->library, f->symbol);
    TESS_TRY(tess_invariance_check_function(mem, name, function, f->width, f->tolerance, &result));
    return show(mem, f, &result, 1, code);
}

/* Runs the check in a separate process, because a kernel may crash the process. */
static tess_status check_apart(tess_mem *mem, const invariance_flags *f, int *code)
{
    int how;
    fflush(stdout);
    pid_t pid = fork();
    TESS_CHECK(pid >= 0, TESS_E_IO, "start a process for the kernel: %s", strerror(errno));
    if (pid == 0) {
        tess_status status = check_library(mem, f, code);
        cli_exit(status != TESS_OK ? cli_end(status) : *code);
    }
    while (waitpid(pid, &how, 0) < 0)
        TESS_CHECK(errno == EINTR, TESS_E_IO, "wait for the kernel's process: %s", strerror(errno));
    TESS_CHECK(!WIFSIGNALED(how), TESS_E_IO,
               "--symbol: %s of %s ended the process: %s; see that it takes (const float *x, float *y, int64_t rows, "
               "int64_t width) and stays within rows * width",
               f->symbol, f->library, strsignal(WTERMSIG(how)));
    *code = WEXITSTATUS(how);
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    invariance_flags f = {.width = 512, .tolerance = 0};
    int code = TESS_EXIT_OK;
    const cli_flag flags[] = {
        {"--table", "NAME", "ref, avx2, avx512, avx512_bf16, amx, or all that the machine has (the best)",
         .text = &f.table},
        {"--threads", "N", "compare 1 to N threads, at most 4 (3)", .integer = &f.threads, .min = 1, .max = 4},
        {"--library", "FILE.so", "a kernel of yours instead:", .text = &f.library},
        {"--symbol", "NAME", "void NAME(const float *x, float *y, int64_t rows, int64_t width)", .text = &f.symbol},
        {"--width", "N", "floats of its rows (512)", .integer = &f.width, .min = 1, .max = 1 << 24},
        {"--tolerance", "X", "by which its values may differ (0: not at all)", .number = &f.tolerance, .least = 0,
         .most = 1e30},
        CLI_STYLES(&f.style)};
    int n = cli_parse(argc, argv, &cli_verify_invariance, flags, sizeof(flags) / sizeof(flags[0]));
    if (n > 0)
        return cli_misuse(&cli_verify_invariance, "'%.60s' is no option", argv[1]);
    if ((f.library == NULL) != (f.symbol == NULL))
        return cli_misuse(&cli_verify_invariance, "a kernel has a file and a name: --library and --symbol");
    if (f.library != NULL && f.table != NULL)
        return cli_misuse(&cli_verify_invariance, "--table is of Tessera's kernels, --library of yours");
    tess_status status = f.library != NULL ? check_apart(mem, &f, &code) : check_tables(mem, &f, &code);
    return status != TESS_OK ? cli_end(status) : code;
}

const cli_command cli_verify_invariance = {
    "verify invariance",
    "[--table NAME] | --library FILE.so --symbol NAME",
    "check that a kernel computes the same bits of a row, whatever is computed next to it\n"
    "Each row (or sequence, column, element) alone, then in batches of 2, 7, 64 and 129, in other orders, next to "
    "huge\n"
    "neighbours and NaN, on 1 to 3 threads: every row of a kernel table of Tessera, to the bit, or a function of "
    "yours.",
    .exit_codes = "0 batch-invariant; 1 not (the first row that changes is named); 2 bad input",
    .examples = "tessera verify invariance\n"
                "tessera verify invariance --table avx2\n"
                "tessera verify invariance --library ./kernel.so --symbol my_norm",
    .run = run};
