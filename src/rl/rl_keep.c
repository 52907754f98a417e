/* Files next to the metrics of a run. A full disk costs them and not the run. */
#include "base/os/os.h"
#include "comm/agree.h"
#include "rl/rl_impl.h"
#include "tessera/comm.h"

tess_status rl_keep_or_warn(const rl *r, tess_status status, const char *what)
{
    if (status != TESS_E_NO_SPACE && status != TESS_E_IO)
        return status;
    tess_trainer_warn(r->trainer, "%s: %s", what, tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

static tess_status write_tokenizer(const rl *r)
{
    char path[1024];
    TESS_AUTO(tess_buffer_free) tess_buffer json = {.mem = r->mem};
    TESS_TRY(tess_os_make_dirs(r->folder));
    TESS_TRY(tess_os_join(path, sizeof(path), r->folder, "tokenizer.json"));
    TESS_TRY(tess_tokenizer_read(r->mem, r->text.tokenizer_path, &json));
    return tess_os_write_atomic(path, json.data, json.size);
}

tess_status rl_keep_tokenizer(const rl *r)
{
    tess_status status = tess_team_rank(r->team) == 0 ? write_tokenizer(r) : TESS_OK;
    status = rl_keep_or_warn(r, status, "`tessera rl samples` will need --tokenizer");
    return tess_team_agree(r->team, status);
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
