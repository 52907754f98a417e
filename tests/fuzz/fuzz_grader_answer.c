/* Any bytes as what a grader process or a reward model says: finite rewards with clean names, or an error. */
#include <math.h>
#include <stdlib.h>

#include "rl/reward/reward_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            abort();
}

static void check(tess_status status, const reward_answer *answer)
{
    if (status != TESS_OK) {
        check_text(tess_error_message());
        tess_error_clear();
        return;
    }
    if (!isfinite(answer->value) || (answer->n_parts == 0) != answer->is_null || answer->n_parts > TESS_REWARD_PARTS)
        abort();
    for (int i = 0; i < answer->n_parts; i++) {
        if (!isfinite(answer->part[i].value))
            abort();
        check_text(answer->part[i].name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reward_answer answer;
    uint64_t id;
    check(reward_answer_parse((const char *)data, size, "command", &id, &answer), &answer);
    check(reward_body_parse((const char *)data, size, "http", &answer), &answer);
    return 0;
}
