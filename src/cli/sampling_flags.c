#include "cli/sampling_flags.h"

#include <string.h>

#include "infer/generation_config.h"

void cli_sampling_flags(cli_sampling *how, cli_flag flags[CLI_SAMPLING_FLAGS])
{
    tess_sampling *s = &how->sampling;
    *how =
        (cli_sampling){.sampling = {.temperature = -1, .top_k = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1},
                       .max_new_tokens = -1};
    const cli_flag all[CLI_SAMPLING_FLAGS] = {
        {"--temperature", "T", "0 is greedy (0.8)", .number = &s->temperature, .most = 100},
        {"--top-k", "K", "draw from the K likeliest tokens; 0: all (0)", .integer = &s->top_k, .max = 1 << 30},
        {"--top-p", "P", "draw from the likeliest tokens that reach probability P (0.95)", .number = &s->top_p,
         .most = 1},
        {"--min-p", "P", "and from those with this share of the likeliest one's probability or more (0)",
         .number = &s->min_p, .most = 1},
        {"--repetition-penalty", "P", "divides the logits of tokens that the text has (1)",
         .number = &s->repetition_penalty, .least = 0.01, .most = 100},
        {"--seed", "N", "the same seed draws the same text (0)", .integer = &how->seed, .max = INT64_MAX},
    };
    memcpy(flags, all, sizeof(all));
}

tess_status cli_sampling_settle(cli_sampling *how, const char *folder, int64_t max_new_tokens,
                                tess_model_config *config)
{
    tess_generation_config file;
    tess_sampling *sampling = &how->sampling;
    TESS_TRY(tess_generation_config_load(folder, &file));
    double top_k = (double)sampling->top_k, n_new = (double)how->max_new_tokens;
    const struct {
        const char *name;
        double *value, said, fallback;
    } settings[] = {
        {"temperature", &sampling->temperature, file.sampling.temperature, 0.8},
        {"top_k", &top_k, (double)file.sampling.top_k, 0},
        {"top_p", &sampling->top_p, file.sampling.top_p, 0.95},
        {"min_p", &sampling->min_p, file.sampling.min_p, 0},
        {"repetition_penalty", &sampling->repetition_penalty, file.sampling.repetition_penalty, 1},
        {"max_new_tokens", &n_new, (double)file.max_new_tokens, (double)max_new_tokens},
    };
    char note[1024];
    size_t at = 0;
    for (int i = 0; i < file.n_end; i++)
        at = tess_text_add(note, sizeof(note), at, "%s%lld", i > 0 ? ", " : " end tokens ",
                           (long long)file.end_tokens[i]);
    size_t ends = at;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (*settings[i].value >= 0)
            continue;
        const char *separator = at == 0 ? "" : at == ends ? ";" : ",";
        *settings[i].value = settings[i].said >= 0 ? settings[i].said : settings[i].fallback;
        if (settings[i].said >= 0)
            at = tess_text_add(note, sizeof(note), at, "%s %s %.9g", separator, settings[i].name, settings[i].said);
    }
    if (file.ignored[0] != '\0')
        at = tess_text_add(note, sizeof(note), at, "%s ignored: %s", at > 0 ? ";" : "", file.ignored);
    sampling->top_k = (int64_t)top_k;
    sampling->seed = (uint64_t)how->seed;
    how->max_new_tokens = (int64_t)n_new;
    if (file.n_end > 0) { /* instruct models stop only at these tokens */
        memcpy(config->eos_token_id, file.end_tokens, sizeof(file.end_tokens));
        config->n_eos = file.n_end;
    }
    if (at > 0)
        fprintf(stderr, "generation_config.json:%s\n", note);
    return TESS_OK;
}
