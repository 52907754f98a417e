/* What all ranks must know alike before a save begins. */
#include <poll.h>

#include "ckpt/async/saver_impl.h"
#include "ckpt/store/store.h"

bool async_is_apart(const tess_saver *s)
{
    return s->options.host_local && s->hosts->n > 1;
}

bool async_keeper_has_ended(const tess_saver *s)
{
    struct pollfd keeper = {.fd = s->keeper_fd, .events = POLLIN};
    return poll(&keeper, 1, 0) > 0;
}

typedef struct save_holder {
    const tess_saver *saver;
    const char *dir;
} save_holder;

/* Of what this host's writer found good after the save before, and what still lies there. */
static int64_t newest_good(void *self, int64_t limit)
{
    const save_holder *h = self;
    const async_header *header = h->saver->area.header;
    char path[TESS_CKPT_PATH];
    int n = atomic_load(&header->state) == ASYNC_COMMITTED ? header->outcome.n_good : 0;
    for (int i = 0; i < n; i++)
        if (header->outcome.good[i] <= limit && tess_ckpt_find(NULL, h->dir, header->outcome.good[i], path) == TESS_OK)
            return header->outcome.good[i];
    tess_error_clear();
    return -1;
}

tess_status async_agree_on_save(tess_saver *s, const char *dir, uint64_t *generation, int64_t *keep_from)
{
    save_holder h = {s, dir};
    int64_t words[2] = {(int64_t)atomic_load(&s->area.header->generation), async_keeper_has_ended(s)};
    *keep_from = -1;
    TESS_TRY(tess_all_reduce(s->hosts->all, words, words, 2, TESS_I64, TESS_MAX, NULL));
    *generation = (uint64_t)words[0] + 1;
    TESS_CHECK(words[1] == 0, TESS_E_UNSUPPORTED,
               "the process that starts writers of checkpoints has ended: checkpoints can no longer be written beside "
               "training");
    if (async_is_apart(s) && s->options.keep_latest_k > 0)
        return tess_ckpt_keep_from(s->hosts, s->options.keep_latest_k, newest_good, &h, keep_from);
    return TESS_OK;
}
