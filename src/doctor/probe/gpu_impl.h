/* Internal to probe: NVIDIA's GPUs, as nvidia-smi prints them. */
#ifndef TESS_DOCTOR_PROBE_GPU_IMPL_H
#define TESS_DOCTOR_PROBE_GPU_IMPL_H

#include "device/cuda/cuda_report.h"
#include "doctor/probe/probe.h"

enum { PROBE_GPUS = 32, PROBE_LINK_BYTES = 8 };

/* One line of `nvidia-smi --query-gpu` with probe_gpu_fields; -1 for a value that the GPU does not report. */
typedef struct probe_gpu {
    int index;
    char name[64], driver[32];
    double temperature_c;
    int64_t uncorrected, corrected; /* memory errors since the driver was loaded */
    int64_t slowed_by;              /* bits: NVML's clocks event (throttle) reasons */
    int persistence;                /* 0, 1 */
    int lanes, most_lanes;          /* lanes of PCIe */
    int64_t used_mib, total_mib;    /* sizes of its memory */
} probe_gpu;

/* The matrix of `nvidia-smi topo`: "NV18", "PIX", "OK", ... for each pair of GPUs. */
typedef struct probe_gpu_matrix {
    int n;
    char link[PROBE_GPUS][PROBE_GPUS][PROBE_LINK_BYTES];
} probe_gpu_matrix;

typedef struct probe_gpus {
    int n;
    probe_gpu gpu[PROBE_GPUS];
    probe_gpu_matrix topology, peers; /* n 0: unknown */
    int cuda, nccl;                   /* versions reported by the libraries; 0: not installed */
    tess_cuda_fact software[TESS_CUDA_SOFTWARE];
} probe_gpus;

/* Fields to ask nvidia-smi for; the old ones have the former name of the clock reasons. */
extern const char probe_gpu_fields[], probe_gpu_old_fields[];

/* Skips lines that describe no GPU. Returns the number of GPUs read. */
int probe_gpu_parse(const char *text, probe_gpu *gpus, int most);
void probe_gpu_parse_matrix(const char *text, probe_gpu_matrix *matrix);

/* Finds the hottest of n GPUs, and the one with most errors. */
void probe_gpu_summarize(const probe_gpu *gpus, int n, tess_probe_gpu_health *health);

/* Adds a finding for each wanted row. */
void probe_gpu_judge(const probe_gpus *gpus, const char *only, tess_probe_findings *findings);

/* Runs nvidia-smi and judges its output. */
void probe_gpu_look(const char *only, tess_probe_findings *findings);

#endif
