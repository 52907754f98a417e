#include "job/place.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/core/variables.h"
#include "base/os/os.h"

/* Processes share memory when they run under one kernel and in one pid name space. */
static uint64_t key_of_host(const char *name)
{
    char text[256];
    uint64_t hash = tess_hash_text(name);
    ssize_t n = readlink("/proc/self/ns/pid", text, sizeof(text));
    if (n > 0)
        hash = tess_hash_bytes(text, (size_t)n, hash);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL) {
        size_t got = fread(text, 1, sizeof(text), file);
        hash = tess_hash_bytes(text, got, hash);
        fclose(file);
    }
    return hash;
}

static uint64_t hash_program(void)
{
    tess_mapping program;
    if (tess_os_map("/proc/self/exe", &program) != TESS_OK) {
        tess_error_clear();
        return 0;
    }
    uint64_t hash = tess_hash_bytes(program.data, program.size, 0);
    tess_os_unmap(&program);
    return hash;
}

void tess_card_fill(tess_card *card)
{
    const char *name = tess_variable_value(TESS_VAR_HOST);
    memset(card, 0, sizeof(*card));
    if (name != NULL && name[0] != '\0')
        snprintf(card->host, sizeof(card->host), "%s", name);
    else if (gethostname(card->host, sizeof(card->host) - 1) != 0)
        snprintf(card->host, sizeof(card->host), "?");
    card->host_key = key_of_host(card->host);
    card->version_hash = tess_hash_text(TESS_VERSION);
    card->program_hash = hash_program();
    card->cores_hash = tess_os_cores_hash();
    card->core = -1;
    card->pid = (int32_t)getpid();
    card->torchrun_rank = card->torchrun_world = -1;
}

static tess_status check_torchrun(const tess_card *cards, int n)
{
    for (int i = 0; i < n; i++) {
        const tess_card *card = &cards[i];
        if (card->torchrun_world < 0)
            continue;
        TESS_CHECK(
            card->torchrun_world == n && card->torchrun_rank == i, TESS_E_INVALID,
            "process %d of %d that MPI started on host %s has RANK=%d and WORLD_SIZE=%d in its environment: unset "
            "RANK and WORLD_SIZE, or start with torchrun alone",
            i, n, card->host, card->torchrun_rank, card->torchrun_world);
    }
    return TESS_OK;
}

/* Numbers the hosts in the order of their first process. */
static tess_status number_hosts(const tess_card *cards, int n, tess_placement *p, int *host_of)
{
    uint64_t keys[JOB_MAX_HOSTS];
    for (int i = 0; i < n; i++) {
        int host = 0;
        while (host < p->n_hosts && keys[host] != cards[i].host_key)
            host++;
        TESS_CHECK(host < JOB_MAX_HOSTS, TESS_E_INVALID, "a job on more than %d hosts", JOB_MAX_HOSTS);
        if (host == p->n_hosts)
            keys[p->n_hosts++] = cards[i].host_key;
        host_of[i] = host;
        p->n[host]++;
    }
    return TESS_OK;
}

/* Fills the numbers of process i. */
static void place_process(const tess_card *cards, int n, const int *host_of, int i, tess_placement *p)
{
    int rank = 0;
    for (int j = 0; j < n; j++) {
        bool same_core = cards[j].core == cards[i].core;
        rank += host_of[j] < host_of[i] ||
                (host_of[j] == host_of[i] && (cards[j].core < cards[i].core || (same_core && j < i)));
    }
    p->rank[i] = rank;
    p->process[rank] = i;
    p->host[rank] = host_of[i];
}

tess_status tess_place(tess_mem *mem, const tess_card *cards, int n, tess_placement *p)
{
    void *memory;
    memset(p, 0, sizeof(*p));
    TESS_CHECK(n >= 1, TESS_E_INVALID, "a job of %d ranks: it needs at least one", n);
    TESS_TRY(check_torchrun(cards, n));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n, 4 * sizeof(int), "places of the ranks", &memory));
    p->rank = memory;
    p->process = p->rank + n;
    p->host = p->process + n;
    int *host_of = p->host + n; /* host of each process, by the launcher's number */
    TESS_TRY(number_hosts(cards, n, p, host_of));
    for (int i = 0; i < n; i++)
        place_process(cards, n, host_of, i, p);
    return TESS_OK;
}

void tess_placement_free(tess_mem *mem, tess_placement *p)
{
    tess_mem_free(mem, p->rank);
    p->rank = p->process = p->host = NULL;
}
