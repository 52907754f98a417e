#include "train/text/resume_keys.h"

#include <string.h>

#include "train/text/text_impl.h"

/* Compares what data_identity.c records of the held-out text. */
static bool holds_out_more_or_less(const tess_config *a, const tess_config *b)
{
    return text_trained_share(a) != text_trained_share(b);
}

static bool always(TESS_UNUSED const tess_config *a, TESS_UNUSED const tess_config *b)
{
    return true;
}

static const struct {
    const char *key;
    bool (*refuses)(const tess_config *a, const tess_config *b); /* asked only if the values of the key differ */
} compared[] = {
    {"debug.seed", always},       /* text_task.c */
    {"training.seq_len", always}, /* text_task.c */
    {"training.freeze", always},  /* checkpoint_load.c */
    {"validation.enable", holds_out_more_or_less},
    {"validation.files", holds_out_more_or_less},
    {"validation.fraction", holds_out_more_or_less},
};

bool tess_resume_refuses(const char *key, const tess_config *a, const tess_config *b)
{
    for (size_t i = 0; i < sizeof(compared) / sizeof(compared[0]); i++)
        if (strcmp(compared[i].key, key) == 0)
            return compared[i].refuses(a, b);
    return false;
}
