/* What is kept of a rollout on disk, and what it costs if that is full. */
#include "rl/rl_impl.h"

tess_status rl_keep_or_warn(const rl *r, tess_status status, const char *what)
{
    if (status != TESS_E_NO_SPACE && status != TESS_E_IO)
        return status;
    tess_trainer_warn(r->trainer, "%s: %s", what, tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

tess_status rl_write_down(const rl *r, rl_journal **journal, int64_t round, const rl_sample *sample)
{
    tess_status status = *journal != NULL ? rl_journal_append(*journal, round, sample) : TESS_OK;
    if (status == TESS_OK)
        return TESS_OK;
    TESS_TRY(rl_keep_or_warn(r, status, "further samples of this rollout are not kept on disk"));
    rl_journal_close(journal);
    return TESS_OK;
}
