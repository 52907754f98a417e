/* The list of all environment variables that Tessera reads, or sets for programs that it starts, with one row each.
 * Modules read a variable by its row; no other file calls getenv (tools/check-layers). `tessera doctor env` explains
 * the rows whose names begin with TESSERA_. */
#ifndef TESS_BASE_CORE_VARIABLES_H
#define TESS_BASE_CORE_VARIABLES_H

typedef enum tess_variable_setter {
    TESS_SET_BY_USER,     /* a person, or the script of a job */
    TESS_SET_BY_TESSERA,  /* a process of Tessera, for processes that it starts */
    TESS_SET_BY_LAUNCHER, /* mpirun, srun or torchrun, for each rank */
    TESS_SET_BY_SYSTEM    /* a login, a terminal, or the installation of CUDA or Python */
} tess_variable_setter;

/* Columns: row, name, setter, meaning, default, accepted values (doctor/env/env_values.h). An unused column is "". */
/* clang-format off */
#define TESS_VARIABLE_LIST(X) \
    X(TESS_VAR_CPU, "TESSERA_CPU", USER, "the kernel table to use", \
      "the fastest that the CPU has", "one ref|avx2|avx512|avx512_bf16|amx") \
    X(TESS_VAR_CPU_MOST, "TESSERA_CPU_MOST", USER, \
      "the best kernel table that a rank may take; ranks take the best that all may", \
      "the fastest that the CPU has", "one ref|avx2|avx512|avx512_bf16|amx") \
    X(TESS_VAR_DEVICE, "TESSERA_DEVICE", USER, "where the model computes, unless job.device or --device says", \
      "cpu", "") \
    X(TESS_VAR_SHARDS, "TESSERA_SHARDS", USER, \
      "whose memory has weights, gradients and moments, unless job.shards says", \
      "a GPU's, where they fit", "one host|device") \
    X(TESS_VAR_FAR_DELAYS, "TESSERA_FAR_DELAYS", USER, \
      "SEED:MICROSECONDS of random pauses of the far device, for tests", "none", "") \
    X(TESS_VAR_FAR_STALL, "TESSERA_FAR_STALL", USER, \
      "RANK:ROW:NUMBER:SECONDS: one command of the far device that stalls, for tests", "none", "") \
    X(TESS_VAR_CUDA, "TESSERA_CUDA", USER, "path of the plug-in for NVIDIA GPUs", \
      "libtessera_cuda.so next to the program", "") \
    X(TESS_VAR_CUBLAS, "TESSERA_CUBLAS", USER, \
      "path of the libcublasLt.so for products on NVIDIA GPUs; own: Tessera's kernels; off: no tensor cores", \
      "the first that is found", "") \
    X(TESS_VAR_CUBLAS_TIMING, "TESSERA_CUBLAS_TIMING", USER, \
      "off: of cuBLAS's ways to compute a product that have the same bits, the first proposed is taken, not the " \
      "fastest", "the fastest, by the clock", "") \
    X(TESS_VAR_NCCL, "TESSERA_NCCL", USER, \
      "path of the libnccl.so.2 for bytes between the GPUs of several hosts, or off", "the first that is found", "") \
    X(TESS_VAR_TUNING, "TESSERA_TUNING", USER, "file of a tuning table of `tessera bench comm --tune`", \
      "~/.config/tessera's, if any", "") \
    X(TESS_VAR_MPI, "TESSERA_MPI", USER, \
      "what carries bytes between hosts: openmpi, mpich, tcp or the path of a plug-in", \
      "that of the launcher that started the job", "") \
    X(TESS_VAR_MPI_PART_BYTES, "TESSERA_MPI_PART_BYTES", USER, "bytes of a part of a large message between hosts", \
      "chosen", "int 1..") \
    X(TESS_VAR_IFNAME, "TESSERA_IFNAME", USER, "interfaces that agents of hosts listen on", "all but lo", "") \
    X(TESS_VAR_AGENT_PORTS, "TESSERA_AGENT_PORTS", USER, "ports LOW-HIGH for agents of hosts", "any free one", "") \
    X(TESS_VAR_SECRET_FILE, "TESSERA_SECRET_FILE", USER, \
      "file with the secret that ranks of several hosts without an MPI must know", "none", "") \
    X(TESS_VAR_SECRET, "TESSERA_SECRET", USER, "that secret itself, in place of a file", "none", "") \
    X(TESS_VAR_HOST, "TESSERA_HOST", USER, "name of this host among those of the job", "the system's", "") \
    X(TESS_VAR_LAUNCH_AGENT, "TESSERA_LAUNCH_AGENT", USER, "program that `tessera launch` runs instead of ssh", \
      "ssh", "") \
    X(TESS_VAR_FAULT, "TESSERA_FAULT", USER, "faults to inject, in the format of fault.spec", "none", "") \
    X(TESS_VAR_LIBRARY, "TESSERA_LIBRARY", USER, "path of the libtessera that the Python examples load", \
      "where the system finds it", "") \
    X(TESS_VAR_BIG_TESTS, "TESSERA_BIG_TESTS", USER, "1: tests also run their cases of many gigabytes", "none", "") \
    \
    X(TESS_VAR_RANK, "TESSERA_RANK", TESSERA, "number of this rank", "set by `tessera run`", "int 0..") \
    X(TESS_VAR_WORLD, "TESSERA_WORLD", TESSERA, "ranks of the job", "set by `tessera run`", "int 1..") \
    X(TESS_VAR_SHM_FD, "TESSERA_SHM_FD", TESSERA, "descriptor of the job's memory", \
      "set by `tessera run`", "int 0..") \
    X(TESS_VAR_PERSIST_FD, "TESSERA_PERSIST_FD", TESSERA, "descriptor of the rank's memory that outlives it", \
      "set by `tessera train`", "int 0..") \
    X(TESS_VAR_PERSIST_DISK_FD, "TESSERA_PERSIST_DISK_FD", TESSERA, \
      "descriptor of the rank's file that outlives it", "set by `tessera train`", "int 0..") \
    X(TESS_VAR_SAVES, "TESSERA_SAVES", TESSERA, "descriptor of the area of the process that writes checkpoints", \
      "set by `tessera train`", "int 0..") \
    X(TESS_VAR_CONFIG, "TESSERA_CONFIG", TESSERA, "copy of the configuration that all lives of the job read", \
      "set by `tessera train`", "") \
    X(TESS_VAR_TRACE, "TESSERA_TRACE", TESSERA, "folder where ranks keep their traces", \
      "set by `tessera run --trace`", "") \
    X(TESS_VAR_GUARD_FD, "TESSERA_GUARD_FD", TESSERA, \
      "descriptor of the socket to the rank's warden (its parent process)", "set by the warden", "int 0..") \
    X(TESS_VAR_LAUNCH_REPORTS, "TESSERA_LAUNCH_REPORTS", TESSERA, \
      "1: wardens report failures to the `tessera launch` that supervises the job", "set by `tessera launch`", "") \
    X(TESS_VAR_START_ID, "TESSERA_START_ID", TESSERA, \
      "number of this start of all ranks; ranks of another start are refused", \
      "set by `tessera launch --spares`", "") \
    X(TESS_VAR_LIVES_BEFORE, "TESSERA_LIVES_BEFORE", TESSERA, "times that the job has started before", \
      "set by `tessera launch`", "int 0..") \
    X(TESS_VAR_OMITTED, "TESSERA_OMITTED", TESSERA, "steps whose evaluation is left out", \
      "set by `tessera launch`", "") \
    X(TESS_VAR_PAST, "TESSERA_PAST", TESSERA, \
      "for each rank the number of its earlier processes and the injected faults that have happened, 1:0,2:5", \
      "set by `tessera launch`", "") \
    X(TESS_VAR_ALERT_JOB, "TESSERA_ALERT_JOB", TESSERA, "the alert's job: its job.dump_folder", \
      "set for health.alert_command", "") \
    X(TESS_VAR_ALERT_HOST, "TESSERA_ALERT_HOST", TESSERA, "the alert's host", "set for health.alert_command", "") \
    X(TESS_VAR_ALERT_EVENT, "TESSERA_ALERT_EVENT", TESSERA, "health or recovery", \
      "set for health.alert_command", "") \
    X(TESS_VAR_ALERT_STATE, "TESSERA_ALERT_STATE", TESSERA, "the state that the job or host is in now", \
      "set for health.alert_command", "") \
    X(TESS_VAR_ALERT_TEXT, "TESSERA_ALERT_TEXT", TESSERA, "the alert in one sentence", \
      "set for health.alert_command", "") \
    X(TESS_VAR_METRICS_RUN, "TESSERA_METRICS_RUN", TESSERA, "the run's name: the last name of its folder's path", \
      "set for metrics.command", "") \
    X(TESS_VAR_METRICS_FOLDER, "TESSERA_METRICS_FOLDER", TESSERA, "the run's folder", "set for metrics.command", "") \
    X(TESS_VAR_GRADER, "TESSERA_GRADER", TESSERA, "marks the processes of a grader, which end with it", \
      "set for reward.command", "") \
    \
    X(TESS_VAR_OMPI_RANK, "OMPI_COMM_WORLD_RANK", LAUNCHER, "Open MPI: number of this rank", "", "") \
    X(TESS_VAR_OMPI_SIZE, "OMPI_COMM_WORLD_SIZE", LAUNCHER, "Open MPI: ranks of the job", "", "") \
    X(TESS_VAR_OMPI_LOCAL_RANK, "OMPI_COMM_WORLD_LOCAL_RANK", LAUNCHER, "Open MPI: number on this host", "", "") \
    X(TESS_VAR_OMPI_LOCAL_SIZE, "OMPI_COMM_WORLD_LOCAL_SIZE", LAUNCHER, "Open MPI: ranks on this host", "", "") \
    X(TESS_VAR_PMI_RANK, "PMI_RANK", LAUNCHER, "MPICH or srun: number of this rank", "", "") \
    X(TESS_VAR_PMI_SIZE, "PMI_SIZE", LAUNCHER, "MPICH or srun: ranks of the job", "", "") \
    X(TESS_VAR_PMIX_RANK, "PMIX_RANK", LAUNCHER, "srun with PMIx: number of this rank", "", "") \
    X(TESS_VAR_MPI_LOCALRANKID, "MPI_LOCALRANKID", LAUNCHER, "MPICH: number on this host", "", "") \
    X(TESS_VAR_MPI_LOCALNRANKS, "MPI_LOCALNRANKS", LAUNCHER, "MPICH: ranks on this host", "", "") \
    X(TESS_VAR_SLURM_STEP_ID, "SLURM_STEP_ID", LAUNCHER, "Slurm: step of the job; a reserved number outside srun", \
      "", "") \
    X(TESS_VAR_SLURM_PROCID, "SLURM_PROCID", LAUNCHER, "Slurm: number of this rank", "", "") \
    X(TESS_VAR_SLURM_NTASKS, "SLURM_NTASKS", LAUNCHER, "Slurm: ranks of the job", "", "") \
    X(TESS_VAR_SLURM_LOCALID, "SLURM_LOCALID", LAUNCHER, "Slurm: number on this host", "", "") \
    X(TESS_VAR_TORCH_RANK, "RANK", LAUNCHER, "torchrun: number of this rank", "", "") \
    X(TESS_VAR_TORCH_WORLD, "WORLD_SIZE", LAUNCHER, "torchrun: ranks of the job", "", "") \
    X(TESS_VAR_TORCH_LOCAL_RANK, "LOCAL_RANK", LAUNCHER, "torchrun: number on this host", "", "") \
    X(TESS_VAR_TORCH_LOCAL_WORLD, "LOCAL_WORLD_SIZE", LAUNCHER, "torchrun: ranks on this host", "", "") \
    X(TESS_VAR_MASTER_ADDR, "MASTER_ADDR", LAUNCHER, "torchrun: address of rank 0's host", "", "") \
    X(TESS_VAR_MASTER_PORT, "MASTER_PORT", LAUNCHER, "torchrun: port of rank 0's host", "", "") \
    X(TESS_VAR_TORCH_NODE, "GROUP_RANK", LAUNCHER, "torchrun: number of this host", "", "") \
    X(TESS_VAR_TORCH_NODES, "GROUP_WORLD_SIZE", LAUNCHER, "torchrun: hosts of the job", "", "") \
    X(TESS_VAR_TORCH_AGENT_STORE, "TORCHELASTIC_USE_AGENT_STORE", LAUNCHER, \
      "torchrun: True if it listens on MASTER_PORT itself", "", "") \
    X(TESS_VAR_TORCH_RUN_ID, "TORCHELASTIC_RUN_ID", LAUNCHER, "torchrun: name of the job", "", "") \
    X(TESS_VAR_TORCH_ERROR_FILE, "TORCHELASTIC_ERROR_FILE", LAUNCHER, \
      "torchrun: file for the error of this rank, which torchrun shows", "", "") \
    X(TESS_VAR_TORCH_RESTARTS, "TORCHELASTIC_RESTART_COUNT", LAUNCHER, "torchrun: earlier starts of the job", "", "") \
    \
    X(TESS_VAR_CUDA_VISIBLE_DEVICES, "CUDA_VISIBLE_DEVICES", USER, "GPUs that this process sees", "", "") \
    X(TESS_VAR_NCCL_COMM_BLOCKING, "NCCL_COMM_BLOCKING", USER, "whether NCCL waits forever; refused unless 0", \
      "", "") \
    X(TESS_VAR_NCCL_COMM_ID, "NCCL_COMM_ID", USER, "one id for all communicators of NCCL; refused", "", "") \
    X(TESS_VAR_NO_COLOR, "NO_COLOR", USER, "set: terminals get no colours", "", "") \
    X(TESS_VAR_TERM, "TERM", SYSTEM, "kind of the terminal", "", "") \
    X(TESS_VAR_PATH, "PATH", SYSTEM, "folders of programs: mpirun, python3, graders", "", "") \
    X(TESS_VAR_HOME, "HOME", SYSTEM, "the user's folder, for ~ in paths", "", "") \
    X(TESS_VAR_TMPDIR, "TMPDIR", SYSTEM, "folder for temporary files", "", "") \
    X(TESS_VAR_XDG_CACHE_HOME, "XDG_CACHE_HOME", SYSTEM, "folder of files that can be made again", "", "") \
    X(TESS_VAR_XDG_CONFIG_HOME, "XDG_CONFIG_HOME", SYSTEM, "folder of the user's settings", "", "") \
    X(TESS_VAR_LD_LIBRARY_PATH, "LD_LIBRARY_PATH", SYSTEM, "folders of libraries: cuBLAS, NCCL", "", "") \
    X(TESS_VAR_CUDA_HOME, "CUDA_HOME", SYSTEM, "CUDA's folder", "", "") \
    X(TESS_VAR_CUDA_PATH, "CUDA_PATH", SYSTEM, "CUDA's folder", "", "") \
    X(TESS_VAR_VIRTUAL_ENV, "VIRTUAL_ENV", SYSTEM, "folder of Python's environment", "", "") \
    X(TESS_VAR_CONDA_PREFIX, "CONDA_PREFIX", SYSTEM, "folder of conda's environment", "", "") \
    X(TESS_VAR_USER, "USER", SYSTEM, "name of the user, handed to graders", "", "") \
    X(TESS_VAR_LOGNAME, "LOGNAME", SYSTEM, "name of the user, handed to graders", "", "") \
    X(TESS_VAR_LANG, "LANG", SYSTEM, "language, handed to graders", "", "") \
    X(TESS_VAR_LC_ALL, "LC_ALL", SYSTEM, "language, handed to graders", "", "") \
    X(TESS_VAR_LC_CTYPE, "LC_CTYPE", SYSTEM, "encoding of text, handed to graders", "", "") \
    X(TESS_VAR_TZ, "TZ", SYSTEM, "time zone, handed to graders", "", "")
/* clang-format on */

typedef enum tess_variable {
#define X(row, name, setter, does, fallback, values) row,
    TESS_VARIABLE_LIST(X)
#undef X
        TESS_VARIABLE_COUNT,
    TESS_VARIABLE_NONE = TESS_VARIABLE_COUNT /* stands for no variable; its value is always NULL */
} tess_variable;

typedef struct tess_variable_row {
    const char *name;
    tess_variable_setter setter;
    const char *does, *fallback, *values; /* the columns of the list */
} tess_variable_row;

/* Indexed by tess_variable. */
extern const tess_variable_row tess_variables[TESS_VARIABLE_COUNT];

enum { TESS_VARIABLE_NAME = 64 };

const char *tess_variable_name(tess_variable variable);

/* Returns the value of a variable; NULL: it is not set. The text is borrowed, and valid until the variable is set
 * again. */
const char *tess_variable_value(tess_variable variable);
/* Like tess_variable_value, for a name that is not in the list: one from a configuration, or one that the user asks
 * about. */
const char *tess_variable_value_named(const char *name);

#endif
