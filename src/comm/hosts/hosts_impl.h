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
 *   native.c       reductions left to MPI          hosts_message.c send and recv
 *   choice.c       who carries what, by size       session.c       this process's MPI
 *   hosts_join.c   becoming a job */
#ifndef TESS_COMM_HOSTS_HOSTS_IMPL_H
#define TESS_COMM_HOSTS_HOSTS_IMPL_H

#include "comm/hosts/choice.h"
#include "comm/hosts/session.h"
#include "comm/p2p/channel.h"
#include "comm/pieces.h"
#include "comm/reduce.h"
#include "comm/shm/meeting.h"

enum {
    HOSTS_AREAS = 4,                       /* rounds in flight */
    HOSTS_AREA_BYTES = 8 << 20,            /* size of one rank's area */
    HOSTS_LETTERS = CONTROL_IN_FLIGHT + 1, /* operations with posts in flight */
    HOSTS_TAGS = 8192                      /* operations that tags distinguish */
};

/* Tags of an operation's messages; tags of sends and receives lie above. */
enum { HOSTS_TAG_POST, HOSTS_TAG_DATA, HOSTS_TAG_KINDS };

typedef struct hosts_member {
    int host;  /* the team's number of the host, in the order of first members */
    int index; /* index among the members of the host */
} hosts_member;

/* The place of a rank's data on this host. */
typedef struct hosts_seat {
    int holder; /* index of the rank whose area holds it: itself, or its handler */
    int slot;   /* slot in the holder's area: 0: its own, 1 + k: that of the k-th rank that it handles */
} hosts_seat;

/* The handlers, in one way of carrying a host's bytes. A rank's handler on another host receives that host's share of
 * the rank's data, and sends the host's data for the rank. */
typedef struct hosts_way {
    int carriers;     /* ranks of a host that carry, at most */
    int most_sources; /* remote ranks that any rank of any host handles */
    int n_sources;
    int *sources;      /* team ranks that this rank handles, in order */
    hosts_seat *seats; /* by team rank */
} hosts_way;

/* Stages of a round that a rank reports to its host. */
typedef enum hosts_stage {
    HOSTS_SHOWN,  /* its part is in its area */
    HOSTS_LANDED, /* it has received its messages for the host */
    HOSTS_TAKEN,  /* it has finished reading the areas */
    HOSTS_STAGES
} hosts_stage;

/* Stages of an operation on memory of a device: a rank's data is shown; its messages have landed; it has read its
 * siblings' memory. */
typedef enum hosts_device_stage {
    HOSTS_DEVICE_READY,
    HOSTS_DEVICE_LANDED,
    HOSTS_DEVICE_LEFT,
    HOSTS_DEVICE_STAGES
} hosts_device_stage;

/* Rounds that a rank has completed since the team began, by stage. It alone writes them; a cache line a rank. */
typedef struct hosts_counter {
    _Alignas(64) _Atomic uint64_t rounds[HOSTS_STAGES];
    _Atomic uint64_t on_device[HOSTS_DEVICE_STAGES];
    _Atomic int32_t waits_for; /* 1 + the team rank whose message it awaits; 0: none */
} hosts_counter;

/* A subtree of an operation's tree that lies on one host, and in no larger one that does. */
typedef struct hosts_subtree {
    int begin, end; /* team ranks */
    int host;
} hosts_subtree;

/* Those of an operation, in order. */
typedef struct hosts_subtrees {
    hosts_subtree *at;
    int n;
    int most; /* most subtrees of any host */
} hosts_subtrees;

/* A post in flight. */
typedef struct hosts_letter {
    tess_post post;
    uint8_t beside[]; /* tess_control_inline_bytes of the team */
} hosts_letter;

/* Messages of one round. */
typedef struct hosts_batch {
    struct {
        wire_request *request; /* NULL: done */
        int peer;
    } * messages;
    size_t n, n_done, room;
} hosts_batch;

typedef struct hosts_rounds hosts_rounds;

/* A team's state for several hosts. */
typedef struct comm_hosts {
    wire_group *group;
    int n_hosts, mine;          /* hosts of the team; number of this rank's host */
    int index;                  /* index of this rank among the members of its host */
    hosts_member *members;      /* by team rank */
    int *ranks;                 /* team ranks, host by host */
    int *first;                 /* (n_hosts + 1) where a host's begin in `ranks` */
    hosts_subtrees all;         /* subtrees of the canonical tree over the team */
    hosts_subtrees stepwise;    /* subtrees of the trees of an operation in steps (comm/leaf_sum.h) */
    hosts_way ways[HOSTS_WAYS]; /* posts go striped */

    size_t letter_bytes;
    uint8_t *sent;          /* (HOSTS_LETTERS) letters */
    uint8_t *received;      /* (HOSTS_LETTERS, sources) letters */
    wire_request **sending; /* (HOSTS_LETTERS, n_hosts) */
    wire_request **awaited; /* (HOSTS_LETTERS, sources); NULL: received, or not requested */

    hosts_counter *counters; /* (members of the host), then their areas */
    uint8_t *areas;
    size_t used;       /* bytes of this rank's areas that were ever used, and are counted */
    uint64_t n_rounds; /* rounds of the operations before: equal on all ranks */
    hosts_rounds *rounds;
    struct hosts_linked *linked; /* NULL: memory of devices goes through the host (linked.h) */
    bool link_tried;
} comm_hosts;

static inline comm_hosts *hosts_of(const tess_team *team)
{
    return team->state;
}

/* A message in flight. */
typedef struct hosts_message {
    tess_fingerprint sent, wanted;
    wire_request *head, *answer, *data;
    bool has_begun;
    bool agreed; /* sender: the data is in flight; receiver: it has requested it */
} hosts_message;

/* How far an operation through NCCL is. */
typedef struct hosts_linked_work {
    const hosts_subtrees *subtrees;
    size_t per_round;         /* elements of a block */
    uint64_t round, n;        /* under way, in all */
    bool second;              /* the exchange of it that gathers what the first has summed */
    hosts_device_stage stage; /* the stage that siblings are awaited in */
} hosts_linked_work;

/* The state of an operation or a message. */
typedef union hosts_work {
    struct {
        shm_work meeting; /* first: shm_of gives it */
        bool moves;       /* all have met, and the data is in flight */
        hosts_linked_work linked;
    };
    channel_work local;
    hosts_message message;
} hosts_work;

/* ---- hosts_team.c */
/* Bytes of a host's shared part for a team, in addition to its control area, when `n_local` members are on that host.
 */
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

/* The team rank on `host` that stands for `rank`, of another host, there. */
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

/* Letter `i` of h->sent or h->received. */
static inline hosts_letter *hosts_letter_at(const comm_hosts *h, uint8_t *letters, size_t i)
{
    return (hosts_letter *)(void *)(letters + i * h->letter_bytes);
}

static inline int hosts_tag(const tess_work *work, int kind)
{
    return (int)(work->fp.sequence % HOSTS_TAGS) * HOSTS_TAG_KINDS + kind;
}

/* The subtrees of the operation's tree, or of the trees of its steps one after the other; until the next is asked for.
 */
const hosts_subtrees *hosts_subtrees_of(const tess_work *work);

/* ---- hosts_posts.c */
/* Sends this rank's post and what lies next to it to the other hosts. */
tess_status hosts_send_post(tess_work *work);
/* Puts posts that have come into place, of all operations in flight. */
tess_status hosts_receive_posts(tess_team *team);
/* The rank to blame for the missing post of `rank`: itself, or its handler on this host when the board says that the
 * post was made. */
int hosts_late(const tess_work *work, int rank);

/* ---- rounds.c ---- */
/* One pass over the data of an operation. Elements are counted inside blocks: a gather's pass goes over the block that
 * each rank shows, a reduction's over the block that each rank is to get. */
typedef struct hosts_pass {
    bool folds;     /* between show and receive ranks of a host add what they show */
    size_t block;   /* elements of the largest block */
    size_t element; /* bytes in an area for each of them, everything together */
    tess_status (*receive)(tess_work *work, uint64_t round); /* requests the messages of other hosts */
    tess_status (*show)(tess_work *work, uint64_t round);
    tess_status (*fold)(tess_work *work, uint64_t round);
    void (*take)(tess_work *work, uint64_t round);
} hosts_pass;

struct hosts_rounds {
    const hosts_way *way;
    size_t round_bytes; /* approximate size of a rank's part of a round */
    hosts_pass pass[2];
    int n_passes, at;
    uint64_t base, n;                      /* rounds before the pass, and its rounds */
    uint64_t shown, folded, landed, taken; /* rounds of the pass that this rank has done */
    size_t per_round;                      /* elements */
    const hosts_subtrees *subtrees;        /* subtrees of a reduction */
    bool siblings_read;                    /* siblings read our buffers: the pass ends when they have */
    hosts_batch sends[HOSTS_AREAS], receives[HOSTS_AREAS];
    wire_request *native; /* instead of passes */
};

/* Begins to move the data; all have posted. */
tess_status hosts_begin(tess_work *work);
/* Progresses without waiting. True: complete, or failed (work->status). */
bool hosts_advance(tess_work *work);
/* Team ranks that it waits for; returns how many. */
int hosts_missing(const tess_work *work, int *ranks);

/* The elements of a block that are in the round. */
static inline size_t hosts_span(const tess_work *work, uint64_t round, size_t block, size_t *first)
{
    const hosts_rounds *r = hosts_of(work->team)->rounds;
    *first = (size_t)(round - r->base) * r->per_round;
    size_t left = block > *first ? block - *first : 0;
    return left < r->per_round ? left : r->per_round;
}

/* ---- batch.c */
/* Elements of the block that a rank shows (gathers), or that it gets (reductions). */
size_t hosts_block_of(const tess_work *work, int rank);

/* The runs of a block's elements [first, first + count), as tess_pieces_next. `shard`: place in the rank's part of the
 * result. */
bool hosts_next_run(const tess_work *work, int rank, size_t first, size_t count, tess_byte_run_cursor *cursor,
                    tess_byte_run *run);

/* Starts a message of the round; 0 bytes: nothing. `to`, `from`: team ranks. */
tess_status hosts_send(tess_work *work, uint64_t round, const void *data, size_t bytes, int to);
tess_status hosts_receive(tess_work *work, uint64_t round, void *data, size_t bytes, int from);

/* *done: all messages of the batch are. */
tess_status hosts_test_batch(hosts_batch *batch, bool *done);

/* hosts_message.c */
extern const comm_link hosts_link;

/* ---- Plans of operations: each fills the passes of team->hosts->rounds. */
void hosts_plan_gather(tess_work *work);   /* hosts_gather.c */
void hosts_plan_fold(tess_work *work);     /* fold.c */
void hosts_plan_straight(tess_work *work); /* straight.c */
/* native.c: MPI does the whole operation. */
bool hosts_is_native(const tess_work *work);
tess_status hosts_begin_native(tess_work *work);
/* The gathering half of a large all_reduce. */
hosts_pass hosts_pass_of_parts(tess_work *work);

/* Elements of part `rank` of an all_reduce; that rank adds it up. */
static inline size_t hosts_part(const tess_work *work, int rank, size_t *begin)
{
    size_t W = (size_t)work->team->size, part = ((work->n + W - 1) / W + 63) / 64 * 64;
    *begin = (size_t)rank * part < work->n ? (size_t)rank * part : work->n;
    return work->n - *begin < part ? work->n - *begin : part;
}

#endif
