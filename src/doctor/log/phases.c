/* Finds what a program was doing from the frames of its stack. A table lists files and functions of common
 * libraries, and the names that programs use for the same tasks. */
#include <string.h>

#include "doctor/log/log_impl.h"

/* How strongly a row's words show the phase. */
typedef enum phase_strength {
    PHASE_WEAK,  /* a stronger phase of a frame further out replaces it */
    PHASE_USUAL, /* the innermost frame of this strength counts */
    PHASE_STRONG /* it counts wherever its frame is in the stack */
} phase_strength;

/* A row fits a frame whose path contains `path` and whose function begins with `function` ("" fits any). If `path`
 * has no slash, it must be in the last two parts of the frame's path. */
typedef struct phase_row {
    const char *path, *function, *phase;
    phase_strength strength;
} phase_row;

#define DATA "loading data"
#define TOKENS "tokenising text"
#define BUILD "building the model"
#define READ "reading a checkpoint"
#define WRITE "writing a checkpoint"
#define GROUP "setting up the process group"
#define COLLECTIVE "a collective"
#define FORWARD "the forward pass"
#define BACKWARD "the backward pass"
#define OPTIMIZER "the optimizer's step"
#define COMPILE "compiling code"
#define LAUNCH "starting a kernel of Triton"
#define EVALUATE "evaluation"
#define GENERATE "generation"
#define CONFIG "reading arguments or configuration"
#define IMPORT "importing a module"
#define FETCH "fetching files from a server"
#define REQUEST "a request to a server"
#define TRACK "logging to a tracker"

static const phase_row rows[] = {
    {"importlib/", "", IMPORT, PHASE_STRONG},
    {"<frozen importlib", "", IMPORT, PHASE_STRONG},
    {"ctypes/__init__", "", IMPORT, PHASE_USUAL},
    {"-packages/", "<module>", IMPORT, PHASE_STRONG}, /* The library then reads a configuration of its own. */
    {"", "<module>", IMPORT, PHASE_USUAL},
    {"import_utils", "", IMPORT, PHASE_USUAL},
    {"lazy_loader", "", IMPORT, PHASE_WEAK},
    {"huggingface_hub/", "", FETCH, PHASE_USUAL},
    {"urllib3/", "", REQUEST, PHASE_WEAK},
    {"requests/", "", REQUEST, PHASE_WEAK},
    {"botocore/", "", REQUEST, PHASE_WEAK},
    {"httpx/", "", REQUEST, PHASE_WEAK},
    {"aiohttp/", "", REQUEST, PHASE_WEAK},
    {"wandb/", "", TRACK, PHASE_USUAL},
    {"mlflow/", "", TRACK, PHASE_USUAL},
    {"tensorboard/", "", TRACK, PHASE_USUAL},
    {"torch/serialization.py", "save", WRITE, PHASE_USUAL},
    {"torch/serialization.py", "_save", WRITE, PHASE_USUAL},
    {"torch/serialization.py", "_legacy_save", WRITE, PHASE_USUAL},
    {"torch/serialization.py", "load", READ, PHASE_USUAL},
    {"torch/serialization.py", "_load", READ, PHASE_USUAL},
    {"torch/serialization.py", "_legacy_load", READ, PHASE_USUAL},
    {"torch/distributed/checkpoint/", "load", READ, PHASE_USUAL},
    {"torch/distributed/checkpoint/", "_load", READ, PHASE_USUAL},
    {"torch/distributed/checkpoint/", "read", READ, PHASE_USUAL},
    {"torch/distributed/checkpoint/", "save", WRITE, PHASE_USUAL},
    {"torch/distributed/checkpoint/", "_save", WRITE, PHASE_USUAL},
    {"torch/distributed/checkpoint/", "write", WRITE, PHASE_USUAL},
    {"torch/distributed/checkpoint/", "_write", WRITE, PHASE_USUAL},
    {"torch/distributed/checkpoint/state_dict_loader", "", READ, PHASE_USUAL},
    {"torch/distributed/checkpoint/state_dict_saver", "", WRITE, PHASE_USUAL},
    {"torch/distributed/checkpoint/default_planner", "create_default_local_load_plan", READ, PHASE_USUAL},
    {"_shard/checkpoint/default_planner", "create_default_local_load_plan", READ, PHASE_USUAL},
    {"_shard/checkpoint/state_dict_loader", "", READ, PHASE_USUAL},
    {"_shard/checkpoint/state_dict_saver", "", WRITE, PHASE_USUAL},
    {"dist_checkpointing/", "load", READ, PHASE_USUAL},
    {"dist_checkpointing/", "save", WRITE, PHASE_USUAL},
    {"dist_checkpointing/", "async_save", WRITE, PHASE_USUAL},
    {"checkpoint", "load", READ, PHASE_USUAL},
    {"checkpoint", "_load", READ, PHASE_USUAL},
    {"checkpoint", "save", WRITE, PHASE_USUAL},
    {"checkpoint", "_save", WRITE, PHASE_USUAL},
    {"checkpoint_saver", "", WRITE, PHASE_USUAL},
    {"safetensors/", "load", READ, PHASE_USUAL},
    {"safetensors/", "save", WRITE, PHASE_USUAL},
    {"", "load_state_dict", READ, PHASE_USUAL},
    {"", "_load_state_dict", READ, PHASE_USUAL},
    {"", "load_pretrained_model", READ, PHASE_USUAL},
    {"", "_load_pretrained_model", READ, PHASE_USUAL},
    {"", "load_checkpoint", READ, PHASE_USUAL},
    {"", "_load_checkpoint", READ, PHASE_USUAL},
    {"", "load_from_checkpoint", READ, PHASE_USUAL},
    {"", "_load_from_checkpoint", READ, PHASE_USUAL},
    {"", "resume_from_checkpoint", READ, PHASE_USUAL},
    {"", "_resume_from_checkpoint", READ, PHASE_USUAL},
    {"", "restore_from", READ, PHASE_USUAL},
    {"", "restore_checkpoint", READ, PHASE_USUAL},
    {"", "load_weights", READ, PHASE_USUAL},
    {"", "load_sharded_checkpoint", READ, PHASE_USUAL},
    {"", "save_checkpoint", WRITE, PHASE_USUAL},
    {"", "_save_checkpoint", WRITE, PHASE_USUAL},
    {"", "save_pretrained", WRITE, PHASE_USUAL},
    {"", "save_model", WRITE, PHASE_USUAL},
    {"", "_save_model", WRITE, PHASE_USUAL},
    {"", "save_state", WRITE, PHASE_USUAL},
    {"torch/distributed/rendezvous", "", GROUP, PHASE_USUAL},
    {"elastic/rendezvous/", "", GROUP, PHASE_USUAL},
    {"", "init_process_group", GROUP, PHASE_USUAL},
    {"", "_new_process_group", GROUP, PHASE_USUAL},
    {"", "new_group", GROUP, PHASE_USUAL},
    {"", "_store_based_barrier", GROUP, PHASE_USUAL},
    {"", "init_distributed", GROUP, PHASE_USUAL},
    {"", "initialize_model_parallel", GROUP, PHASE_USUAL},
    {"", "init_device_mesh", GROUP, PHASE_USUAL},
    {"jax/_src/distributed.py", "", GROUP, PHASE_USUAL},
    {"torch/distributed/distributed_c10d.py", "", COLLECTIVE, PHASE_WEAK},
    {"torch/distributed/_functional_collectives", "", COLLECTIVE, PHASE_WEAK},
    {"pynccl", "", COLLECTIVE, PHASE_WEAK},
    {"deepspeed/comm/", "", COLLECTIVE, PHASE_WEAK},
    {"horovod/", "", COLLECTIVE, PHASE_WEAK},
    {"argparse.py", "", CONFIG, PHASE_USUAL},
    {"hf_argparser", "", CONFIG, PHASE_USUAL},
    {"jsonargparse/", "", CONFIG, PHASE_USUAL},
    {"omegaconf/", "", CONFIG, PHASE_USUAL},
    {"hydra/", "instantiate", CONFIG, PHASE_WEAK},
    {"hydra/_internal/config", "", CONFIG, PHASE_USUAL},
    {"pydantic/", "", CONFIG, PHASE_USUAL},
    {"pydantic_core/", "", CONFIG, PHASE_USUAL},
    {"training_args", "main_process_first", COLLECTIVE, PHASE_USUAL},
    {"training_args", "", CONFIG, PHASE_USUAL},
    {"arguments.py", "", CONFIG, PHASE_USUAL},
    {"arg_utils.py", "", CONFIG, PHASE_USUAL},
    {"server_args.py", "", CONFIG, PHASE_USUAL},
    {"config.py", "", CONFIG, PHASE_USUAL},
    {"configuration_", "", CONFIG, PHASE_USUAL},
    {"config_utils", "", CONFIG, PHASE_USUAL},
    {"yaml/", "", CONFIG, PHASE_WEAK},
    {"", "parse_args", CONFIG, PHASE_USUAL},
    {"", "validate_args", CONFIG, PHASE_USUAL},
    {"", "validate_config", CONFIG, PHASE_USUAL},
    {"", "load_config", CONFIG, PHASE_USUAL},
    {"tokeniz", "", TOKENS, PHASE_USUAL},
    {"sentencepiece/", "", TOKENS, PHASE_USUAL},
    {"", "tokenize", TOKENS, PHASE_USUAL},
    {"", "apply_chat_template", TOKENS, PHASE_USUAL},
    {"", "build_tokenizer", TOKENS, PHASE_USUAL},
    {"torch/utils/data/", "", DATA, PHASE_USUAL},
    {"-packages/datasets/", "", DATA, PHASE_USUAL},
    {"webdataset/", "", DATA, PHASE_USUAL},
    {"-packages/streaming/", "", DATA, PHASE_USUAL},
    {"-packages/PIL/", "", DATA, PHASE_WEAK},
    {"dataset", "", DATA, PHASE_USUAL},
    {"dataloader", "", DATA, PHASE_USUAL},
    {"data_loader", "", DATA, PHASE_USUAL},
    {"datamodule", "", DATA, PHASE_USUAL},
    {"collat", "", DATA, PHASE_USUAL},
    {"", "collate", DATA, PHASE_USUAL},
    {"", "load_dataset", DATA, PHASE_USUAL},
    {"", "get_batch", DATA, PHASE_USUAL},
    {"", "prepare_data", DATA, PHASE_USUAL},
    {"", "build_train_valid_test_data", DATA, PHASE_USUAL},
    {"torch/utils/cpp_extension", "", COMPILE, PHASE_STRONG},
    {"op_builder/", "", COMPILE, PHASE_STRONG},
    {"torch/_inductor/", "", COMPILE, PHASE_STRONG},
    {"torch/_dynamo/convert_frame", "", COMPILE, PHASE_USUAL},
    {"triton/compiler/", "", COMPILE, PHASE_STRONG},
    {"triton/backends/", "", COMPILE, PHASE_STRONG},
    {"triton/runtime/", "", LAUNCH, PHASE_USUAL},
    {"torch/_tensor.py", "backward", BACKWARD, PHASE_STRONG},
    {"torch/autograd/", "backward", BACKWARD, PHASE_STRONG},
    {"torch/autograd/graph.py", "_engine_run_backward", BACKWARD, PHASE_STRONG},
    {"", "backward", BACKWARD, PHASE_USUAL},
    {"", "clip_grad_norm", OPTIMIZER, PHASE_USUAL},
    {"torch/optim/", "", OPTIMIZER, PHASE_WEAK},
    {"optim", "step", OPTIMIZER, PHASE_WEAK},
    {"grad_scaler", "", OPTIMIZER, PHASE_WEAK},
    {"zero/stage", "step", OPTIMIZER, PHASE_USUAL},
    {"apex/optimizers/", "", OPTIMIZER, PHASE_USUAL},
    {"bitsandbytes/optim/", "step", OPTIMIZER, PHASE_USUAL},
    {"transformers/generation/", "", GENERATE, PHASE_USUAL},
    {"", "generate", GENERATE, PHASE_USUAL},
    {"", "evaluate", EVALUATE, PHASE_USUAL},
    {"", "evaluation", EVALUATE, PHASE_USUAL},
    {"", "validation", EVALUATE, PHASE_USUAL},
    {"", "run_validation", EVALUATE, PHASE_USUAL},
    {"", "_run_validation", EVALUATE, PHASE_USUAL},
    {"", "_run_sanity_check", EVALUATE, PHASE_USUAL},
    {"", "compute_metrics", EVALUATE, PHASE_USUAL},
    {"", "from_pretrained", BUILD, PHASE_WEAK},
    {"", "_from_config", BUILD, PHASE_USUAL},
    {"", "from_config", BUILD, PHASE_USUAL},
    {"", "model_provider", BUILD, PHASE_USUAL},
    {"", "build_model", BUILD, PHASE_USUAL},
    {"", "get_model", BUILD, PHASE_WEAK},
    {"", "load_model", BUILD, PHASE_WEAK},
    {"", "initialize_model", BUILD, PHASE_USUAL},
    {"modeling_", "__init__", BUILD, PHASE_USUAL},
    {"torch/nn/modules/", "__init__", BUILD, PHASE_USUAL},
    {"torch/nn/parallel/distributed.py", "__init__", BUILD, PHASE_USUAL},
    {"torch/distributed/fsdp/", "_init", BUILD, PHASE_WEAK},
    {"torch/distributed/fsdp/", "__init__", BUILD, PHASE_USUAL},
    {"", "forward", FORWARD, PHASE_WEAK},
};

/* Returns the end of a path: the folder and the file name. */
static const char *last_parts(const char *path)
{
    const char *at = path + strlen(path);
    for (int slashes = 0; at > path; at--)
        if (at[-1] == '/' && ++slashes == 2)
            break;
    return at;
}

/* Whether the frame is the import of a module: a module's code runs then, except for the program itself. */
static bool is_import(const log_frame *frames, int i)
{
    return i > 0 && frames[i].path[0] != '<' && strstr(frames[i - 1].path, "runpy") == NULL &&
           strstr(frames[i - 1].path, "<string>") == NULL;
}

static const phase_row *row_of(const log_frame *frames, int i)
{
    const log_frame *frame = &frames[i];
    const char *last = last_parts(frame->path);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const phase_row *row = &rows[r];
        bool is_there = strncmp(frame->function, row->function, strlen(row->function)) == 0 &&
                        strstr(strchr(row->path, '/') != NULL ? frame->path : last, row->path) != NULL;
        if (is_there && (strcmp(row->function, "<module>") != 0 || is_import(frames, i)))
            return row;
    }
    return NULL;
}

const char *log_phase_of(const log_frame *frames, int n)
{
    const phase_row *best = NULL;
    for (int i = n - 1; i >= 0; i--) {
        const phase_row *row = row_of(frames, i);
        if (row != NULL && (best == NULL || row->strength > best->strength))
            best = row;
    }
    return best != NULL ? best->phase : NULL;
}

/* Parts of native programs, recognized by the paths of their source files. */
static const struct component_row {
    const char *path, *component;
} components[] = {
    {"csrc/aio", "asynchronous disk I/O (DeepSpeed's offload to NVMe)"},
    {"csrc/gds", "direct disk I/O of a GPU (DeepSpeed's offload to NVMe)"},
    {"csrc/adam", "the optimizer on the host (DeepSpeed)"},
    {"caffe2/serialize", "a checkpoint's file"},
    {"inline_container", "a checkpoint's file"},
    {"CUDACachingAllocator", "PyTorch's allocator of GPU memory"},
    {"native/cudnn", "cuDNN"},
    {"/cudnn", "cuDNN"},
    {"CUDABlas", "cuBLAS"},
    {"native/cuda", "a CUDA kernel of PyTorch"},
    {"native/hip", "a HIP kernel of PyTorch"},
    {"c10/cuda", "a CUDA call of PyTorch"},
    {"TCPStore", "the store of the process group"},
    {"HashStore", "the store of the process group"},
    {"third_party/gloo", "gloo"},
    {"gloo/transport", "gloo"},
    {"tensorpipe", "RPC (TensorPipe)"},
    {"ProcessGroup", "the process group"},
    {"c10d/", "the process group"},
    {"csrc/autograd", "the backward pass"},
    {"csrc/jit", "TorchScript"},
    {"csrc/inductor", "code that torch.compile made"},
    {"torchinductor", "code that torch.compile made"},
    {"aten/src/ATen", "an operation of PyTorch"},
    {"flash_attn", "FlashAttention"},
    {"flash-attention", "FlashAttention"},
    {"flash_fwd", "FlashAttention"},
    {"flash_bwd", "FlashAttention"},
    {"transformer_engine", "Transformer Engine"},
    {"TransformerEngine", "Transformer Engine"},
    {"userbuffers", "Transformer Engine's userbuffers"},
    {"bitsandbytes", "bitsandbytes"},
    {"xformers", "xFormers"},
    {"vllm/csrc", "a kernel of vLLM"},
    {"sgl-kernel", "a kernel of SGLang"},
    {"sgl_kernel", "a kernel of SGLang"},
    {"flashinfer", "FlashInfer"},
    {"custom_all_reduce", "the engine's own all-reduce"},
    {"triton", "Triton"},
    {"arrow/cpp", "Arrow"},
    {"tensorstore", "TensorStore"},
    {"horovod", "Horovod"},
    {"ucx", "UCX"},
    {"ucs/", "UCX"},
    {"libfabric", "libfabric"},
    {"aws-ofi-nccl", "NCCL's plug-in for libfabric"},
    {"nccl", "NCCL"},
    {"xla/", "XLA"},
    {"apex/", "Apex"},
};

const char *log_component_of(const char *line, size_t size)
{
    for (size_t i = 0; i < sizeof(components) / sizeof(components[0]); i++)
        if (memmem(line, size, components[i].path, strlen(components[i].path)) != NULL)
            return components[i].component;
    return NULL;
}
