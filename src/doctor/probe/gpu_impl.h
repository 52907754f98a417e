/* Inside of probe: NVIDIA's GPUs, as nvidia-smi prints them. */
#ifndef TESS_DOCTOR_PROBE_GPU_IMPL_H
#define TESS_DOCTOR_PROBE_GPU_IMPL_H

#include "doctor/probe/probe.h"

enum { PROBE_GPUS = 32, PROBE_LINK_BYTES = 8 };

/* A line of `nvidia-smi --query-gpu` with the fields of probe_gpu_fields; -1 where the GPU does not say. */
typedef struct probe_gpu {
    int index;
    char name[64], driver[32];
    double temperature_c;
    int64_t uncorrected, corrected; /* errors of memory since the driver was loaded */
    int64_t slowed_by;              /* bits: NVML's clocks event (throttle) reasons */
    int persistence;                /* 0, 1 */
    int lanes, most_lanes;          /* of PCIe */
    int64_t used_mib, total_mib;    /* of its memory */
} probe_gpu;

/* "NV18", "PIX", "OK", ... for a pair of GPUs: what `nvidia-smi topo` prints. */
typedef struct probe_gpu_matrix {
    int n;
    char link[PROBE_GPUS][PROBE_GPUS][PROBE_LINK_BYTES];
} probe_gpu_matrix;

typedef struct probe_gpus {
    int n;
    probe_gpu gpu[PROBE_GPUS];
    probe_gpu_matrix topology, peers; /* n 0: not known */
    int cuda, nccl;                   /* versions as their libraries give them; 0: not there */
} probe_gpus;

/* What to ask nvidia-smi for; the reasons have had two names. */
extern const char probe_gpu_fields[], probe_gpu_old_fields[];

/* Lines that are none of a GPU are passed over; returns how many were understood. */
int probe_gpu_parse(const char *text, probe_gpu *gpus, int most);
void probe_gpu_parse_matrix(const char *text, probe_gpu_matrix *matrix);

/* The hottest of n, and the one with most errors. */
void probe_gpu_summarize(const probe_gpu *gpus, int n, tess_probe_gpu_health *health);

/* Adds a finding for each wanted row. */
void probe_gpu_judge(const probe_gpus *gpus, const char *only, tess_probe_findings *findings);

/* Asks nvidia-smi, and judges. */
void probe_gpu_look(const char *only, tess_probe_findings *findings);

#endif
