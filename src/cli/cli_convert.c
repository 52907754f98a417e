/* `tessera convert`: writes a checkpoint of any format in another format. */
#include <string.h>

#include "ckpt/store/tensor.h"
#include "cli/ckpt/ckpt_rewrite.h"
#include "cli/cli.h"
#include "engine/model/adapter_merge.h"

typedef struct convert_options {
    const char *to, *dtype_text;
    const char *assets, *adapter, *model_only, *no_check;
    tess_target target;
    tess_dtype dtype;
    int64_t shard_bytes, files, step;
} convert_options;

static int convert(tess_mem *mem, const char *in, const char *out, const convert_options *o)
{
    tess_rewrite_options rewrite = {.target = o->target,
                                    .weights_dtype = tess_store_dtype_text(o->dtype),
                                    .model_only = o->model_only != NULL,
                                    .n_files = (int)o->files,
                                    .step = o->step,
                                    .shard_bytes = (size_t)o->shard_bytes,
                                    .assets = o->assets,
                                    .unchecked = o->no_check != NULL};
    if (o->adapter == NULL)
        return cli_rewrite(mem, in, out, &rewrite);
    tess_adapter_merge *merge;
    const tess_reporter reporter = {cli_print_line, NULL};
    tess_status status =
        tess_adapter_merge_open(mem, in, o->assets != NULL ? o->assets : in, o->adapter, &reporter, &merge);
    if (status != TESS_OK)
        return cli_end(status);
    rewrite.change = tess_adapter_merge_change(merge);
    int code = cli_rewrite(mem, in, out, &rewrite);
    tess_adapter_merge_close(&merge);
    return code;
}

/* If --to is missing, the ending of `out` determines the format. A name without an ending is a model folder. */
static tess_status read_options(const char *out, convert_options *o)
{
    tess_target target = cli_target_of(out, TESS_TO_HF);
    o->target = target;
    if (o->to != NULL)
        TESS_TRY_CTX(tess_target_parse(o->to, &o->target), "--to");
    TESS_CHECK(o->target != TESS_TARGETS, TESS_E_INVALID,
               "%s: '%s' is not the ending of a format that is written: name a .safetensors or .pt file, or a folder "
               "(--to hf, dcp, megatron or tessera)",
               out, strrchr(out, '.'));
    TESS_TRY(cli_dtype("--dtype", o->dtype_text, true, &o->dtype));
    bool cut = o->target == TESS_TO_DCP || o->target == TESS_TO_MEGATRON || o->target == TESS_TO_TESSERA;
    TESS_CHECK(o->files == 0 || cut, TESS_E_INVALID, "--files: --to %s has no data files of ranks",
               tess_target_name(o->target));
    TESS_CHECK(o->adapter == NULL || o->target == TESS_TO_HF, TESS_E_INVALID,
               "--adapter: the merged model is a Hugging Face folder; convert that to %s", tess_target_name(o->target));
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    convert_options o = {.step = -1};
    const cli_flag flags[] = {
        {"--to", "FORMAT", "hf, safetensors, torch, dcp, megatron, tessera (by OUT's ending; hf for a folder)",
         .text = &o.to},
        {"--dtype", "TYPE", "weights as float32, bfloat16 or float16; default: as they are, bit for bit",
         .text = &o.dtype_text},
        {"--model-only", NULL, "without the optimizer (hf always is)", .text = &o.model_only},
        {"--shard-size", "SIZE", "hf: largest weight file, such as 4GiB (5000); a plain number counts MB",
         .bytes = &o.shard_bytes, .unit = 1000000, .min = 1000000, .max = (int64_t)1000000 << 30},
        {"--files", "N", "dcp, megatron, tessera: data files, as of so many ranks (as many as IN has)",
         .integer = &o.files, .min = 1, .max = 65536},
        {"--step", "N", "the training's step, where IN does not state it", .integer = &o.step, .max = INT64_MAX},
        {"--assets", "DIR", "hf: the folder of config.json and tokenizer (default: around IN)", .text = &o.assets},
        {"--adapter", "DIR", "hf: an adapter (LoRA) of the model, PEFT's or a run's, to merge into it",
         .text = &o.adapter},
        {"--no-check", NULL, "do not read the output again to compare it", .text = &o.no_check},
    };
    int n = cli_parse(argc, argv, &cli_convert, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 2)
        return cli_misuse(&cli_convert, "name what to convert and what to write");
    tess_status status = read_options(argv[2], &o);
    return status == TESS_OK ? convert(mem, argv[1], argv[2], &o) : cli_end(status);
}

const cli_command cli_convert = {
    "convert", "IN OUT [--to FORMAT] [--dtype TYPE] ...",
    "write a checkpoint of any format in another, or a Hugging Face folder anew\n\n"
    "IN: a Tessera checkpoint (or a folder of them: the newest), a Hugging Face folder, a safetensors file, a PyTorch\n"
    "DCP or Megatron folder, a torch.save file, a DeepSpeed folder. OUT: a new file or folder; with --to tessera and\n"
    "--to megatron a folder of checkpoints. The output is read again and compared, bit for bit. A Hugging Face folder "
    "gets\n"
    "the model alone, without what wrappers put around its names, which must be those of config.json.\n",
    .examples = "tessera convert out/kjv/checkpoint model --to hf\n"
                "tessera convert models/llama model.safetensors --dtype bfloat16\n"
                "tessera convert dcp-folder checkpoints --to tessera --files 8",
    .run = run};
