/* Judges what nvidia-smi reports on the GPUs of a host. */
#include <stdarg.h>
#include <string.h>

#include "base/text/text.h"
#include "doctor/probe/gpu_impl.h"
#include "doctor/probe/probe_impl.h"

#define HOT_C 85.0

typedef struct reason {
    int64_t bit; /* bit in NVML's mask */
    const char *text;
} reason;

static const reason reasons[] = {
    {0x04, "power cap"},       {0x08, "hardware slowdown"},        {0x20, "heat (software)"},
    {0x40, "heat (hardware)"}, {0x80, "power brake of the board"},
};

/* One sentence that names the first few GPUs with a problem. */
typedef struct gpu_listing {
    char text[TESS_PROBE_TEXT_BYTES - 32];
    size_t at;
    int n;
} gpu_listing;

__attribute__((format(printf, 2, 3))) static void list(gpu_listing *l, const char *format, ...)
{
    char one[160];
    va_list args;
    if (l->n++ >= 4)
        return;
    va_start(args, format);
    vsnprintf(one, sizeof(one), format, args);
    va_end(args);
    l->at = tess_text_add(l->text, sizeof(l->text), l->at, "%s%s", l->n > 1 ? "; " : "", one);
}

/* Ends a listing: the finding is the list, or `fine` if the list is empty. */
static void conclude(const gpu_listing *l, tess_probe_outcome outcome, const char *fine, tess_probe_finding *finding)
{
    if (l->n == 0)
        probe_say(finding, TESS_PROBE_OK, "%s", fine);
    else if (l->n > 4)
        probe_say(finding, outcome, "%s; and %d more", l->text, l->n - 4);
    else
        probe_say(finding, outcome, "%s", l->text);
}

static void judge_present(const probe_gpus *g, tess_probe_finding *finding)
{
    gpu_listing l = {0};
    char fine[120];
    for (int i = 1; i < g->n; i++)
        if (strcmp(g->gpu[i].name, g->gpu[0].name) != 0)
            list(&l, "GPU %d is a %s, GPU 0 a %s", g->gpu[i].index, g->gpu[i].name, g->gpu[0].name);
    snprintf(fine, sizeof(fine), "%d x %s", g->n, g->gpu[0].name);
    conclude(&l, TESS_PROBE_WARN, fine, finding);
}

static void judge_temperature(const probe_gpus *g, tess_probe_finding *finding)
{
    gpu_listing l = {0};
    char fine[48];
    double most = 0;
    for (int i = 0; i < g->n; i++) {
        most = g->gpu[i].temperature_c > most ? g->gpu[i].temperature_c : most;
        if (g->gpu[i].temperature_c > HOT_C)
            list(&l, "GPU %d is at %.0f C", g->gpu[i].index, g->gpu[i].temperature_c);
    }
    snprintf(fine, sizeof(fine), "%.0f C at most", most);
    conclude(&l, TESS_PROBE_WARN, fine, finding);
}

static void judge_ecc(const probe_gpus *g, tess_probe_finding *finding)
{
    gpu_listing l = {0};
    char fine[64];
    int64_t corrected = 0;
    for (int i = 0; i < g->n; i++) {
        corrected += g->gpu[i].corrected > 0 ? g->gpu[i].corrected : 0;
        if (g->gpu[i].uncorrected > 0)
            list(&l, "GPU %d: %lld uncorrected errors of memory", g->gpu[i].index, (long long)g->gpu[i].uncorrected);
    }
    snprintf(fine, sizeof(fine), "none uncorrected, %lld corrected", (long long)corrected);
    conclude(&l, TESS_PROBE_FAIL, fine, finding);
}

static void judge_throttling(const probe_gpus *g, tess_probe_finding *finding)
{
    gpu_listing l = {0};
    for (int i = 0; i < g->n; i++)
        for (size_t k = 0; k < sizeof(reasons) / sizeof(reasons[0]); k++)
            if (g->gpu[i].slowed_by > 0 && (g->gpu[i].slowed_by & reasons[k].bit) != 0)
                list(&l, "GPU %d is slowed down: %s", g->gpu[i].index, reasons[k].text);
    conclude(&l, TESS_PROBE_WARN, "no GPU", finding);
}

static void judge_persistence(const probe_gpus *g, tess_probe_finding *finding)
{
    gpu_listing l = {0};
    for (int i = 0; i < g->n; i++)
        if (g->gpu[i].persistence == 0)
            list(&l, "GPU %d: off, so the first job waits for the driver", g->gpu[i].index);
    conclude(&l, TESS_PROBE_WARN, "on", finding);
}

static void judge_pcie(const probe_gpus *g, tess_probe_finding *finding)
{
    gpu_listing l = {0};
    for (int i = 0; i < g->n; i++)
        if (g->gpu[i].lanes > 0 && g->gpu[i].lanes < g->gpu[i].most_lanes)
            list(&l, "GPU %d: %d lanes of %d", g->gpu[i].index, g->gpu[i].lanes, g->gpu[i].most_lanes);
    conclude(&l, TESS_PROBE_WARN, "all lanes", finding);
}

/* Warns if a pair of GPUs is linked through the processors while other pairs have NVLink: a ring is as slow as its
 * slowest link. */
static void judge_topology(const probe_gpus *g, tess_probe_finding *finding)
{
    gpu_listing l = {0};
    const probe_gpu_matrix *m = &g->topology;
    bool has_nvlink = false;
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->n; k++)
            has_nvlink = has_nvlink || strncmp(m->link[i][k], "NV", 2) == 0;
    for (int i = 0; i < m->n; i++)
        for (int k = i + 1; k < m->n; k++)
            if (has_nvlink && strncmp(m->link[i][k], "NV", 2) != 0)
                list(&l, "GPU %d and GPU %d meet over %s, others over NVLink", i, k, m->link[i][k]);
    if (m->n < 2)
        probe_say(finding, TESS_PROBE_ABSENT, "one GPU");
    else
        conclude(&l, TESS_PROBE_WARN, m->link[0][1], finding);
}

static void judge_peers(const probe_gpus *g, tess_probe_finding *finding)
{
    gpu_listing l = {0};
    const probe_gpu_matrix *m = &g->peers;
    for (int i = 0; i < m->n; i++)
        for (int k = i + 1; k < m->n; k++)
            if (strcmp(m->link[i][k], "OK") != 0)
                list(&l, "GPU %d cannot read GPU %d (%s)", i, k, m->link[i][k]);
    if (m->n < 2)
        probe_say(finding, TESS_PROBE_ABSENT, "one GPU");
    else
        conclude(&l, TESS_PROBE_WARN, "all pairs", finding);
}

static void judge_software(const probe_gpus *g, tess_probe_finding *finding)
{
    char cuda[32] = "", nccl[32] = "";
    /* newer versions use 5 digits: 21805 is 2.18.5, and 2708 was 2.7.8 */
    int code = g->nccl, thousand = code >= 10000 ? 10000 : 1000;
    if (g->cuda > 0)
        snprintf(cuda, sizeof(cuda), ", CUDA %d.%d", g->cuda / 1000, g->cuda % 1000 / 10);
    if (code > 0)
        snprintf(nccl, sizeof(nccl), ", NCCL %d.%d.%d", code / thousand, code % thousand / 100, code % 100);
    probe_say(finding, TESS_PROBE_OK, "driver %s%s%s", g->gpu[0].driver, cuda, nccl);
}

/* Reports the first piece of software that Tessera itself needs and that is missing. */
static void judge_plugin(const probe_gpus *g, tess_probe_finding *finding)
{
    for (int i = 0; i < TESS_CUDA_SOFTWARE; i++) {
        if (!g->software[i].missing)
            continue;
        probe_say(finding, TESS_PROBE_WARN, "%s: %s", g->software[i].name, g->software[i].text);
        return;
    }
    probe_say(finding, TESS_PROBE_OK, "plug-in, cuBLAS and NCCL are here");
}

static const struct {
    const char *name;
    void (*judge)(const probe_gpus *gpus, tess_probe_finding *finding);
} rows[] = {{"gpu", judge_present},
            {"gpu-temperature", judge_temperature},
            {"gpu-ecc", judge_ecc},
            {"gpu-throttling", judge_throttling},
            {"gpu-persistence", judge_persistence},
            {"gpu-pcie", judge_pcie},
            {"gpu-topology", judge_topology},
            {"gpu-peers", judge_peers},
            {"gpu-software", judge_software},
            {"gpu-plugin", judge_plugin}};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

void probe_gpu_judge(const probe_gpus *gpus, const char *only, tess_probe_findings *findings)
{
    for (int i = 0; i < N_ROWS; i++) {
        tess_probe_finding *finding = probe_begin(findings, TESS_PROBE_GPU, rows[i].name, only);
        if (finding != NULL)
            rows[i].judge(gpus, finding);
    }
}
