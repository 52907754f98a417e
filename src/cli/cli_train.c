/* `tessera train`: trains a model. */
#include "cli/cli_task.h"
#include "train/text/text_task.h"

static int run(TESS_UNUSED tess_mem *mem, int argc, char **argv)
{
    return cli_run_task(&tess_text_task_kind, &cli_train,
                        "name a configuration file, or set what has no default: model.path=FOLDER data.files=FILE",
                        argc, argv);
}

const cli_command cli_train = {
    "train", "[CONFIG.yaml] [-n RANKS] [section.key=value ...]",
    "train a model, fully sharded over RANKS processes\n"
    "Without a file: tessera train model.path=FOLDER data.files=FILE\n"
    "`tessera info` lists every section.key with its default.",
    .examples = "tessera train examples/kjv.yaml -n 2\n"
                "tessera train model.path=models/llama data.files=book.txt training.steps=200\n"
                "tessera train run.yaml -n 4 parallelism.shard_strategy=full checkpoint.interval=100",
    .run = run};
