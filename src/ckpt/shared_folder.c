#include "ckpt/shared_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "comm/agree.h"

enum { PATH_SIZE = 4096, WORD_SIZE = 32 };

static const double patience_s = 2; /* in seconds; some file systems show a new file only after a while */

/* Formats "<folder>/.tessera-probe-<word><suffix>". */
static tess_status path_of(const char *folder, const char *word, const char *suffix, char path[PATH_SIZE])
{
    char name[128];
    snprintf(name, sizeof(name), ".tessera-probe-%.31s%s", word, suffix);
    return tess_os_join(path, PATH_SIZE, folder, name);
}

static tess_status write_probe(const char *folder, const char *word, const char *suffix, char path[PATH_SIZE])
{
    TESS_TRY(path_of(folder, word, suffix, path));
    return tess_os_write_atomic(path, word, strlen(word));
}

static bool holds_word(tess_mem *mem, const char *path, const char *word)
{
    char *text = NULL;
    size_t size = 0;
    if (tess_os_read(mem, path, WORD_SIZE, &text, &size) != TESS_OK) {
        tess_error_clear();
        return false;
    }
    bool same = size == strlen(word) && memcmp(text, word, size) == 0;
    tess_mem_free(mem, text);
    return same;
}

/* Looks for the probe on a host's first rank. *seen: whether the host sees it. If so, the host must be able to write
 * there, too. */
static tess_status look(const tess_ckpt_hosts *hosts, const char *folder, const char *word, int32_t *seen)
{
    char suffix[32], path[PATH_SIZE];
    double begin_s = tess_os_now_s();
    TESS_TRY(path_of(folder, word, "", path));
    while (!(*seen = holds_word(hosts->mem, path, word)) && tess_os_now_s() - begin_s < patience_s)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    if (!*seen || hosts->host == 0)
        return TESS_OK;
    snprintf(suffix, sizeof(suffix), "-host%d", hosts->host);
    TESS_TRY(write_probe(folder, word, suffix, path));
    tess_os_remove(path);
    return TESS_OK;
}

/* Looks for the probe on every host. All ranks return the same result. */
static tess_status look_on_all_hosts(const tess_ckpt_hosts *hosts, const char *folder, const char *word)
{
    TESS_AUTO(tess_mem_drop) int32_t *seen = NULL;
    char blind[TESS_CKPT_HOST_TEXT], writer[TESS_CKPT_HOST_TEXT];
    TESS_TRY(TESS_NEW(hosts->mem, hosts->n, "hosts", &seen));
    tess_status mine = tess_ckpt_hosts_is_first(hosts) ? look(hosts, folder, word, &seen[hosts->host]) : TESS_OK;
    TESS_TRY(tess_team_agree(hosts->all, mine));
    TESS_TRY(tess_all_reduce(hosts->all, seen, seen, (size_t)hosts->n, TESS_I32, TESS_MAX, NULL));
    for (int host = 0; host < hosts->n; host++)
        if (!seen[host])
            return TESS_FAIL(
                TESS_E_INVALID,
                "'%s' is not one folder on all hosts: %s does not see what %s writes there: put it on a file "
                "system that all hosts share, or set checkpoint.host_local=true to let every host keep its own part",
                folder, tess_ckpt_hosts_format(hosts, host, blind), tess_ckpt_hosts_format(hosts, 0, writer));
    return TESS_OK;
}

tess_status tess_ckpt_check_shared_folder(const tess_ckpt_hosts *hosts, const char *folder, const char *what)
{
    char word[WORD_SIZE] = "", path[PATH_SIZE];
    bool writer = tess_team_rank(hosts->all) == 0;
    tess_status status = TESS_OK;
    if (hosts->n == 1)
        return TESS_OK;
    if (writer) {
        /* The word is unique to this run, so that a probe left by a killed run is not mistaken for this run's. */
        uint64_t numbers[2] = {tess_os_now_ns(), (uint64_t)getpid()};
        uint64_t hash = tess_hash_bytes(numbers, sizeof(numbers), tess_hash_text(hosts->names[0]));
        snprintf(word, WORD_SIZE, "%016" PRIx64, hash);
        status = tess_os_make_dirs(folder);
        if (status == TESS_OK)
            status = write_probe(folder, word, "", path);
    }
    status = tess_team_agree(hosts->all, status);
    if (status == TESS_OK)
        status = tess_broadcast(hosts->all, word, WORD_SIZE / sizeof(int64_t), TESS_I64, 0, NULL);
    if (status == TESS_OK)
        status = look_on_all_hosts(hosts, folder, word);
    if (writer && path_of(folder, word, "", path) == TESS_OK)
        tess_os_remove(path);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "%s", what);
}
