#include "cli/ckpt/ckpt_rewrite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os/objects.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "cli/cli.h"

static void report_progress(void *self, const char *doing, uint64_t done, uint64_t all)
{
    ((cli_progress *)self)->doing = doing;
    cli_progress_report(self, done, all);
}

int cli_rewrite(tess_mem *mem, const char *in, const char *out, tess_rewrite_options *options)
{
    cli_progress progress = {0};
    tess_rewrite_result result;
    char bytes[32];
    double begin_s = tess_os_now_s();
    options->self = &progress;
    options->report = cli_print_line;
    options->progress = report_progress;
    tess_status status = tess_ckpt_rewrite(mem, in, out, options, &result);
    cli_status_clear();
    if (status != TESS_OK)
        return cli_end(status);
    printf("%s: %d tensors, %s", result.path, result.n_tensors,
           tess_format_bytes((double)result.bytes, bytes, sizeof(bytes)));
    if (result.n_files > 0)
        printf(" in %d file%s", result.n_files, result.n_files > 1 ? "s" : "");
    if (result.step >= 0)
        printf(", step %" PRId64, result.step);
    printf("; %s to %s%s in %.1f s\n", result.source, tess_target_name(options->target),
           options->unchecked ? ", not read again," : ", read again and equal,", tess_os_now_s() - begin_s);
    if (result.n_nan + result.n_inf + result.n_overflowed > 0)
        printf("warning: %" PRIu64 " NaN, %" PRIu64 " infinite values in the source, %" PRIu64
               " more overflow in the new dtype\n",
               result.n_nan, result.n_inf, result.n_overflowed);
    return TESS_EXIT_OK;
}

tess_target cli_target_of(const char *out, tess_target folder)
{
    const char *name = tess_object_file_name(out), *dot = strrchr(name, '.');
    if (tess_text_ends_with(out, ".safetensors"))
        return TESS_TO_SAFETENSORS;
    if (tess_text_ends_with(out, ".pt") || tess_text_ends_with(out, ".pth") || tess_text_ends_with(out, ".bin"))
        return TESS_TO_TORCH;
    bool is_folder = dot == NULL || dot == name || tess_os_is_dir(out) || strspn(dot + 1, "0123456789") > 0;
    return is_folder ? folder : TESS_TARGETS;
}

static void parse(int argc, char **argv, const cli_command *command, const cli_flag *flags, int n_flags)
{
    if (cli_parse(argc, argv, command, flags, n_flags) != 2)
        cli_exit(cli_misuse(command, "name a checkpoint and what is to be written"));
}

static int rewrite(tess_mem *mem, char **argv, tess_rewrite_options *options)
{
    if (options->target != TESS_TARGETS)
        return cli_rewrite(mem, argv[1], argv[2], options);
    return cli_end(TESS_FAIL(TESS_E_INVALID,
                             "%s: files end in .safetensors, .pt, .pth or .bin; for a folder of that name write %s/",
                             argv[2], argv[2]));
}

static int run_merge(tess_mem *mem, int argc, char **argv)
{
    parse(argc, argv, &cli_ckpt_merge, NULL, 0);
    tess_rewrite_options options = {.target = cli_target_of(argv[2], TESS_TO_TESSERA), .n_files = 1, .step = -1};
    return rewrite(mem, argv, &options);
}

static int run_split(tess_mem *mem, int argc, char **argv)
{
    int64_t n = 0;
    const cli_flag flags[] = {{"-n", "N", "data files: as of so many ranks", .integer = &n, .min = 1, .max = 65536}};
    parse(argc, argv, &cli_ckpt_split, flags, 1);
    if (n == 0)
        return cli_misuse(&cli_ckpt_split, "-n says in how many");
    tess_rewrite_options options = {.target = TESS_TO_TESSERA, .n_files = (int)n, .step = -1};
    return rewrite(mem, argv, &options);
}

static int run_extract(tess_mem *mem, int argc, char **argv)
{
    const char *assets = NULL;
    const cli_flag flags[] = {
        {"--assets", "DIR", "where config.json and tokenizer are (default: looked for around PATH)", .text = &assets}};
    parse(argc, argv, &cli_ckpt_extract, flags, 1);
    tess_rewrite_options options = {
        .target = cli_target_of(argv[2], TESS_TO_HF), .bare_names = true, .step = -1, .assets = assets};
    return rewrite(mem, argv, &options);
}

const cli_command cli_ckpt_merge = {
    "ckpt merge", "PATH OUT",
    "write everything of a checkpoint to one file\n\n"
    "OUT: a .safetensors file, a .pt file as of torch.save, or a folder for a Tessera checkpoint with one data file.\n",
    .examples = "tessera ckpt merge out/kjv/checkpoint all.safetensors\n"
                "tessera ckpt merge out/kjv/checkpoint all.pt\n"
                "tessera ckpt merge out/kjv/checkpoint one",
    .run = run_merge};

const cli_command cli_ckpt_split = {
    "ckpt split", "PATH OUT -n N",
    "cut a checkpoint into the data files of N ranks\n\n"
    "OUT: a folder of checkpoints, in which step-N is made. Any number of ranks resumes from any cut: this is for\n"
    "spreading files over disks, and for tests.\n",
    .examples = "tessera ckpt split out/kjv/checkpoint cut -n 4\n"
                "tessera ckpt split model.safetensors cut -n 8\n"
                "tessera ckpt split models/llama cut -n 2",
    .run = run_split};

const cli_command cli_ckpt_extract = {
    "ckpt extract", "PATH OUT [--assets DIR]",
    "write the model alone, without the optimizer, under its own names\n\n"
    "OUT: a .safetensors file, a .pt file as of torch.save, or a new Hugging Face folder.\n",
    .examples = "tessera ckpt extract out/kjv/checkpoint model.safetensors\n"
                "tessera ckpt extract out/kjv/checkpoint model.pt\n"
                "tessera ckpt extract out/kjv/checkpoint model --assets models/llama",
    .run = run_extract};
