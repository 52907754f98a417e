#include "cli/cli.h"

#include <stdio.h>

#include "base/text/text.h"
#include "ckpt/convert.h"

static void report(void *context, const char *line)
{
    (void)context;
    cli_status_clear();
    fprintf(stderr, "%s\n", line);
}

static void progress(void *context, uint64_t done, uint64_t total)
{
    char a[32], b[32];
    (void)context;
    cli_status_line("%3.0f%%  %s of %s", total > 0 ? 100.0 * (double)done / (double)total : 100,
                    tess_format_bytes((double)done, a, sizeof(a)), tess_format_bytes((double)total, b, sizeof(b)));
}

static void show(const char *out, const tess_convert_result *result)
{
    char bytes[32];
    printf("%s: %d tensors, %s in %d file%s\n", out, result->n_tensors,
           tess_format_bytes((double)result->bytes, bytes, sizeof(bytes)), result->n_files,
           result->n_files > 1 ? "s" : "");
    if (result->n_nan + result->n_inf + result->n_overflowed > 0)
        printf("warning: %llu NaN, %llu infinite values in the source, %llu more overflow in the new dtype\n",
               (unsigned long long)result->n_nan, (unsigned long long)result->n_inf,
               (unsigned long long)result->n_overflowed);
}

static int run(int argc, char **argv)
{
    const char *dtype_text = NULL, *shard_text = NULL;
    const cli_flag flags[] = {
        {"--dtype", "TYPE", "float32, bfloat16 or float16; default: as they are, bit for bit", &dtype_text},
        {"--shard-size", "MB", "largest weight file (5000)", &shard_text},
    };
    int n = cli_parse(argc, argv, &cli_convert, flags, 2);
    if (n < 0)
        return n == -1 ? CLI_OK : CLI_BAD_INPUT;
    if (n != 2)
        return cli_misuse(&cli_convert, "name two folders");
    tess_mem *mem = NULL;
    tess_dtype dtype;
    int64_t shard_mb = 0;
    tess_convert_result result;
    tess_convert_options options = {.report = report, .progress = progress};
    tess_status status = cli_dtype("--dtype", dtype_text, true, &dtype);
    if (status == TESS_OK)
        status = cli_int("--shard-size", shard_text, 1, 1 << 30, &shard_mb);
    if (status == TESS_OK)
        status = tess_mem_create(&mem);
    if (status == TESS_OK) {
        options.dtype = dtype != TESS_DTYPE_COUNT ? &dtype : NULL;
        options.shard_bytes = (size_t)shard_mb * 1000000;
        status = tess_convert(mem, argv[1], argv[2], &options, &result);
    }
    tess_mem_destroy(&mem);
    cli_status_clear();
    if (status == TESS_OK)
        show(argv[2], &result);
    return status == TESS_OK ? CLI_OK : cli_fail(status);
}

const cli_command cli_convert = {"convert", "IN OUT [--dtype TYPE] [--shard-size MB]",
                                 "re-shard a Hugging Face folder, change its dtype, check it", run};
