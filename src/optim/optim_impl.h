/* Declarations that the files of this folder share: an optimizer, and the functions between its files.
 *
 * - optimizer.c: create, destroy, the order of a step
 * - state_layout.c: which rule updates a span, and where its state is stored
 * - adamw.c: spans that the device's AdamW kernel updates
 * - optim_blocks.c: all other spans, a block of elements at a time
 * - rules.c: updates a block in float32
 * - state_coding.c: converts state between float32 and its stored type
 * - muon.c: Muon's updates of whole matrices
 * - optim_homes.c: brings spans from their home
 * - journal.c: records from which an interrupted update resumes */
#ifndef TESS_OPTIM_OPTIM_IMPL_H
#define TESS_OPTIM_OPTIM_IMPL_H

#include "device/adamw.h"
#include "device/home/home.h"
#include "device/moments.h"
#include "optim/journal.h"
#include "tessera/optim.h"

enum { OPTIM_BLOCK = TESS_STATE_BLOCK, OPTIM_MOMENTS = 2, OPTIM_ARRAYS = 3 };

typedef enum optim_rule { OPTIM_FROZEN, OPTIM_ADAMW_ROW, OPTIM_ADAMW, OPTIM_ADAM, OPTIM_SGD, OPTIM_MUON } optim_rule;
typedef enum optim_coding { OPTIM_F32, OPTIM_BF16, OPTIM_8BIT } optim_coding;

/* How the optimizer treats a span. Its blocks have OPTIM_BLOCK elements each; the last one of a run may have fewer.
 * A run is a number of elements that are contiguous in the whole tensor, or a row of an 8-bit matrix. */
typedef struct optim_param {
    optim_rule rule;
    optim_coding coding;
    int n_moments;
    int64_t n, run;
    size_t values[OPTIM_MOMENTS], absmax[OPTIM_MOMENTS]; /* offsets in the state, in bytes */
    size_t state_bytes;                                  /* bytes of all its state, from the first offset on */
    /* Number of its first element (ADAMW_ROW) or of its first block (other rules), among all spans of that kind */
    int64_t first;
} optim_param;

struct tess_optimizer {
    tess_mem *mem;
    optim_journal *journal;           /* NULL: no journal */
    tess_optimizer_observer observer; /* callback during updates with a journal; NULL: none */
    void *observer_self;
    tess_stream *stream, *own_stream;
    const void *owner; /* owner of the spans; NULL: unknown */
    tess_matrix_exchange exchange;
    tess_optimizer_options options;
    tess_home *home;
    tess_home_block *block; /* the state */
    char *state;            /* its address at home */
    float *work;            /* work space of Muon; NULL: no span uses Muon */
    optim_param *params;    /* (n_spans) rule and state of each span */
    int n_spans;
    tess_code_map maps[OPTIM_MOMENTS]; /* codes of the first moment (signed) and of the second */
};

/* The values that all spans of a step share. */
typedef struct optim_update {
    tess_optimizer *optimizer;
    int64_t step;
    float lr;
    float decay[2];         /* Muon: factor of a weight, without and with weight decay */
    tess_adamw_update call; /* arguments of the AdamW kernel, without the elements */
    int n_lanes;            /* number of lanes of the journal */
    int64_t number;         /* number of the current span, for the observer */
} optim_update;

static inline void optim_notify(const optim_update *u, const char *moment)
{
    if (u->optimizer->observer != NULL)
        u->optimizer->observer(u->optimizer->observer_self, moment, u->number);
}

/* state_layout.c: sizes and offsets of all state, computed from the spans. */
typedef struct optim_layout {
    size_t state_bytes, work_elements;
    bool has_row, has_blocks, has_muon;
} optim_layout;
tess_status optim_layout_of(const tess_span *spans, int n_spans, const tess_optimizer_options *options, int n_ranks,
                            optim_param *params, optim_layout *layout);

/* adamw.c */
tess_status optim_adamw_span(optim_update *u, const tess_span *span, const optim_param *param);
/* Updates all elements of a span, with its moments. */
tess_status optim_adamw_elements(const optim_update *u, const tess_span *span, float *m, float *v);

/* optim_blocks.c: a pass over the blocks of a span. `update` changes one block, elements [begin, begin + n): its
 * weights, its moments or both, as the pass says. */
typedef struct optim_pass optim_pass;
struct optim_pass {
    optim_update *u;
    const tess_span *span;
    const optim_param *param;
    bool changes_weights, changes_moments;
    tess_status (*update)(const optim_pass *pass, int64_t begin, int n);
    uint64_t random[OPTIM_MOMENTS]; /* random streams for rounding bfloat16 moments */
    const float *direction;         /* (n) the direction that Muon computed */
    float rate;
    int64_t first; /* the journal's number of its first block */
};
tess_status optim_blocks_run(optim_pass *pass);
int64_t optim_blocks_count(const optim_param *param);

/* rules.c */
tess_status optim_rule_update(const optim_pass *pass, int64_t begin, int n);

/* state_coding.c. The first returns the random stream of a span's moment `k` in a step. The next two load and store
 * moment `k` of one block, elements [begin, begin + n). */
uint64_t optim_random_of(const optim_update *u, const tess_span *span, int k);
tess_status optim_moment_load(const optim_pass *pass, int k, int64_t begin, int n, float *to);
void optim_moment_store(const optim_pass *pass, int k, int64_t begin, int n, const float *from);
size_t optim_value_bytes(optim_coding coding);

/* optim_homes.c: brings, waits for and lets go span `i`. */
typedef enum optim_touch {
    OPTIM_ALL,
    OPTIM_MOMENTA, /* only the moments */
    OPTIM_WEIGHTS  /* the weights; the moments are only read */
} optim_touch;
void optim_bring(const optim_update *u, const tess_span *spans, int i, optim_touch touch);
tess_status optim_wait(const optim_update *u, const tess_span *spans, int i, optim_touch touch);
void optim_let_go(const optim_update *u, const tess_span *spans, int i, optim_touch touch);
/* Whether weights, gradients or state are away from the device that updates them. Then update_away updates all spans,
 * which are those of AdamW. */
bool optim_is_away(const tess_optimizer *optimizer);
tess_status optim_update_away(optim_update *u, const tess_span *spans);

/* muon.c */
tess_status optim_muon(optim_update *u, const tess_span *spans);
/* The number of floats of work space that the orthogonalisation of a matrix (rows, columns) needs. */
size_t optim_muon_work(int64_t rows, int64_t columns);
/* The most matrices that ranks compute at the same time: one on each rank. */
enum { OPTIM_MOST_TURNS = 4096 };
static inline int optim_turns(int n_ranks)
{
    return n_ranks < OPTIM_MOST_TURNS ? n_ranks : OPTIM_MOST_TURNS;
}

#endif
