/* Options of how ranks share the model: the degrees of the mesh's axes, FSDP, pipelines. */
#ifndef TESS_MESH_PARALLELISM_SECTION_H
#define TESS_MESH_PARALLELISM_SECTION_H

#include "base/core/options.h"
#include "tessera/mesh.h"

typedef struct tess_parallelism_section {
    int64_t data_parallel_replicate_degree, data_parallel_shard_degree;
    int64_t fsdp_reshard_after_forward, fsdp_prefetch;
    int64_t fsdp_unit_blocks, fsdp_unit_bytes;
    bool fsdp_unit_mixed;
    int shard_strategy; /* tess_strategy */
    int64_t tensor_parallel_degree;
    bool enable_sequence_parallel, enable_async_tensor_parallel;
    int64_t pipeline_parallel_degree, pipeline_parallel_layers_per_stage;
    int64_t pipeline_parallel_first_stage_less_layers, pipeline_parallel_last_stage_less_layers;
    int pipeline_parallel_schedule; /* tess_pipeline_kind */
    char pipeline_parallel_schedule_csv[TESS_TEXT_SIZE];
    tess_text_list pipeline_parallel_split_points;
    tess_text_list rank_order;
    int inside_hosts; /* 1 + the number of an axis; 0: none */
} tess_parallelism_section;

extern const tess_option_section tess_section_parallelism;

#endif
