#include "plan/batch_choice.h"

#include "base/mem/scoped.h"
#include "engine/stages/rank_stage.h"
#include "mesh/coordinates.h"

enum { MOST_ROWS = 65536 };

/* A size, and how its micro-batches lie on the ranks. */
typedef struct batch_size {
    int64_t rows, busiest_rows; /* busiest_rows: rows of the rank that computes most */
    bool fills;                 /* each stage of a pipeline has work at some time */
} batch_size;

/* Copies the configuration with this many rows, and checks it. The caller frees it. */
static tess_status configure(const tess_batch_search *s, int64_t rows, tess_config *config)
{
    TESS_TRY(tess_config_copy(s->config, config));
    config->training.local_batch_size = rows;
    TESS_TRY(tess_config_check_step(config, s->n_ranks));
    return s->check != NULL ? s->check(config) : TESS_OK;
}

static tess_status look(tess_mem *mem, const tess_batch_search *s, int64_t rows, batch_size *c)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    TESS_TRY(configure(s, rows, &config));
    const tess_coordinates at = tess_coordinates_of(&config.parallelism, 0);
    const int64_t rounds = tess_coordinates_rounds(&at, tess_config_micro_batches(&config));
    *c = (batch_size){.rows = rows, .busiest_rows = rounds * rows, .fills = rounds >= at.degree[TESS_AXIS_PP]};
    if (at.degree[TESS_AXIS_PP] == 1)
        return TESS_OK;
    tess_stage_plan stages = {0}; /* the schedule may refuse the number of micro-batches */
    tess_status status = tess_stage_plan_create(mem, &config, s->model, 0, &stages);
    tess_stage_plan_free(mem, &stages);
    return status;
}

static bool is_refused(tess_status status)
{
    return status == TESS_E_INVALID || status == TESS_E_UNSUPPORTED;
}

/* Lists sizes in ascending order: those that divide the rows of the step. An open global batch has one micro-batch a
 * rank, so it leaves no rank idle, and no size is looked at but the smallest. */
static tess_status list(tess_mem *mem, const tess_batch_search *s, batch_size *all, int *n)
{
    const int64_t global = s->sizes_step ? 0 : s->config->training.global_batch_size;
    const bool is_open = global == 0 && !s->sizes_step;
    tess_status refused = TESS_OK;
    *n = 0;
    for (int64_t rows = s->config->training.passes; rows <= MOST_ROWS; rows++) {
        batch_size c = {.rows = rows, .busiest_rows = 1, .fills = true};
        if (global % rows != 0)
            continue;
        const tess_status status = is_open && *n > 0 ? TESS_OK : look(mem, s, rows, &c);
        if (status != TESS_OK && (!is_refused(status) || (*n == 0 && (s->sizes_step || is_open))))
            return status;
        if (status != TESS_OK) {
            refused = status;
            continue;
        }
        if (is_open)
            c = (batch_size){.rows = rows, .busiest_rows = 1, .fills = true};
        else if (*n > 0 && rows > all[0].busiest_rows)
            break; /* this one and all larger ones give a rank more rows than the first */
        all[(*n)++] = c;
    }
    if (*n > 0)
        tess_error_clear();
    TESS_CHECK(*n > 0 || refused != TESS_OK, TESS_E_INVALID,
               "training.local_batch_size=auto: no divisor of training.global_batch_size=%lld is at least "
               "training.passes=%lld and at most %d: set another of them",
               (long long)global, (long long)s->config->training.passes, MOST_ROWS);
    return *n > 0 ? TESS_OK : refused;
}

/* Drops sizes that leave ranks idle, if others do not. Returns the number of the rest. */
static int drop_idle(batch_size *all, int n)
{
    int64_t least = INT64_MAX;
    bool any_fills = false;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        least = all[i].busiest_rows < least ? all[i].busiest_rows : least;
        any_fills |= all[i].fills;
    }
    for (int i = 0; i < n; i++)
        if (all[i].busiest_rows == least && (all[i].fills || !any_fills))
            all[kept++] = all[i];
    return kept;
}

static tess_status need_of(const tess_batch_search *s, int64_t rows, double *bytes)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    TESS_TRY(configure(s, rows, &config));
    return s->need(s->self, &config, bytes);
}

/* Doubles the index until a size does not fit, then halves the gap. A size that cannot be planned counts as too large,
 * unless it is the first. */
static tess_status search_sizes(const tess_batch_search *s, const batch_size *all, int n, tess_batch_choice *found)
{
    int fit = -1, over = n;
    for (int step = 1; over - fit > 1; step *= 2) {
        const int at = over < n ? (fit + over) / 2 : fit + step < n ? fit + step : n - 1;
        double bytes = 0;
        const tess_status status = need_of(s, all[at].rows, &bytes);
        if (status != TESS_OK && ((!is_refused(status) && status != TESS_E_NOMEM) || at == 0))
            return status;
        tess_error_clear();
        if (status == TESS_OK && bytes <= s->room) {
            fit = at;
            found->rows = all[at].rows;
            found->bytes = bytes;
        } else {
            over = at;
            found->next_rows = status == TESS_OK ? all[at].rows : 0;
            found->next_bytes = bytes;
        }
    }
    found->fits = fit >= 0;
    if (!found->fits)
        *found = (tess_batch_choice){.rows = all[0].rows, .bytes = found->next_bytes};
    return TESS_OK;
}

tess_status tess_batch_choose(tess_mem *mem, const tess_batch_search *s, tess_batch_choice *found)
{
    TESS_AUTO(tess_mem_drop) batch_size *all = NULL;
    int n;
    *found = (tess_batch_choice){.fits = false};
    TESS_TRY(TESS_NEW(mem, MOST_ROWS, "sizes of a micro-batch", &all));
    TESS_TRY(list(mem, s, all, &n));
    return search_sizes(s, all, drop_idle(all, n), found);
}
