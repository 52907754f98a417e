/* `tessera eval`: measures the loss of a model on a text. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/text.h"
#include "train/text/evaluate.h"
#include "train/text/model_folder.h"

static tess_status print_token(TESS_UNUSED void *context, int64_t position, int32_t token, float logprob, float entropy)
{
    char number[40], nats[40];
    printf("{\"position\": %lld, \"token\": %d, \"logprob\": %s, \"entropy\": %s}\n", (long long)position, token,
           tess_format_float(logprob, number, sizeof(number)), tess_format_float(entropy, nats, sizeof(nats)));
    return TESS_OK;
}

static void show_progress(TESS_UNUSED void *context, int64_t n_tokens)
{
    char text[32];
    cli_status_line("evaluated %s tokens", tess_format_count((double)n_tokens, text, sizeof(text)));
}

static tess_status find_format(const char *name, tess_data_format *format)
{
    static const char *const names[] = {"auto", "text", "uint16", "uint32"};
    for (int i = 0; i < 4; i++)
        if (name == NULL || strcmp(name, names[i]) == 0) {
            *format = (tess_data_format)i;
            return TESS_OK;
        }
    return TESS_FAIL(TESS_E_INVALID, "--format: '%s' is neither auto, text, uint16 nor uint32", name);
}

static tess_status find_method(const char *name, int64_t n_ranks, int *method)
{
    *method = name == NULL ? -1 : 0;
    while (name != NULL && *method < TESS_CONTEXT_METHODS && strcmp(name, tess_context_method_name(*method)) != 0)
        ++*method;
    TESS_CHECK(*method < TESS_CONTEXT_METHODS, TESS_E_INVALID,
               "--context-method: '%s' is neither gather, ulysses nor ring", name);
    TESS_CHECK(
        name == NULL || n_ranks > 1, TESS_E_INVALID,
        "--context-method %s: one rank has all tokens: give the ranks that divide them, such as -n 2, or leave the "
        "method out",
        name);
    return TESS_OK;
}

/* The values of the command line. Ranks are forked with them. */
typedef struct eval_plan {
    const char *path; /* the model's folder */
    tess_model_folder_options folder;
    tess_evaluation_options options;
} eval_plan;

static tess_status evaluate(tess_mem *mem, const eval_plan *plan, tess_evaluation *result)
{
    tess_model_folder m = {0};
    TESS_TRY(tess_model_folder_open(mem, plan->path, &plan->folder, plan->options.reporter, &m));
    tess_status status = tess_evaluate_file(&m, &plan->options, result);
    tess_model_folder_close(&m);
    return status;
}

static tess_status evaluate_in_rank(tess_runtime *runtime, const void *plan, void *result)
{
    eval_plan own = *(const eval_plan *)plan;
    const tess_reporter reporter = cli_reporter_of(runtime);
    own.options.team = tess_runtime_team(runtime);
    own.options.reporter = &reporter;
    own.folder.n_threads = cli_threads_of(runtime, own.folder.n_threads);
    if (tess_runtime_rank(runtime) > 0)
        own.options.progress = NULL;
    tess_status status = evaluate(tess_runtime_mem(runtime), &own, result);
    fflush(stdout);
    return status;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    const char *per_token = NULL, *device = NULL, *dtype_text = NULL, *json = NULL, *add_bos = NULL, *adapter = NULL;
    const char *format = NULL, *method = NULL;
    tess_reporter reporter = {cli_print_line, NULL};
    tess_evaluation_options options = {
        .end_token = -1, .logit_bytes = TESS_DEVICE_LOGIT_BYTES, .progress = show_progress, .reporter = &reporter};
    int64_t threads = 0, max_length = 0, n_ranks = 1;
    const cli_flag flags[] = {
        {"-n", "RANKS", "ranks that divide the tokens of each batch, a power of two, with the same bits (1)",
         .integer = &n_ranks, .min = 1, .max = 512},
        {"--context-method", "NAME",
         "how these ranks divide attention: gather, ulysses or ring (ulysses up to as many ranks as key heads, else "
         "gather)",
         .text = &method},
        {"--data", "FILE", "text, JSON lines or an array with a document in each record, or a shard of ids",
         .text = &options.path},
        {"--format", "NAME", "of a .bin that does not say what it holds: text, uint16 or uint32 (data.format)",
         .text = &format},
        {"--end-token", "ID", "ends documents in files of ids that do not say where one ends (the model's)",
         .integer = &options.end_token, .max = INT32_MAX},
        {"--text-key", "KEY", "member of each JSON record that holds the document (text)", .text = &options.text_key},
        {"--prompt-key", "KEY", "without it: member that holds a prompt, whose completion alone counts (prompt)",
         .text = &options.prompt_key},
        {"--completion-key", "KEY", "member that holds the completion (completion)", .text = &options.completion_key},
        {"--chat-template", "PATH", "of lines with messages: a .jinja file or a model's folder (MODEL_DIR)",
         .text = &options.chat_template},
        {"--per-token", NULL,
         "JSON lines: number of the token (1: the first one predicted), id, log-probability, entropy",
         .text = &per_token},
        {"--seq-len", "N", "tokens of a row (the model's longest, at most 1024)", .integer = &options.seq_len, .min = 2,
         .max = 1 << 24},
        {"--logit-bytes", "SIZE", "largest logits in the memory of a GPU (training.logit_bytes, 4GiB)",
         .bytes = &options.logit_bytes, .unit = 1, .max = 1LL << 40},
        {"--max-length", "N", "position limit; dynamic rope scaling depends on it (the model's)",
         .integer = &max_length, .min = 2, .max = 1 << 27},
        {"--add-bos", "WHETHER",
         "begin documents with the bos token: true, false, or auto: if the tokenizer does (auto)", .text = &add_bos},
        {"--json", NULL, "the result as one JSON line", .text = &json},
        {"--dtype", "TYPE", "float32 or bfloat16; default: what the files hold", .text = &dtype_text},
        {"--adapter", "DIR", "an adapter (LoRA) of the model, PEFT's or a run's", .text = &adapter},
        {"--device", "NAME", "where the model computes: cpu, far or cuda (cpu)", .text = &device},
        {"--threads", "N", "default: all cores", .integer = &threads, .min = 1, .max = 1024},
    };
    int n = cli_parse(argc, argv, &cli_eval, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1 || options.path == NULL)
        return cli_misuse(&cli_eval, n != 1 ? "name one model folder" : "--data FILE is missing");

    tess_evaluation result;
    tess_dtype dtype;
    tess_status status;
    TESS_GOTO(cli_dtype("--dtype", dtype_text, false, &dtype), parsed);
    TESS_GOTO(cli_add_bos(add_bos, &options.add_bos), parsed);
    TESS_GOTO(find_format(format, &options.format), parsed);
    TESS_GOTO(find_method(method, n_ranks, &options.context_method), parsed);
    options.per_token = per_token != NULL ? print_token : NULL;
    const eval_plan plan = {argv[1], {dtype, max_length, (int)threads, device, adapter}, options};
    status = n_ranks == 1 ? evaluate(mem, &plan, &result)
                          : cli_ranks_run((int)n_ranks, device, evaluate_in_rank, &plan, &result, sizeof(result));
    cli_status_clear();
    if (status == TESS_OK && json != NULL) {
        char loss[40], bits[40];
        printf("{\"loss\": %s, \"perplexity\": %.6g, \"bits_per_byte\": %s, \"n_tokens\": %lld, \"n_bytes\": %lld}\n",
               tess_format_double(result.loss, loss, sizeof(loss)), result.perplexity,
               tess_format_double(result.bits_per_byte, bits, sizeof(bits)), (long long)result.n_tokens,
               (long long)result.n_bytes);
    } else if (status == TESS_OK) {
        fprintf(per_token != NULL ? stderr : stdout,
                "loss %.4f  perplexity %.2f  bits per byte %.4f  (%lld tokens, %lld bytes)\n", result.loss,
                result.perplexity, result.bits_per_byte, (long long)result.n_tokens, (long long)result.n_bytes);
    }
parsed:
    return cli_end(status);
}

const cli_command cli_eval = {"eval", "MODEL_DIR --data FILE [options]",
                              "measure loss, perplexity and bits per byte of a text\n\n"
                              "MODEL_DIR: config.json, tokenizer.json and weights of any format that `tessera convert` "
                              "reads.\n",
                              .examples = "tessera eval out/kjv/model --data book.txt\n"
                                          "tessera eval models/qwen --data held_out.jsonl --dtype bfloat16 --json\n"
                                          "tessera eval models/llama --data long.txt --seq-len 16384 -n 2",
                              .run = run};
