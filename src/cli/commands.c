/* The commands of `tessera`. */
#include "cli/commands.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

static const cli_command *const ckpt_verbs[] = {&cli_ckpt_ls,      &cli_ckpt_inspect, &cli_ckpt_verify,
                                                &cli_ckpt_diff,    &cli_ckpt_merge,   &cli_ckpt_split,
                                                &cli_ckpt_extract, &cli_ckpt_edit,    &cli_ckpt_prune};
static const cli_command ckpt = {"ckpt",
                                 "VERB ...",
                                 "list, inspect, verify, compare, cut, edit and prune checkpoints of any format\n"
                                 "`tessera convert` writes other formats.",
                                 .examples = "tessera ckpt ls out/kjv/checkpoint\n"
                                             "tessera ckpt verify out/kjv/checkpoint --newest\n"
                                             "tessera ckpt extract out/kjv/checkpoint model.safetensors",
                                 .verbs = ckpt_verbs,
                                 .n_verbs = COUNT(ckpt_verbs)};

static const cli_entry entries[] = {
    {"train and use models", &cli_train},
    {NULL, &cli_rl},
    {NULL, &cli_init},
    {NULL, &cli_eval},
    {NULL, &cli_generate},
    {NULL, &cli_chat},
    {"data and checkpoints", &cli_tokenize},
    {NULL, &cli_convert},
    {NULL, &ckpt},
    {"run on many processes and hosts", &cli_run},
    {NULL, &cli_launch},
    {NULL, &cli_slurm},
    {NULL, &cli_mesh},
    {NULL, &cli_pipeline},
    {"understand and debug", &cli_top},
    {NULL, &cli_dash},
    {NULL, &cli_trace},
    {NULL, &cli_doctor},
    {NULL, &cli_verify},
    {NULL, &cli_debug},
    {"measure", &cli_info},
    {NULL, &cli_plan},
    {NULL, &cli_run_report},
    {NULL, &cli_bench},
};

const cli_program cli_this_program = {"train language models across processes, fully sharded", entries, COUNT(entries),
                                      NULL};
