/* `tessera rl`: trains a model by reinforcement learning. */
#include <string.h>

#include "cli/cli_task.h"
#include "rl/rl_task.h"

static int run(tess_mem *mem, int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "samples") == 0)
        return cli_rl_samples.run(mem, argc - 1, argv + 1);
    return cli_run_task(&tess_rl_task_kind, &cli_rl,
                        "name a configuration file, or set what has no default: model.path=FOLDER "
                        "data.files=PROMPTS.jsonl reward.kind=...",
                        argc, argv);
}

const cli_command cli_rl = {"rl", "[CONFIG.yaml] [-n RANKS] [section.key=value ...] | samples FOLDER ...",
                            "train a model by reinforcement learning: it answers prompts, and learns from the grades\n"
                            "Without a file: tessera rl model.path=FOLDER data.files=PROMPTS.jsonl reward.kind=number\n"
                            "`tessera rl samples FOLDER` shows what a run has drawn (tessera rl samples --help).\n"
                            "`tessera info` lists every section.key with its default; docs/rl.md explains them.",
                            .examples =
                                "tessera rl examples/signs_rl.yaml -n 2\n"
                                "tessera rl model.path=models/qwen data.files=prompts.jsonl reward.kind=number\n"
                                "tessera rl samples out/signs/rl --min-reward 1",
                            .run = run};
