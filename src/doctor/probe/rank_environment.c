/* Compares the environment variables that decide how a job runs, and names ranks that differ. It neither reads nor
 * prints other variables, because an environment may hold secrets. */
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/text/text.h"
#include "doctor/probe/probe_impl.h"
#include "doctor/probe/ranks_impl.h"

static const char *const prefixes[] = {
    "TESSERA_", "NCCL_", "UCX_",  "UCC_",   "FI_",          "PSM",          "OMP_",          "GOMP_",
    "KMP_",     "MKL_",  "BLIS_", "TORCH_", "OPENBLAS_",    "PYTORCH_",     "MPICH_",        "I_MPI_",
    "MALLOC_",  "LD_",   "CUDA_", "GLOO_",  "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_coll", "GLIBC_TUNABLES",
};
/* Variables that correctly differ between ranks or hosts. */
static const char *const own[] = {
    "TESSERA_RANK=", "TESSERA_SHM_FD=", "TESSERA_HOST=",  "TESSERA_GUARD",   "CUDA_VISIBLE_DEVICES=",
    "CUDA_HOME=",    "CUDA_PATH=",      "TESSERA_FAULT=", "TESSERA_SECRET=",
};

static bool begins_with_any(const char *text, const char *const *beginnings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void probe_collect_environment(char *const *environment, char *text)
{
    enum { MOST = 256 };
    char *lines[MOST];
    int n = 0;
    size_t at = 0;
    for (; *environment != NULL && n < MOST; environment++)
        if (begins_with_any(*environment, prefixes, sizeof(prefixes) / sizeof(prefixes[0])) &&
            !begins_with_any(*environment, own, sizeof(own) / sizeof(own[0])))
            lines[n++] = *environment;
    qsort(lines, (size_t)n, sizeof(lines[0]), by_text);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t length = strlen(lines[i]);
        if (at + length + 2 > PROBE_ENVIRONMENT_BYTES || strchr(lines[i], '\n') != NULL)
            continue;
        at += (size_t)snprintf(text + at, PROBE_ENVIRONMENT_BYTES - at, "%s\n", lines[i]);
    }
}

/* Finds the line of `name` (with its '=') in a rank's text. Returns its length; 0: the variable is not set. */
static size_t find_line(const char *text, const char *name, size_t name_length, const char **line)
{
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1) {
        *line = at;
        if (strncmp(at, name, name_length) == 0)
            return strcspn(at, "\n");
    }
    *line = "";
    return 0;
}

static const char *value_of(const probe_rank *rank, const char *name, size_t name_length, char *text, size_t size)
{
    const char *line;
    size_t n = find_line(rank->environment, name, name_length, &line);
    if (n == 0)
        snprintf(text, size, "nothing");
    else
        snprintf(text, size, "%.*s", (int)(n - name_length), line + name_length);
    return text;
}

/* Compares one variable and writes "NCCL_ALGO is Ring on 3 ranks, Tree on rank 2". Returns false if all ranks agree. */
static bool compare(const probe_all *all, const char *name, size_t name_length, char *text, size_t size)
{
    const probe_rank *ranks = all->ranks;
    const int n = all->n;
    uint64_t *hashes = all->hashes;
    char value[64];
    int n_odd = 0;
    for (int r = 0; r < n; r++) {
        const char *line;
        size_t length = find_line(ranks[r].environment, name, name_length, &line);
        hashes[r] = tess_hash_bytes(line, length, 0);
    }
    const tess_majority usual = probe_majority(hashes, n);
    if (usual.n == n)
        return false;
    size_t at = tess_text_add(text, size, 0, "%.*s is %s on %d rank%s", (int)name_length - 1, name,
                              value_of(&ranks[usual.first], name, name_length, value, sizeof(value)), usual.n,
                              usual.n == 1 ? "" : "s");
    for (int r = 0; r < n; r++)
        if (hashes[r] != hashes[usual.first] && n_odd++ < 3)
            at = tess_text_add(text, size, at, ", %s on rank %d",
                               value_of(&ranks[r], name, name_length, value, sizeof(value)), r);
    if (n_odd > 3)
        tess_text_add(text, size, at, " and %d more", n_odd - 3);
    return true;
}

/* Whether a rank before `r` has the variable; it has then been compared already. */
static bool was_seen(const probe_rank *ranks, int r, const char *name, size_t name_length)
{
    const char *line;
    for (int q = 0; q < r; q++)
        if (find_line(ranks[q].environment, name, name_length, &line) > 0)
            return true;
    return false;
}

void probe_judge_environment(const probe_all *all, tess_probe_finding *finding)
{
    const probe_rank *ranks = all->ranks;
    int n_differ = 0;
    size_t at = 0;
    char text[TESS_PROBE_TEXT_BYTES] = "";
    for (int r = 0; r < all->n; r++)
        for (const char *line = ranks[r].environment; *line != '\0'; line += strcspn(line, "\n") + 1) {
            char one[200];
            size_t name_length = strcspn(line, "=\n") + 1;
            if (was_seen(ranks, r, line, name_length) || !compare(all, line, name_length, one, sizeof(one)))
                continue;
            if (n_differ++ < 3)
                at = tess_text_add(text, sizeof(text), at, "%s%s", at > 0 ? "; " : "", one);
        }
    if (n_differ > 3)
        probe_say(finding, TESS_PROBE_WARN, "%d variables differ, of them: %.360s", n_differ, text);
    else if (n_differ > 0)
        probe_say(finding, TESS_PROBE_WARN, "%s", text);
    else
        probe_say(finding, TESS_PROBE_OK, "alike");
}
