/* Preflight's findings from the lines and matrices that nvidia-smi prints. */
#include "support/test.h"

#include "doctor/probe/gpu_impl.h"

static const char good[] =
    "0, NVIDIA H100 80GB HBM3, 535.129.03, 34, 0, 0, 0x0000000000000001, Enabled, 16, 16, 1, 81559\n"
    "1, NVIDIA H100 80GB HBM3, 535.129.03, 36, 0, 2, 0x0000000000000000, Enabled, 16, 16, 0, 81559\n";
static const char bad[] =
    "0, NVIDIA H100 80GB HBM3, 535.129.03, 88, 0, 0, 0x0000000000000048, Enabled, 16, 16, 100, 1000\r\n"
    "1, NVIDIA H100 80GB HBM3, 535.129.03, 40, 3, 9, 0x0000000000000004, Disabled, 8, 16, 970, 1000\r\n"
    "2, NVIDIA A100-SXM4-40GB, 535.129.03, 40, [N/A], [N/A], [Not Supported], [N/A], [N/A], [N/A], [N/A], [N/A]\r\n";
static const char topology[] =
    "\t\033[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\033[0m\n"
    "GPU0\t X \tNV18\tSYS\tPIX\t0-51\t0\n"
    "GPU1\tNV18\t X \tNV18\tSYS\t0-51\t0\n"
    "GPU2\tSYS\tNV18\t X \tSYS\t52-103\t1\n"
    "NIC0\tPIX\tSYS\tSYS\t X \n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n";
static const char peers[] = " \tGPU0\tGPU1\tGPU2\t\n GPU0\tX\tOK\tCNS\t\n GPU1\tOK\tX\tOK\t\n GPU2\tCNS\tOK\tX\t\n";

static const tess_probe_finding *find(const tess_probe_findings *findings, const char *name)
{
    for (int i = 0; i < findings->n; i++)
        if (strcmp(findings->at[i].name, name) == 0)
            return &findings->at[i];
    test_fail(__FILE__, __LINE__, "there is no finding '%s'", name);
}

static void expect(const tess_probe_findings *findings, const char *name, tess_probe_outcome outcome, const char *text)
{
    const tess_probe_finding *finding = find(findings, name);
    EXPECT_CONTAINS(finding->text, text);
    EXPECT_INT(finding->outcome, outcome);
}

static void healthy_gpus_have_no_complaint(void)
{
    static probe_gpus gpus;
    tess_probe_findings findings = {0};
    gpus.n = probe_gpu_parse(good, gpus.gpu, PROBE_GPUS);
    gpus.cuda = 12020;
    gpus.nccl = 21805;
    EXPECT_INT(gpus.n, 2);
    probe_gpu_parse_matrix("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n", &gpus.topology);
    probe_gpu_parse_matrix("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", &gpus.peers);
    probe_gpu_judge(&gpus, NULL, &findings);
    EXPECT_INT(findings.n, 10);
    for (int i = 0; i < findings.n; i++)
        if (findings.at[i].outcome != TESS_PROBE_OK)
            test_fail(__FILE__, __LINE__, "%s: %s", findings.at[i].name, findings.at[i].text);
    expect(&findings, "gpu", TESS_PROBE_OK, "2 x NVIDIA H100 80GB HBM3");
    expect(&findings, "gpu-temperature", TESS_PROBE_OK, "36 C");
    expect(&findings, "gpu-ecc", TESS_PROBE_OK, "2 corrected");
    expect(&findings, "gpu-topology", TESS_PROBE_OK, "NV18");
    expect(&findings, "gpu-software", TESS_PROBE_OK, "driver 535.129.03, CUDA 12.2, NCCL 2.18.5");
}

static void the_hottest_and_the_worst_are_named(void)
{
    static probe_gpu gpus[PROBE_GPUS];
    tess_probe_gpu_health health;
    probe_gpu_summarize(gpus, probe_gpu_parse(bad, gpus, PROBE_GPUS), &health);
    EXPECT_INT(health.hottest, 0);
    EXPECT(health.celsius == 88);
    EXPECT_INT(health.worst, 1);
    EXPECT_INT(health.n_errors, 3);
    EXPECT_INT(health.fullest, 1);
    EXPECT(health.percent == 97);
    probe_gpu_summarize(gpus, 0, &health);
    EXPECT(health.hottest == -1 && health.worst == -1 && health.fullest == -1);
}

static void faults_of_gpus_are_found(void)
{
    static probe_gpus gpus;
    tess_probe_findings findings = {0};
    gpus.n = probe_gpu_parse(bad, gpus.gpu, PROBE_GPUS);
    EXPECT_INT(gpus.n, 3);
    probe_gpu_parse_matrix(topology, &gpus.topology);
    probe_gpu_parse_matrix(peers, &gpus.peers);
    EXPECT_INT(gpus.topology.n, 3);
    EXPECT_INT(gpus.peers.n, 3);
    gpus.software[1] = (tess_cuda_fact){"cublas", true, "not found: install cuBLAS"};
    probe_gpu_judge(&gpus, NULL, &findings);
    expect(&findings, "gpu-plugin", TESS_PROBE_WARN, "cublas: not found: install cuBLAS");
    expect(&findings, "gpu", TESS_PROBE_WARN, "GPU 2 is a NVIDIA A100-SXM4-40GB");
    expect(&findings, "gpu-temperature", TESS_PROBE_WARN, "GPU 0 is at 88 C");
    expect(&findings, "gpu-ecc", TESS_PROBE_FAIL, "GPU 1: 3 uncorrected errors");
    expect(
        &findings, "gpu-throttling", TESS_PROBE_WARN,
        "GPU 0 is slowed down: hardware slowdown; GPU 0 is slowed down: heat (hardware); GPU 1 is slowed down: power");
    expect(&findings, "gpu-persistence", TESS_PROBE_WARN, "GPU 1: off");
    expect(&findings, "gpu-pcie", TESS_PROBE_WARN, "GPU 1: 8 lanes of 16");
    expect(&findings, "gpu-topology", TESS_PROBE_WARN, "GPU 0 and GPU 2 meet over SYS");
    expect(&findings, "gpu-peers", TESS_PROBE_WARN, "GPU 0 cannot read GPU 2 (CNS)");
}

static void lines_without_a_gpu_are_skipped(void)
{
    probe_gpu gpus[2];
    static probe_gpu_matrix matrix;
    EXPECT_INT(probe_gpu_parse("No devices were found\n", gpus, 2), 0);
    EXPECT_INT(probe_gpu_parse("Field \"x\" is not a valid field to query.\n\n0, a, b\n", gpus, 2), 0);
    EXPECT_INT(probe_gpu_parse("1,2,3,4,5,6,7,8,9,10,11,12\n1,2,3,4,5,6,7,8,9,10,11,12\n1,2,3,4,5,6,7,8,9,10,11,12\n",
                               gpus, 2),
               2);
    probe_gpu_parse_matrix("GPU0 GPU1\nGPU0 X\n", &matrix);
    EXPECT_INT(matrix.n, 0);
}

static const test_case cases[] = {
    CASE(healthy_gpus_have_no_complaint),
    CASE(the_hottest_and_the_worst_are_named),
    CASE(faults_of_gpus_are_found),
    CASE(lines_without_a_gpu_are_skipped),
};

TEST_MAIN(cases)
