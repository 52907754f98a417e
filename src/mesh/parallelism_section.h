/* Options of how ranks share the model: the degrees of the mesh's axes, FSDP, pipelines. */
#ifndef TESS_MESH_PARALLELISM_SECTION_H
#define TESS_MESH_PARALLELISM_SECTION_H

#include "base/core/options.h"
#include "tessera/mesh.h"

/* clang-format off */
#define TESS_PARALLELISM_OPTIONS(OPTION)                                                                               \
    OPTION(DEGREE, parallelism, data_parallel_replicate_degree, "dp_replicate", "-1", -1, 65536,                       \
           "number of replicas of the sharded model; -1: 1; with hybrid: what the shard degree leaves, or one on "     \
           "each host")                                                                                                \
    OPTION(DEGREE, parallelism, data_parallel_shard_degree, "dp_shard", "-1", -1, 65536,                               \
           "number of ranks that share one copy of the model; -1: all ranks, divided by the number of replicas")       \
    OPTION(                                                                                                            \
        INT, parallelism, fsdp_reshard_after_forward, CALLS, "1", 0, 65536,                                            \
        "1: free gathered parameters after forward; 0: keep them until backward; n divides the shard degree: each "    \
        "rank keeps 1/n, gathered in backward over n ranks (a host that has all n keeps one shared copy instead)")     \
    OPTION(INT, parallelism, fsdp_prefetch, CALLS, "1", 0, 64,                                                         \
           "number of FSDP units gathered before they are used")                                                       \
    OPTION(INT, parallelism, fsdp_unit_blocks, LAYOUT, "1", 1, 1 << 20,                                                \
           "merge neighbouring layers into FSDP units of at least this many layers")                                   \
    OPTION(BYTES, parallelism, fsdp_unit_bytes, LAYOUT, "0", 0, 1LL << 50,                                             \
           "merge neighbouring layers into FSDP units of at least this many bytes of gathered parameters, such as "    \
           "25MiB")                                                                                                    \
    OPTION(BOOL, parallelism, fsdp_unit_mixed, LAYOUT, "false",                                                        \
           "allow the embedding and the head to be merged with layers")                                                \
    /* tess_strategy */                                                                                                \
    OPTION(CHOICE, parallelism, shard_strategy, LAYOUT, "full", "none|zero1|zero2|full|hybrid",                        \
           "state that ranks share; none: nothing (DDP); zero1: optimizer state; zero2: also gradients; full: also "   \
           "parameters; hybrid: full within replicas")                                                                 \
    OPTION(DEGREE, parallelism, context_parallel_degree, "cp", "1", 1, 512,                                            \
           "number of ranks that divide the tokens of each micro-batch, for long rows; a power of two; "               \
           "training.context_leaves is twice as many or more")                                                         \
    /* tess_context_method */                                                                                          \
    OPTION(CHOICE_ALSO, parallelism, context_parallel_method, CALLS, "ulysses", "gather|ulysses|ring",                 \
           "allgather||alltoall",                                                                                      \
           "attention of ranks that divide tokens; ulysses: each has some key heads; gather: each has its own "        \
           "queries and all keys, for fewer key heads than ranks; ring: the same, but keys travel in leaves, which "   \
           "takes least memory")                                                                                       \
    /* tess_balancer */                                                                                                \
    OPTION(CHOICE_ALSO, parallelism, context_parallel_load_balancer, LAYOUT_AND_BITS, "zigzag", "zigzag|contiguous",   \
           "headtail|", "order of the leaves, and so the tokens of each rank; zigzag: from both ends of the rows")     \
    OPTION(DEGREE, parallelism, tensor_parallel_degree, "tp", "1", 1, 4096,                                            \
           "number of ranks that share every layer, each with some of its heads, channels and columns of tables")      \
    OPTION(BOOL, parallelism, enable_sequence_parallel, CALLS, "true",                                                 \
           "ranks that share layers also share the stream between layers, each with some of its rows; false: each "    \
           "has all rows")                                                                                             \
    OPTION(BOOL, parallelism, enable_async_tensor_parallel, NOTHING, "false",                                          \
           "accepted for torchtitan's configurations; changes nothing, because exchanges are one copy into shared "    \
           "memory")                                                                                                   \
    OPTION(INT, parallelism, expert_parallel_degree, LAYOUT, "1", 1, 1024,                                             \
           "number of ranks that divide the experts of each layer: neighbours with other micro-batches or tokens, "    \
           "times tensor_parallel_degree; each has whole experts, and tokens go to the ranks of their experts")        \
    OPTION(INT, parallelism, expert_tensor_parallel_degree, NOTHING, "1", 1, 4096,                                     \
           "accepted for torchtitan's configurations; only 1 works with expert_parallel_degree, because ranks that "   \
           "divide experts have whole ones")                                                                           \
    OPTION(DEGREE, parallelism, pipeline_parallel_degree, "pp", "1", 1, 4096,                                          \
           "number of stages that the layers are divided into; each stage has its own ranks")                          \
    /* tess_pipeline_kind */                                                                                           \
    OPTION(CHOICE_ALSO, parallelism, pipeline_parallel_schedule, LAYOUT, "1f1b",                                       \
           "gpipe|1f1b|interleaved|zb_h1|zbv|dualpipev", "GPipe|1F1B|Interleaved1F1B||ZBVZeroBubble|DualPipeV",        \
           "order of forwards and backwards; the last four give a rank several stages or split the backward")          \
    OPTION(PATH, parallelism, pipeline_parallel_schedule_csv, CALLS, "",                                               \
           "CSV file with another order: a row for each rank, cells such as 0F3 (stage, one of F, B, I, W, "           \
           "micro-batch); pipeline_parallel_schedule then only decides which rank has which stage")                    \
    OPTION(INT, parallelism, pipeline_parallel_layers_per_stage, LAYOUT, "0", 0, 65536,                                \
           "layers in each stage, which determines how many stages a rank has; 0: the schedule's 1 or 2")              \
    OPTION(                                                                                                            \
        INT, parallelism, pipeline_parallel_first_stage_less_layers, LAYOUT, "-1", -1, 65536,                          \
        "cost of the embedding, in layers, when layers are divided into stages; -1: estimated from its operations")    \
    OPTION(INT, parallelism, pipeline_parallel_last_stage_less_layers, LAYOUT, "-1", -1, 65536,                        \
           "cost of the head, in layers, when layers are divided into stages; -1: estimated from its operations")      \
    OPTION(LIST, parallelism, pipeline_parallel_split_points, LAYOUT,                                                  \
           "first layer of each stage but the first, such as layers.4, in place of a division by cost")                \
    OPTION(LIST, parallelism, rank_order, LAYOUT,                                                                      \
           "rank at each place of the mesh: ranks and ranges such as 0-3 or 0-6:2; or the order in which axes "        \
           "vary, such as tp-pp-dp; empty: tp-dp-pp, the fastest axis first")                                          \
    /* 1 + the number of an axis; 0: none */                                                                           \
    OPTION(CHOICE, parallelism, inside_hosts, LAYOUT, "none", "none" TESS_AXIS_ROWS(AXIS_CHOICE),                      \
           "axis whose groups must each be on one host: ranks are reordered if they are not")
/* clang-format on */

typedef enum tess_context_method {
    TESS_CONTEXT_GATHER,
    TESS_CONTEXT_ULYSSES,
    TESS_CONTEXT_RING,
    TESS_CONTEXT_METHODS
} tess_context_method;
static inline const char *tess_context_method_name(int method)
{
    static const char *const names[TESS_CONTEXT_METHODS] = {"gather", "ulysses", "ring"};
    return names[method];
}

typedef enum tess_balancer { TESS_BALANCER_ZIGZAG, TESS_BALANCER_CONTIGUOUS } tess_balancer;

typedef struct tess_parallelism_section {
    TESS_PARALLELISM_OPTIONS(TESS_OPTION_FIELD)
} tess_parallelism_section;

extern const tess_option_section tess_section_parallelism;

#endif
