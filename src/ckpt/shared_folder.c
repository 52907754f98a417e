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

static const double patience_s = 2; /* for file systems that show a new file late */

/* A word that no other run has written anywhere: half of a file left by one that was killed must not pass for ours. */
static void make_word(const tess_ckpt_hosts *hosts, char word[WORD_SIZE])
{
    uint64_t numbers[2] = {tess_os_now_ns(), (uint64_t)getpid()};
    uint64_t hash = tess_hash_bytes(numbers, sizeof(numbers), tess_hash_text(hosts->names[0]));
    snprintf(word, WORD_SIZE, "%016" PRIx64, hash);
}

/* "<folder>/.tessera-probe-<word><suffix>" */
static tess_status path_of(const char *folder, const char *word, const char *suffix, char path[PATH_SIZE])
{
    char name[128];
    snprintf(name, sizeof(name), ".tessera-probe-%.31s%s", word, suffix);
    return tess_os_join(path, PATH_SIZE, folder, name);
}

static tess_status leave_probe(const char *folder, const char *word)
{
    char path[PATH_SIZE];
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(path_of(folder, word, "", path));
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

static bool sees_probe(tess_mem *mem, const char *path, const char *word)
{
    double begin = tess_os_now_s();
    bool seen;
    while (!(seen = holds_word(mem, path, word)) && tess_os_now_s() - begin < patience_s)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    return seen;
}

/* On each host's first rank but rank 0, who can write there. */
static tess_status try_writing(const char *folder, const char *word, int host)
{
    char suffix[32], path[PATH_SIZE];
    snprintf(suffix, sizeof(suffix), "-host%d", host);
    TESS_TRY(path_of(folder, word, suffix, path));
    TESS_TRY(tess_os_write_atomic(path, word, strlen(word)));
    tess_os_remove(path);
    return TESS_OK;
}

/* *mine: whether this host sees the probe; asked of its first rank. */
static tess_status look(const tess_ckpt_hosts *hosts, const char *folder, const char *word, int32_t *mine)
{
    char path[PATH_SIZE];
    if (!tess_ckpt_hosts_is_first(hosts))
        return TESS_OK;
    TESS_TRY(path_of(folder, word, "", path));
    *mine = sees_probe(hosts->mem, path, word);
    return *mine && hosts->host > 0 ? try_writing(folder, word, hosts->host) : TESS_OK;
}

static tess_status judge(const tess_ckpt_hosts *hosts, const int32_t *seen, const char *folder)
{
    char blind[TESS_CKPT_HOST_TEXT], writer[TESS_CKPT_HOST_TEXT];
    for (int host = 0; host < hosts->n; host++)
        TESS_CHECK(seen[host], TESS_E_INVALID,
                   "'%s' is not one folder on all hosts: %s does not see what %s writes there: put it on a file "
                   "system that all hosts share, or set checkpoint.host_local=true to let every host keep its own part",
                   folder, tess_ckpt_hosts_format(hosts, host, blind), tess_ckpt_hosts_format(hosts, 0, writer));
    return TESS_OK;
}

static tess_status ask(const tess_ckpt_hosts *hosts, const char *folder, const char *word)
{
    int32_t *seen;
    TESS_TRY(
        tess_mem_alloc_array(hosts->mem, TESS_POOL_MISC, (size_t)hosts->n, sizeof(seen[0]), "hosts", (void **)&seen));
    tess_status status = tess_team_agree(hosts->all, look(hosts, folder, word, &seen[hosts->host]));
    if (status == TESS_OK)
        status = tess_all_reduce(hosts->all, seen, seen, (size_t)hosts->n, TESS_I32, TESS_MAX, NULL);
    if (status == TESS_OK)
        status = judge(hosts, seen, folder);
    tess_mem_free(hosts->mem, seen);
    return status;
}

tess_status tess_ckpt_check_shared_folder(const tess_ckpt_hosts *hosts, const char *folder, const char *what)
{
    char word[WORD_SIZE] = "", path[PATH_SIZE];
    bool writer = tess_team_rank(hosts->all) == 0;
    if (hosts->n == 1)
        return TESS_OK;
    if (writer)
        make_word(hosts, word);
    tess_status status = tess_team_agree(hosts->all, writer ? leave_probe(folder, word) : TESS_OK);
    if (status == TESS_OK)
        status = tess_broadcast(hosts->all, word, WORD_SIZE / sizeof(int64_t), TESS_I64, 0, NULL);
    if (status == TESS_OK)
        status = ask(hosts, folder, word);
    if (writer && path_of(folder, word, "", path) == TESS_OK)
        tess_os_remove(path);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "%s", what);
}
