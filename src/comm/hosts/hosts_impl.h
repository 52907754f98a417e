/* Teams over several hosts.
 *
 * Each host has a control area for the whole team, as a team of one host has (shm/control.h). A rank's post, with what
 * it shows next to it, goes to every other host in one message; there one rank, its handler, puts it into place and
 * arrives on its behalf. So meeting, comparison and short data work as in shared memory (shm/shm_exchange.c).
 *
 * Large data goes in rounds, through areas that the ranks of a host share (rounds.c). For each round a rank shows its
 * part, its handlers on the other hosts receive it, and all take it from there: every byte crosses to a host once, and
 * all ranks of a host carry their share of it. Sums cross as partials: the subtrees of the canonical tree that lie
 * wholly on a host (reduce.h), so the bits are those of one host.
 *
 *   hosts_team.c   members, subtrees, memory       hosts_posts.c   posts to and from other hosts
 *   rounds.c       the pipeline (with batch.c)     hosts_gather.c  all_gather, broadcast and their like
 *   fold.c         reductions                      straight.c      all_to_all and its like, rank to rank
 *   linked.c       memory of GPUs, by NCCL (with linked_kernels.c)
 *   native.c       reductions left to MPI          hosts_message.c send and recv (with pair.c, for GPUs)
 *   choice.c       who carries what, by size       session.c       this process's MPI
 *   hosts_join.c   becoming a job */
#ifndef TESS_COMM_HOSTS_HOSTS_IMPL_H
#define TESS_COMM_HOSTS_HOSTS_IMPL_H

#include "comm/hosts/choice.h"
#include "comm/nccl/nccl_library.h"
#include "comm/hosts/session.h"
#include "comm/p2p/channel.h"
#include "comm/pieces.h"
#include "comm/reduce.h"
#include "comm/shm/meeting.h"

enum {
    HOSTS_AREAS = 4,                       /* number of rounds in flight */
    HOSTS_AREA_BYTES = 8 << 20,            /* size of one rank's area */
    HOSTS_LETTERS = CONTROL_IN_FLIGHT + 1, /* number of operations with posts in flight */
    HOSTS_TAGS = 8192                      /* number of operations that have distinct tags */
};

/* Tags of an operation's messages. Larger tags belong to sends and receives. */
enum { HOSTS_TAG_POST, HOSTS_TAG_DATA, HOSTS_TAG_KINDS };

typedef struct hosts_member {
    int host;  /* number of the host in the team; hosts are ordered by their first member */
    int index; /* index among the members of the host */
} hosts_member;

/* The place of a rank's data on this host. */
typedef struct hosts_seat {
    int holder; /* index of the rank whose area holds the data: the rank itself, or its handler */
    int slot;   /* slot in the holder's area; 0: the holder's own data; 1 + k: data of the k-th rank that it handles */
} hosts_seat;

/* The handlers, for one way of dividing a host's transfers among its ranks. A rank's handler on another host
 * receives the rank's data for that host, and sends that host's data to the rank. */
typedef struct hosts_way {
    int carriers;     /* maximum number of ranks of a host that transfer data */
    int most_sources; /* maximum number of remote ranks that any rank of any host handles */
    int n_sources;
    int *sources;      /* team ranks that this rank handles, in order */
    hosts_seat *seats; /* (size) place of each team rank's data */
} hosts_way;

/* Stages of a round. Each rank counts them for the other ranks of its host. */
typedef enum hosts_stage {
    HOSTS_SHOWN,  /* the rank's part is in its area */
    HOSTS_LANDED, /* the rank has received its messages for the host */
    HOSTS_TAKEN,  /* the rank has finished reading the areas */
    HOSTS_STAGES
} hosts_stage;

/* Stages of an operation on device memory: a rank's data is ready; its messages have arrived; it has finished
 * reading its siblings' memory. */
typedef enum hosts_device_stage {
    HOSTS_DEVICE_READY,
    HOSTS_DEVICE_LANDED,
    HOSTS_DEVICE_LEFT,
    HOSTS_DEVICE_STAGES
} hosts_device_stage;

/* Number of rounds that a rank has completed since the team was created, by stage. Only that rank writes them. Each
 * rank has its own cache line. */
typedef struct hosts_counter {
    _Alignas(64) _Atomic uint64_t rounds[HOSTS_STAGES];
    _Atomic uint64_t on_device[HOSTS_DEVICE_STAGES];
    _Atomic int32_t waits_for; /* 1 + team rank whose message the rank waits for; 0: none */
} hosts_counter;

/* A maximal subtree of an operation's summation tree whose ranks are all on one host. */
typedef struct hosts_subtree {
    int begin, end; /* range of team ranks */
    int host;
} hosts_subtree;

/* The subtrees of an operation, in order. */
typedef struct hosts_subtrees {
    hosts_subtree *at;
    int n;
    int most; /* maximum number of subtrees on one host */
} hosts_subtrees;

/* A post in flight between hosts. */
typedef struct hosts_letter {
    tess_post post;
    uint8_t beside[]; /* data next to the post; tess_control_inline_bytes of the team */
} hosts_letter;

/* The messages of one round. */
typedef struct hosts_batch {
    struct {
        wire_request *request; /* NULL: the message is complete */
        int peer;
    } * messages;
    size_t n, n_done, room;
} hosts_batch;

typedef struct hosts_rounds hosts_rounds;

/* State of a team that spans several hosts. */
typedef struct comm_hosts {
    wire_group *group;
    int n_hosts, mine;          /* number of hosts in the team; number of this rank's host */
    int index;                  /* index of this rank among the members of its host */
    hosts_member *members;      /* (size) host and index of each team rank */
    int *ranks;                 /* team ranks, grouped by host */
    int *first;                 /* (n_hosts + 1) first element of each host in `ranks` */
    hosts_subtrees all;         /* subtrees of the canonical tree over the team */
    hosts_subtrees stepwise;    /* subtrees of the trees of an operation with several steps (comm/leaf_sum.h) */
    hosts_way ways[HOSTS_WAYS]; /* handlers of each way; posts are always sent striped */

    size_t letter_bytes;
    uint8_t *sent;          /* (HOSTS_LETTERS) letters sent */
    uint8_t *received;      /* (HOSTS_LETTERS, sources) letters received */
    wire_request **sending; /* (HOSTS_LETTERS, n_hosts) requests of letters being sent */
    wire_request **awaited; /* (HOSTS_LETTERS, sources) requests of letters; NULL: received, or not requested yet */

    hosts_counter *counters; /* (members of the host), followed by their areas */
    uint8_t *areas;
    size_t used;       /* bytes of this rank's areas that have been used, and are counted in the pool */
    uint64_t n_rounds; /* number of rounds in earlier operations; equal on all ranks */
    hosts_rounds *rounds;
    struct hosts_linked *linked; /* NULL: data on devices passes through the host (linked.h) */
    bool link_tried;
    struct hosts_pair *pairs; /* links for messages (pair.c) */
    bool refuses;             /* this rank has no links for messages */
} comm_hosts;

static inline comm_hosts *hosts_of(const tess_team *team)
{
    return team->state;
}

/* The sides of a message tell each other this before its data moves. */
typedef struct hosts_note {
    tess_fingerprint fp;
    /* The sender sets 1 if NCCL can move the data. The receiver sets the message's number, from 1, among those that
     * NCCL moves from the one to the other. 0: the data passes through the host. */
    uint64_t number;
    nccl_id id; /* id of their link; only in the answer with number 1 */
} hosts_note;

/* State of a message in flight. */
typedef struct hosts_message {
    hosts_note sent, wanted;
    wire_request *head, *answer, *data;
    int out_tag, in_tag; /* tags of what this rank tells, and of what it is told */
    int step;
    uint64_t number; /* the answer's number, or 0 if the two have no link after all */
} hosts_message;

/* Progress of an operation through NCCL. */
typedef struct hosts_linked_work {
    const hosts_subtrees *subtrees;
    size_t per_round;         /* number of a block's elements in each round */
    uint64_t round, n;        /* current round; total number of rounds */
    bool second;              /* the current exchange is the one that gathers the sums */
    hosts_device_stage stage; /* the stage for which this rank awaits its siblings */
} hosts_linked_work;

/* State of an operation or a message. */
typedef union hosts_work {
    struct {
        shm_work meeting; /* must be the first member: shm_of returns it */
        bool moves;       /* all ranks have met, and the data is being moved */
        hosts_linked_work linked;
    };
    channel_work local;
    hosts_message message;
} hosts_work;

/* ---- hosts_team.c */
/* Returns the size of a host's shared memory for a team, in addition to its control area. `n_local`: number of
 * members on that host. */
uint64_t hosts_bytes(int n_local);
tess_status hosts_attach(tess_team *team, uint8_t *shared);
void hosts_detach(tess_team *team);
void hosts_give_up(tess_team *team);

static inline int hosts_n_local(const comm_hosts *h, int host)
{
    return h->first[host + 1] - h->first[host];
}

static inline int hosts_carriers(const comm_hosts *h, const hosts_way *way, int host)
{
    int n = hosts_n_local(h, host);
    return n < way->carriers ? n : way->carriers;
}

/* Returns the team rank on `host` that handles `rank`, which is on another host. */
static inline int hosts_handler(const comm_hosts *h, const hosts_way *way, int host, int rank)
{
    return h->ranks[h->first[host] + h->members[rank].index % hosts_carriers(h, way, host)];
}

static inline int hosts_local_rank(const comm_hosts *h, int index)
{
    return h->ranks[h->first[h->mine] + index];
}

static inline uint8_t *hosts_area(const comm_hosts *h, int index, uint64_t round)
{
    return h->areas + ((uint64_t)index * HOSTS_AREAS + round % HOSTS_AREAS) * HOSTS_AREA_BYTES;
}

/* Returns letter `i` of h->sent or h->received. */
static inline hosts_letter *hosts_letter_at(const comm_hosts *h, uint8_t *letters, size_t i)
{
    return (hosts_letter *)(void *)(letters + i * h->letter_bytes);
}

static inline int hosts_tag(const tess_work *work, int kind)
{
    return (int)(work->fp.sequence % HOSTS_TAGS) * HOSTS_TAG_KINDS + kind;
}

/* Returns the subtrees of the operation's tree, or of the trees of its steps, one after the other. The result is
 * valid until the next call. */
const hosts_subtrees *hosts_subtrees_of(const tess_work *work);

/* ---- hosts_posts.c */
/* Sends this rank's post, and the data next to it, to the other hosts. */
tess_status hosts_send_post(tess_work *work);
/* Stores received posts in the control area, for all operations in flight. */
tess_status hosts_receive_posts(tess_team *team);
/* Returns the rank to blame for the missing post of `rank`: that rank, or its handler on this host if the board
 * shows that the post was made. */
int hosts_late(const tess_work *work, int rank);

/* ---- rounds.c ---- */
/* One pass over the data of an operation. Elements are counted inside blocks. In a gather, the block is the one that
 * each rank shows; in a reduction, it is the one that each rank receives. */
typedef struct hosts_pass {
    bool folds;     /* between show and receive, ranks of a host add the data that they show */
    size_t block;   /* number of elements in the largest block */
    size_t element; /* total bytes in an area for each element of a block */
    tess_status (*receive)(tess_work *work, uint64_t round); /* requests the messages of other hosts */
    tess_status (*show)(tess_work *work, uint64_t round);
    tess_status (*fold)(tess_work *work, uint64_t round);
    void (*take)(tess_work *work, uint64_t round);
} hosts_pass;

struct hosts_rounds {
    const hosts_way *way;
    size_t round_bytes; /* approximate size of a rank's part in a round */
    hosts_pass pass[2];
    int n_passes, at;
    uint64_t base, n;                      /* number of rounds before the pass; number of rounds in the pass */
    uint64_t shown, folded, landed, taken; /* number of rounds of the pass that this rank has completed in each stage */
    size_t per_round;                      /* number of elements of a block in each round */
    const hosts_subtrees *subtrees;        /* subtrees of the summation tree of a reduction */
    /* siblings read our buffers, so the pass ends only when they have finished */
    bool siblings_read;
    hosts_batch sends[HOSTS_AREAS], receives[HOSTS_AREAS];
    wire_request *native; /* MPI's own reduction, used instead of passes */
};

/* Starts moving the data. All ranks have posted. */
tess_status hosts_begin(tess_work *work);
/* Progresses without waiting. Returns true if the operation is complete or has failed (work->status). */
bool hosts_advance(tess_work *work);
/* Lists the team ranks that the work waits for. Returns their number. */
int hosts_missing(const tess_work *work, int *ranks);

/* Returns the number of a block's elements in the round, and the first of them. */
static inline size_t hosts_span(const tess_work *work, uint64_t round, size_t block, size_t *first)
{
    const hosts_rounds *r = hosts_of(work->team)->rounds;
    *first = (size_t)(round - r->base) * r->per_round;
    size_t left = block > *first ? block - *first : 0;
    return left < r->per_round ? left : r->per_round;
}

/* ---- batch.c */
/* Returns the size of the block that a rank shows (gather) or receives (reduction). */
size_t hosts_block_of(const tess_work *work, int rank);

/* Walks the runs of a block's elements [first, first + count), like tess_pieces_next. `shard`: offset in the rank's
 * part of the result. */
bool hosts_next_run(const tess_work *work, int rank, size_t first, size_t count, tess_byte_run_cursor *cursor,
                    tess_byte_run *run);

/* Start a message of the round. If `bytes` is 0, nothing is sent. `to`, `from`: team ranks. */
tess_status hosts_send(tess_work *work, uint64_t round, const void *data, size_t bytes, int to);
tess_status hosts_receive(tess_work *work, uint64_t round, void *data, size_t bytes, int from);

/* Tests the messages of a batch. *done: all of them are complete. */
tess_status hosts_test_batch(hosts_batch *batch, bool *done);

/* implemented in hosts_message.c */
extern const comm_link hosts_link;

/* ---- pair.c: messages that NCCL moves. The receiver numbers them, and both sides move them in this order, one at a
 * time. The two connect at the first message. If they fail, a warning says why, and data passes through the host. */
typedef struct hosts_pair hosts_pair;
/* Whether this side of the message can use NCCL. */
bool hosts_pair_can(const tess_work *work);
/* Numbers the message in m->wanted if both sides can use NCCL. The receiver calls this before it answers. */
tess_status hosts_pair_number(tess_work *work, hosts_message *m);
/* Sets m->number, after the answer. *is_agreed false: the two still connect. */
tess_status hosts_pair_agree(tess_work *work, hosts_message *m, bool *is_agreed);
/* Moves the data when it is the message's turn. */
tess_status hosts_pair_move(tess_work *work, uint64_t number, bool *done);
/* Abandons the messages of a broken team. */
void hosts_pairs_give_up(const tess_team *team);
/* Closes the links. Collective if `orderly`. */
void hosts_pairs_close(const tess_team *team, bool orderly);

/* ---- Plans of operations: each fills the passes of team->hosts->rounds. */
void hosts_plan_gather(tess_work *work);   /* hosts_gather.c */
void hosts_plan_fold(tess_work *work);     /* fold.c */
void hosts_plan_straight(tess_work *work); /* straight.c */
/* MPI performs the whole operation (native.c). */
bool hosts_is_native(const tess_work *work);
tess_status hosts_begin_native(tess_work *work);
/* Returns the pass for the gathering half of a large all_reduce. */
hosts_pass hosts_pass_of_parts(tess_work *work);

/* Returns the number of elements in part `rank` of an all_reduce. That rank sums the part. */
static inline size_t hosts_part(const tess_work *work, int rank, size_t *begin)
{
    size_t W = (size_t)work->team->size, part = ((work->n + W - 1) / W + 63) / 64 * 64;
    *begin = (size_t)rank * part < work->n ? (size_t)rank * part : work->n;
    return work->n - *begin < part ? work->n - *begin : part;
}

#endif
