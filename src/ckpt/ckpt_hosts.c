#include "ckpt/ckpt_hosts.h"

#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"

/* The record of a rank's host that ranks exchange, as 64-bit words. */
typedef struct host_place {
    int64_t number;
    char name[TESS_CKPT_HOST_NAME];
} host_place;

/* Numbers the hosts in the order of their ranks. Every rank computes the same numbers from the same records. */
static tess_status number_hosts(tess_ckpt_hosts *h, const host_place *places, int world)
{
    for (int rank = 0; rank < world; rank++) {
        if (rank == 0 || places[rank].number != places[rank - 1].number) {
            for (int before = 0; before < rank; before++)
                TESS_CHECK(places[before].number != places[rank].number, TESS_E_INVALID,
                           "ranks %d and %d are on host %.63s, but not those between them", before, rank,
                           places[rank].name);
            h->first[h->n] = rank;
            snprintf(h->names[h->n++], TESS_CKPT_HOST_NAME, "%.63s", places[rank].name);
        }
        h->of_rank[rank] = h->n - 1;
        h->last[h->n - 1] = rank;
    }
    h->host = h->of_rank[tess_team_rank(h->all)];
    return TESS_OK;
}

static tess_status exchange_places(tess_ckpt_hosts *h, int number, const char *name)
{
    host_place mine = {.number = number};
    TESS_AUTO(tess_mem_drop) host_place *places = NULL;
    size_t world = (size_t)tess_team_size(h->all);
    snprintf(mine.name, sizeof(mine.name), "%s", name);
    TESS_TRY(TESS_PART(h, world, "hosts of ranks", &h->of_rank));
    TESS_TRY(TESS_PART(h, world, "hosts of ranks", &h->first));
    TESS_TRY(TESS_PART(h, world, "hosts of ranks", &h->last));
    TESS_TRY(TESS_PART(h, world, "hosts of ranks", &h->names));
    TESS_TRY(TESS_NEW(h->mem, world, "hosts of ranks", &places));
    TESS_TRY(tess_all_gather(h->all, &mine, places, sizeof(mine) / sizeof(int64_t), TESS_I64, NULL));
    TESS_TRY(number_hosts(h, places, (int)world));
    h->mine = h->all;
    if (h->n == 1)
        return TESS_OK;
    h->mine = NULL;
    return tess_team_split(h->all, h->host, tess_team_rank(h->all), "host", &h->mine);
}

tess_status tess_ckpt_hosts_create(tess_mem *mem, tess_team *all, int number, const char *name, tess_ckpt_hosts **out)
{
    TESS_AUTO(tess_ckpt_hosts_destroy) tess_ckpt_hosts *h = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "hosts of ranks", &h));
    *h = (tess_ckpt_hosts){.mem = mem, .all = all};
    TESS_TRY_CTX(exchange_places(h, number, name), "hosts of the ranks");
    *out = TESS_GIVE(h);
    return TESS_OK;
}

void tess_ckpt_hosts_destroy(tess_ckpt_hosts **handle)
{
    tess_ckpt_hosts *h = *handle;
    if (h == NULL)
        return;
    if (h->mine != h->all)
        tess_team_destroy(&h->mine);
    tess_mem_drop(handle);
}

bool tess_ckpt_hosts_is_first(const tess_ckpt_hosts *h)
{
    return tess_team_rank(h->all) == h->first[h->host];
}

const char *tess_ckpt_hosts_format(const tess_ckpt_hosts *h, int host, char text[TESS_CKPT_HOST_TEXT])
{
    int first = h->first[host], last = h->last[host];
    int n = snprintf(text, TESS_CKPT_HOST_TEXT, "host %s (rank%s %d", h->names[host], last > first ? "s" : "", first);
    snprintf(text + n, TESS_CKPT_HOST_TEXT - (size_t)n, last > first ? "-%d)" : ")", last);
    return text;
}
