/* Loads a checkpoint into the tensors of a run, from a folder that all ranks see or from one folder per host. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/flat.h"
#include "base/core/rng.h"
#include "base/text/text.h"
#include "comm/agree.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store_impl.h"
#include "ckpt/store/store_write.h"

static const char way_out[] = "give the model that it was saved with, or begin this one in another folder";

typedef struct load {
    tess_mem *mem;
    tess_team *team;               /* all ranks */
    const tess_ckpt_hosts *folder; /* the hosts, if each has its own folder; NULL: one folder for all */
    const tess_ckpt_tensor *tensors;
    int n;
    tess_ckpt_load_options options;
    tess_catalog *catalog;
    tess_catalog_request *requests; /* (n) one request per tensor; an empty box requests nothing */
} load;

/* ---- Opening ---- */
tess_catalog_request tess_store_request(const tess_ckpt_tensor *tensor, const tess_catalog_tensor *found)
{
    bool any = tess_ckpt_count(tensor, &tensor->box) > 0;
    return (tess_catalog_request){found, tensor->box, tensor->dtype == TESS_F32, any ? tensor->data : NULL};
}

/* Checks that a stored dtype can be read: float32 is read from any floating-point dtype, other types only from their
 * own. */
static tess_status check_dtype(const load *l, const tess_ckpt_tensor *t, const char *name, const char *found)
{
    bool floats = t->dtype == TESS_F32;
    TESS_CHECK(floats ? tess_st_dtype_is_float(found) : strcmp(found, tess_store_dtype_text(t->dtype)) == 0,
               floats ? TESS_E_FORMAT : TESS_E_INVALID, "%s: tensor '%s' is %s, which is not read as %s%s",
               l->catalog->path, name, found, tess_dtype_name(t->dtype),
               floats ? "" : ": load it in its own dtype, or as float32 if it is floating-point");
    return TESS_OK;
}

static tess_status make_request(load *l, int i)
{
    char name[TESS_STORE_NAME], asked[96], there[96];
    const tess_ckpt_tensor *t = &l->tensors[i];
    tess_store_tensor_name(t->state, t->name, name);
    const tess_catalog_tensor *found = tess_catalog_find(l->catalog, name);
    TESS_CHECK(
        found != NULL || t->state == NULL, TESS_E_INVALID,
        "%s: no tensor '%s': the checkpoint is of another optimizer; set the optimizer that it was saved with, or "
        "start it anew with checkpoint.exclude_from_loading=optimizer",
        l->catalog->path, name);
    TESS_CHECK(found != NULL, TESS_E_INVALID, "%s: no tensor '%s': the checkpoint is of another model; %s",
               l->catalog->path, name, way_out);
    TESS_CHECK(found->n_dims <= TESS_MAX_DIMS, TESS_E_FORMAT, "%s: tensor '%s' has more than %d dimensions",
               l->catalog->path, name, TESS_MAX_DIMS);
    TESS_TRY(check_dtype(l, t, name, found->dtype));
    TESS_CHECK(tess_catalog_has_shape(found, &t->shape), TESS_E_INVALID,
               "%s: tensor '%s' has shape %s but this model's is %s: the checkpoint is of another model; %s",
               l->catalog->path, name, tess_dims_format(found->n_dims, found->dim, there, sizeof(there)),
               tess_shape_format(&t->shape, asked, sizeof(asked)), way_out);
    TESS_TRY(tess_ckpt_check_held(t, tess_agree_rank(l->team)));
    l->requests[i] = tess_store_request(t, found);
    return TESS_OK;
}

static int compare_tensors(const void *a, const void *b)
{
    const tess_catalog_tensor *const *x = a, *const *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Checks that the checkpoint has no further tensors: the layers of a larger model would otherwise be lost silently. */
static tess_status check_whole(const load *l)
{
    const tess_catalog *c = l->catalog;
    const tess_catalog_tensor **found;
    size_t n = (size_t)l->n;
    TESS_TRY(TESS_NEW(l->mem, n, "checkpoint tables", &found));
    for (size_t i = 0; i < n; i++)
        found[i] = l->requests[i].tensor;
    if (n > 1)
        qsort(found, n, sizeof(found[0]), compare_tensors);
    const char *extra = NULL;
    for (int i = c->n_tensors - 1; i >= 0; i--) {
        const tess_catalog_tensor *t = &c->tensors[i];
        if (n == 0 || bsearch(&t, found, n, sizeof(found[0]), compare_tensors) == NULL)
            extra = t->name;
    }
    tess_mem_free(l->mem, found);
    TESS_CHECK(extra == NULL, TESS_E_INVALID,
               "%s: tensor '%s' is not of this model: the checkpoint is of another one; %s", c->path, extra, way_out);
    return TESS_OK;
}

/* Opens the checkpoint and finds every tensor. Not collective. */
static tess_status open_here(load *l, const char *dir, int64_t step)
{
    TESS_TRY(tess_ckpt_open_step(l->mem, dir, step, &l->catalog));
    TESS_TRY(TESS_NEW(l->mem, l->n, "checkpoint tables", &l->requests));
    for (int i = 0; i < l->n; i++)
        TESS_TRY(make_request(l, i));
    return l->options.whole ? check_whole(l) : TESS_OK;
}

/* ---- Missing elements ---- */
/* An element is identified by one number: tensor << ELEMENT_BITS | its index in the tensor. The minimum over ranks is
 * the first missing element. */
enum { ELEMENT_BITS = 44 };
static const int64_t none = INT64_MAX;

static const tess_catalog_tensor *tensor_of(const load *l, int64_t place)
{
    return l->requests[place >> ELEMENT_BITS].tensor;
}

static tess_box element_of(const load *l, int64_t place)
{
    const tess_catalog_tensor *t = tensor_of(l, place);
    tess_box element;
    tess_flat_box(t->n_dims, t->dim, place & (((int64_t)1 << ELEMENT_BITS) - 1), 1, &element);
    return element;
}

static int64_t row_of(const load *l, int64_t place)
{
    return element_of(l, place).begin[0];
}

static const char *name_of(const load *l, int64_t place)
{
    return tensor_of(l, place)->name;
}

/* Finds the first element that this rank needs and the checkpoint lacks. */
static tess_status first_missing(const load *l, int64_t *place)
{
    *place = none;
    for (int i = 0; i < l->n && *place == none; i++) {
        bool missing;
        tess_box at = {.begin = {0}};
        const tess_catalog_request *r = &l->requests[i];
        if (r->dst == NULL)
            continue;
        TESS_TRY(tess_catalog_first_missing(l->catalog, r->tensor, &r->box, &missing, at.begin));
        const tess_box whole = tess_catalog_whole(r->tensor);
        if (missing)
            *place = (int64_t)i << ELEMENT_BITS | tess_flat_offset(r->tensor->n_dims, &whole, &at);
    }
    return TESS_OK;
}

/* Checks that a folder that all ranks read is not only one host's part. */
static tess_status check_no_part(const load *l)
{
    int64_t place;
    if (json_object_get(l->catalog->meta, "host") == NULL)
        return TESS_OK;
    TESS_TRY(first_missing(l, &place));
    TESS_CHECK(place == none, TESS_E_INVALID,
               "%s is one host's part of a checkpoint, without row %" PRId64 " of '%s': resume on the hosts that "
               "saved it, with checkpoint.host_local=true",
               l->catalog->path, row_of(l, place), name_of(l, place));
    return TESS_OK;
}

/* Fails because an element is missing. `needs`: the first host that needs it but lacks it; `has`: the first host that
 * has it. */
static tess_status refuse(const load *l, int64_t place, int64_t needs, int64_t has)
{
    char saved[512] = "", needing[TESS_CKPT_HOST_TEXT], holding[TESS_CKPT_HOST_TEXT] = "no host";
    const json_t *list = json_object_get(json_object_get(l->catalog->meta, "host"), "of");
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *host = json_string_value(json_array_get(list, i));
        at = tess_text_add(saved, sizeof(saved), at, "%s%s", i > 0 ? ", " : "", host != NULL ? host : "?");
    }
    if (has < l->folder->n)
        tess_ckpt_hosts_format(l->folder, (int)has, holding);
    return TESS_FAIL(TESS_E_INVALID,
                     "%s needs row %" PRId64 " of '%s', which its folder does not hold; %s has it: with "
                     "checkpoint.host_local=true a run goes on with the ranks on every host that its save had (%s)",
                     tess_ckpt_hosts_format(l->folder, (int)needs, needing), row_of(l, place), name_of(l, place),
                     holding, saved);
}

/* Checks that every host's folder has what its ranks need. If not, every rank reports which host has the first missing
 * element. */
static tess_status check_hosts(const load *l)
{
    const tess_ckpt_hosts *hosts = l->folder;
    int64_t mine, first, words[2], at[TESS_CATALOG_DIMS];
    bool missing;
    TESS_TRY(tess_team_agree(l->team, first_missing(l, &mine)));
    TESS_TRY(tess_all_reduce(l->team, &mine, &first, 1, TESS_I64, TESS_MIN, NULL));
    if (first == none)
        return TESS_OK;
    tess_box element = element_of(l, first);
    bool holds =
        tess_catalog_first_missing(l->catalog, tensor_of(l, first), &element, &missing, at) == TESS_OK && !missing;
    words[0] = mine == first ? hosts->host : hosts->n;
    words[1] = holds ? hosts->host : hosts->n;
    TESS_TRY(tess_all_reduce(l->team, words, words, 2, TESS_I64, TESS_MIN, NULL));
    return refuse(l, first, words[0], words[1]);
}

/* ---- The rank that verifies a piece ----
 * The ranks of a host read the same bytes of a file through one page cache, so only one of them verifies each piece.
 * Each rank still reads what it needs, but many ranks do not all compute checksums of the same checkpoint. */
static bool touches(const tess_box *box, const tess_catalog_tensor *t, const tess_catalog_piece *piece)
{
    return t->n_dims == 0 ? box->size[0] > 0 : tess_box_meet(t->n_dims, box, &piece->box, NULL);
}

/* Returns the rank that verifies a piece: the ranks that read a piece verify in turn. `boxes` (n_ranks, n_tensors). */
static int verifier_of(const tess_box *boxes, int n_ranks, int n_tensors, const tess_catalog_tensor *t,
                       const tess_catalog_piece *piece, int turn)
{
    int readers = 0, chosen = -1;
    for (int rank = 0; rank < n_ranks; rank++)
        readers += touches(&boxes[(size_t)rank * (size_t)n_tensors], t, piece);
    for (int rank = 0, k = 0; rank < n_ranks && readers > 0; rank++)
        if (touches(&boxes[(size_t)rank * (size_t)n_tensors], t, piece) && k++ == turn % readers)
            chosen = rank;
    return chosen;
}

/* Marks the pieces that other ranks of the host verify as trusted. Collective over the host's ranks. */
static tess_status share_verification(const load *l)
{
    tess_team *team = l->options.hosts->mine;
    int n_ranks = tess_team_size(team), me = tess_team_rank(team);
    TESS_AUTO(tess_mem_drop) tess_box *boxes = NULL;
    if (n_ranks == 1 || l->n == 0)
        return TESS_OK;
    TESS_TRY(tess_store_gather_boxes(l->mem, team, l->tensors, l->n, &boxes));
    for (int i = 0; i < l->n; i++) {
        const tess_catalog_tensor *t = l->requests[i].tensor;
        for (int k = t->first_piece; k < t->first_piece + t->n_pieces; k++)
            if (verifier_of(&boxes[i], n_ranks, l->n, t, &l->catalog->pieces[k], k) != me)
                tess_catalog_trust(l->catalog, k);
    }
    return TESS_OK;
}

/* ---- The whole load ---- */
/* Hashes the checksums of all pieces, on which all ranks must agree: ranks that see different files would mix two
 * checkpoints. */
static uint64_t fingerprint(const tess_catalog *c)
{
    uint64_t hash = (uint64_t)c->n_pieces;
    for (int i = 0; i < c->n_pieces; i++)
        hash = tess_hash_bytes(&c->pieces[i].sum, sizeof(c->pieces[i].sum), hash);
    return hash;
}

static tess_status run(load *l, const char *dir, int64_t step)
{
    tess_status status = open_here(l, dir, step);
    if (status == TESS_OK && l->folder == NULL)
        status = check_no_part(l);
    TESS_TRY(tess_team_agree(l->team, status));
    TESS_TRY(l->folder != NULL ? check_hosts(l)
                               : tess_team_agree_same(l->team, fingerprint(l->catalog), "checkpoints under one name"));
    if (l->options.hosts != NULL)
        status = share_verification(l);
    if (status == TESS_OK)
        status = tess_catalog_read_all(l->catalog, l->options.threads, l->requests, l->n);
    return tess_team_agree(l->team, status);
}

tess_status tess_ckpt_load(tess_mem *mem, tess_team *team, const char *dir, int64_t step,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_ckpt_load_options *options,
                           json_t **meta)
{
    load l = {.mem = mem, .team = team, .tensors = tensors, .n = n_tensors};
    if (options != NULL)
        l.options = *options;
    if (l.options.own_folders && l.options.hosts->n > 1)
        l.folder = l.options.hosts;
    tess_status status = run(&l, dir, step);
    if (meta != NULL)
        *meta = status == TESS_OK ? json_incref(json_object_get(l.catalog->meta, "meta")) : NULL;
    tess_mem_free(mem, l.requests);
    tess_catalog_destroy(&l.catalog);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "load checkpoint of step %" PRId64, step);
}
