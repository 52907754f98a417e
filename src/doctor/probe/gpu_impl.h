/* Internal to probe: the state of NVIDIA's GPUs, as nvidia-smi prints it. */
#ifndef TESS_DOCTOR_PROBE_GPU_IMPL_H
#define TESS_DOCTOR_PROBE_GPU_IMPL_H

#include "device/cuda/cuda_report.h"
#include "doctor/probe/probe.h"

enum { PROBE_GPUS = 32, PROBE_LINK_BYTES = 8 };

/* One line of `nvidia-smi --query-gpu` with probe_gpu_fields. A value that the GPU does not report is -1. */
typedef struct probe_gpu {
    int index;
    char name[64], driver[32];
    double temperature_c;
    int64_t uncorrected, corrected; /* memory errors since the driver was loaded */
    int64_t slowed_by;     /* bits: NVML's reasons for lower clocks (clocks event reasons, formerly throttle reasons) */
    int persistence;       /* 0 or 1: persistence mode */
    int lanes, most_lanes; /* PCIe lanes: in use, and supported */
    int64_t used_mib, total_mib; /* GPU memory in use, and in total */
} probe_gpu;

/* The matrix of `nvidia-smi topo`: "NV18", "PIX", "OK", ... for each pair of GPUs. */
typedef struct probe_gpu_matrix {
    int n;
    char link[PROBE_GPUS][PROBE_GPUS][PROBE_LINK_BYTES];
} probe_gpu_matrix;

typedef struct probe_gpus {
    int n;
    probe_gpu gpu[PROBE_GPUS];
    probe_gpu_matrix topology, peers; /* n 0: the matrix is unknown */
    int cuda, nccl;                   /* versions reported by the libraries; 0: not installed */
    tess_cuda_fact software[TESS_CUDA_SOFTWARE];
} probe_gpus;

/* Fields for the query of nvidia-smi. probe_gpu_old_fields has the former name of the clock reasons. */
extern const char probe_gpu_fields[], probe_gpu_old_fields[];

/* Parses the lines of the query; skips lines that describe no GPU. Returns the number of GPUs read. */
int probe_gpu_parse(const char *text, probe_gpu *gpus, int most);
void probe_gpu_parse_matrix(const char *text, probe_gpu_matrix *matrix);

/* Finds the hottest of n GPUs, and the GPU with most errors. */
void probe_gpu_summarize(const probe_gpu *gpus, int n, tess_probe_gpu_health *health);

/* Adds a finding for each check that `only` names. */
void probe_gpu_judge(const probe_gpus *gpus, const char *only, tess_probe_findings *findings);

/* Runs nvidia-smi and adds the findings on its output. */
void probe_gpu_look(const char *only, tess_probe_findings *findings);

#endif
