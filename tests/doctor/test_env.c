/* `tessera doctor env`: the registry, values that are invalid, void or in conflict, scripts, and its reports. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "doctor/env/env.h"
#include "doctor/env/env_values.h"

/* Checks the environment `text` (lines) against the built-in registry, on a host of `n_cores`. */
static tess_env_registry registry;
static tess_env_report report;

static void judge(const char *text, int n_cores)
{
    EXPECT_OK(tess_env_registry_load(test_mem(), NULL, 0, &registry));
    EXPECT_OK(tess_env_check(test_mem(), &registry, text, strlen(text), TESS_ENV_LINES, n_cores, &report));
}

static void forget(void)
{
    tess_env_report_free(&report);
    tess_env_registry_free(&registry);
}

static void the_registry_knows_its_variables(void)
{
    /* The variables that guides name, and all that Tessera reads. */
    static const char *const names[] = {
        "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "TORCH_DISTRIBUTED_DEBUG", "NCCL_TIMEOUT",
        "NCCL_ASYNC_ERROR_HANDLING", "TORCH_DISTRIBUTED_TIMEOUT", "NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX",
        "NCCL_IB_TC", "NCCL_IB_SL", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD",
        "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_MAX_NCHANNELS",
        "NCCL_NET_GDR_LEVEL", "NCCL_CROSS_NIC", "NCCL_ALGO", "NCCL_PROTO", "NCCL_TREE_THRESHOLD",
        "CUDA_VISIBLE_DEVICES", "TORCH_NCCL_TRACE_BUFFER_SIZE", "NCCL_IB_TIMEOUT", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "TESSERA_CPU", "TESSERA_GUARD_FD", "TESSERA_CUDA", "TESSERA_CUBLAS", "TESSERA_NCCL", "TESSERA_AGENT_PORTS",
        "TESSERA_IFNAME", "TESSERA_SHM_FD", "TESSERA_TUNING", "TESSERA_HOST", "TESSERA_MPI", "TESSERA_MPI_PART_BYTES",
        "TESSERA_LAUNCH_AGENT", "TESSERA_RANK", "TESSERA_WORLD", "TESSERA_FAULT",
        /* The sources of NCCL and its plug-ins read these, and their guides do not
         * name them. */
        "NCCL_SOCKET_RCVBUF", "NCCL_SOCKET_SNDBUF", "NCCL_MIN_P2P_NCHANNELS", "NCCL_GIN_ENABLE", "NCCL_SYM_KERNEL",
        "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE", "NCCL_PROXY_DUMP_SIGNAL", "NCCL_WORK_FIFO_BYTES",
        "NCCL_GRAPH_DUMP_FILE", "NCCL_IBVERBS_LIB", "NCCL_PARAM_DUMP_ALL", "NCCL_NVLS_NCHANNELS",
        "NCCL_INSPECTOR_ENABLE", "NCCL_IBEXT_DISABLE", "OFI_NCCL_PROTOCOL", "RCCL_MSCCL_ENABLE", "FI_PROVIDER",
        "FI_EFA_USE_DEVICE_RDMA", "SHARP_COLL_LOG_LEVEL", "NVSHMEM_SYMMETRIC_SIZE", "UCX_MAX_RNDV_RAILS", "UCC_TLS",
        "MELLANOX_VISIBLE_DEVICES", "GLOO_LOG_LEVEL", "TORCH_NCCL_BCAST_UNIQUEID", "TORCH_FR_DUMP_ON_TIMEOUT"};
    EXPECT_OK(tess_env_registry_load(test_mem(), NULL, 0, &registry));
    EXPECT(registry.table.n >= 120);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (tess_table_find(&registry.table, names[i]) == NULL)
            test_fail(__FILE__, __LINE__, "%s is not in the registry", names[i]);
    for (int i = 0; i < registry.table.n; i++) { /* a default that is a plain value is accepted, and no risk */
        const tess_env_variable *v = tess_table_at(&registry.table, i);
        if (v->fallback == NULL || strchr(v->fallback, ' ') != NULL || strncmp(v->fallback, "unset", 5) == 0 ||
            strcmp(v->fallback, "chosen") == 0)
            continue;
        if (!tess_env_accepts(v->values, v->fallback))
            test_fail(__FILE__, __LINE__, "%s: its default '%s' is not among '%s'", v->row.id, v->fallback, v->values);
        if (v->risky != NULL && tess_env_accepts(v->risky, v->fallback))
            test_fail(__FILE__, __LINE__, "%s: its default '%s' is called risky", v->row.id, v->fallback);
    }
    tess_env_registry_free(&registry);
}

static void expect_grade(const char *name, tess_env_grade grade, const char *finding)
{
    const tess_env_setting *s = tess_env_find(&report, name);
    if (s == NULL)
        test_fail(__FILE__, __LINE__, "%s is not in the report", name);
    if (s->grade != grade)
        test_fail(__FILE__, __LINE__, "%s=%s has grade %d, expected %d: %s", name, s->value, s->grade, grade,
                  s->finding);
    EXPECT_CONTAINS(s->finding, finding);
}

static void invalid_values_are_flagged(void)
{
    judge("export NCCL_DEBUG=ERROR\nNCCL_ALGO=Ring/Tree/CollNet\nNCCL_PROTO='LL,Simple' # fine\nNCCL_IB_TIMEOUT=40\n"
          "NCCL_P2P_LEVEL=PIX\nNCCL_NTHREADS=100\nNCCL_IB_DISABLE=0\nNCCL_SOCKET_NTHREADS=abc\nHOME=/root\n",
          0);
    expect_grade("NCCL_DEBUG", TESS_ENV_WRONG, "WARN");
    expect_grade("NCCL_ALGO", TESS_ENV_WRONG, "separated by commas");
    expect_grade("NCCL_PROTO", TESS_ENV_FINE, "");
    expect_grade("NCCL_IB_TIMEOUT", TESS_ENV_WRONG, "from 0 to 31");
    expect_grade("NCCL_P2P_LEVEL", TESS_ENV_FINE, "");
    expect_grade("NCCL_NTHREADS", TESS_ENV_WRONG, "64|128|256|512");
    expect_grade("NCCL_IB_DISABLE", TESS_ENV_FINE, "says the default again");
    expect_grade("NCCL_SOCKET_NTHREADS", TESS_ENV_WRONG, "from 1 to 16");
    EXPECT(tess_env_find(&report, "HOME") == NULL);
    EXPECT_INT(report.n_seen, 9);
    EXPECT_INT(tess_env_n_findings(&report), 5);
    forget();
}

/* Each pair: a value that is accepted and dangerous, and one of the same variable that is not. */
static void values_that_are_accepted_and_dangerous_are_flagged_with_their_reason(void)
{
    static const struct {
        const char *risky, *fine, *reason;
    } pairs[] = {
        {"NCCL_IB_TIMEOUT=2", "NCCL_IB_TIMEOUT=22", "a busy network is taken for a broken one"},
        {"NCCL_IB_TIMEOUT=0", "NCCL_IB_TIMEOUT=14", "never"},
        {"NCCL_IB_TIMEOUT=31", "NCCL_IB_TIMEOUT=23", "8 minutes"},
        {"NCCL_IB_RETRY_CNT=1", "NCCL_IB_RETRY_CNT=7", "lost packets"},
        {"UCX_TLS=rc", "UCX_TLS=rc,cuda", "add self,sm"},
        {"UCX_TLS=tcp,rc", "UCX_TLS=^rc", "add self,sm"},
        {"UCX_TLS=ud", "UCX_TLS=self,rc,ud:aux", "add self,sm"},
        {"UCX_TLS=dc_x", "UCX_TLS=all", "add self,sm"},
        {"UCX_HANDLE_ERRORS=bt,freeze", "UCX_HANDLE_ERRORS=bt", "hangs instead of ending"},
        {"TORCH_NCCL_BLOCKING_WAIT=1", "TORCH_NCCL_BLOCKING_WAIT=0", "asynchronous errors off"},
        {"NCCL_BLOCKING_WAIT=1", "NCCL_BLOCKING_WAIT=0", "asynchronous errors off"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING=0", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3", "ranks hang"},
        {"TORCH_NCCL_ENABLE_MONITORING=0", "TORCH_NCCL_ENABLE_MONITORING=1", "hangs forever"},
        {"NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE=0", "through host memory"},
        {"NCCL_SHM_DISABLE=1", "NCCL_SHM_DISABLE=0", "--shm-size"},
        {"NCCL_IB_DISABLE=1", "NCCL_IB_DISABLE=0", "over TCP"},
        {"NCCL_NET=Socket", "NCCL_NET=IB", "over TCP"},
        {"NCCL_DEBUG=TRACE", "NCCL_DEBUG=INFO", "for a short test only"},
        {"NCCL_PROTO=LL,LL128", "NCCL_PROTO=^LL128", "wrong results"},
        {"NCCL_NET_GDR_LEVEL=5", "NCCL_NET_GDR_LEVEL=PHB", "across CPU sockets"},
        {"CUDA_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING=0", "for finding an error only"},
        {"TORCH_DISTRIBUTED_DEBUG=DETAIL", "TORCH_DISTRIBUTED_DEBUG=INFO", "for debugging only"},
        {"OMPI_MCA_btl=tcp,sm", "OMPI_MCA_btl=^openib", "add self"},
        {"OMPI_MCA_btl_tcp_if_exclude=docker0", "OMPI_MCA_btl_tcp_if_exclude=docker0,lo", "add lo"},
        {"OFI_NCCL_GDR_FLUSH_DISABLE=true", "OFI_NCCL_GDR_FLUSH_DISABLE=false", "wrong results"},
        {"OMP_WAIT_POLICY=active", "OMP_WAIT_POLICY=passive", "spin"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        judge(pairs[i].risky, 0);
        expect_grade(report.settings[0].name, TESS_ENV_RISKY, pairs[i].reason);
        EXPECT_INT(tess_env_n_findings(&report), 1);
        forget();
        judge(pairs[i].fine, 0);
        expect_grade(report.settings[0].name, TESS_ENV_FINE, "");
        EXPECT_INT(tess_env_n_findings(&report), 0);
        forget();
    }
}

static void lists_of_integers_are_parsed(void)
{
    judge("OMP_NUM_THREADS=4,2\n", 0);
    expect_grade("OMP_NUM_THREADS", TESS_ENV_FINE, "");
    forget();
    static const char *const wrong[] = {"OMP_NUM_THREADS=x\n", "OMP_NUM_THREADS=0\n", "OMP_NUM_THREADS=4,\n"};
    for (int i = 0; i < 3; i++) {
        judge(wrong[i], 0);
        expect_grade("OMP_NUM_THREADS", TESS_ENV_WRONG, "integers, separated by commas, each from 1");
        forget();
    }
}

static void void_advice_is_called_void(void)
{
    judge("NCCL_TIMEOUT=3600\nNCCL_TREE_THRESHOLD=0\nTORCH_DISTRIBUTED_TIMEOUT=3600\nNCCL_IB_CUDA_SUPPORT=1\n", 0);
    expect_grade("NCCL_TIMEOUT", TESS_ENV_VOID, "nobody reads it");
    expect_grade("NCCL_TREE_THRESHOLD", TESS_ENV_VOID, "removed in NCCL 2.5");
    expect_grade("TORCH_DISTRIBUTED_TIMEOUT", TESS_ENV_VOID, "nobody");
    expect_grade("NCCL_IB_CUDA_SUPPORT", TESS_ENV_VOID, "removed in NCCL 2.4");
    EXPECT_CONTAINS(tess_env_find(&report, "NCCL_TIMEOUT")->known->note, "timeout=");
    forget();
}

/* Tessera uses NCCL for messages alone, and never waits without a deadline. */
static void what_a_variable_means_for_tessera_is_told(void)
{
    tess_buffer out = {.mem = test_mem()};
    judge("NCCL_ALGO=Ring\nNCCL_COMM_BLOCKING=1\nNCCL_HOSTID=a\nNCCL_P2P_DISABLE=1\nNCCL_IB_DISABLE=1\n", 0);
    EXPECT_OK(tess_env_print(&report, &registry, false, &out));
    EXPECT_CONTAINS(out.data, "tessera: no effect: Tessera uses NCCL for messages alone, and sums by itself");
    EXPECT_CONTAINS(out.data, "tessera: 1 is refused: a call would wait for ever");
    EXPECT_CONTAINS(out.data, "tessera: one for each rank lets ranks share a GPU");
    EXPECT_CONTAINS(out.data, "tessera: no effect on one host");
    EXPECT_CONTAINS(out.data, "tessera: bytes between hosts go over TCP: slower, same bits");
    tess_buffer_free(&out);
    forget();
}

/* A rank, or the command of an alert, has those that processes of Tessera set. */
static void all_variables_of_our_own_are_known(void)
{
    char lines[TESS_VARIABLE_COUNT * (TESS_VARIABLE_NAME + 4)] = "";
    int n = 0;
    for (int v = 0; v < TESS_VARIABLE_COUNT; v++)
        if (strncmp(tess_variables[v].name, "TESSERA_", 8) == 0 && strncmp(tess_variables[v].values, "one ", 4) != 0) {
            snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s=1\n", tess_variables[v].name);
            n++;
        }
    judge(lines, 0);
    EXPECT(n > 30);
    EXPECT_INT(report.n_settings, n);
    for (int i = 0; i < report.n_settings; i++) {
        EXPECT_INT(report.settings[i].grade, TESS_ENV_FINE);
        EXPECT(report.settings[i].known != NULL);
        EXPECT_TEXT(report.settings[i].source, "Tessera");
    }
    forget();
}

static void unknown_names_get_the_nearest_one(void)
{
    judge("NCCL_SOCKET_IFNAMES=eth0\nTORCH_NCCL_HEARTBEAT_TIMEOUT=600\nTESSERA_CPUS=avx2\nUCX_GGA_SOMETHING=1\n"
          "UCX_NET_DEVICE=mlx5_0:1\nOMPI_MCA_btl_tcp_links=2\nUCT_TLS=rc\nUCT_FOO=1\nNCLL_DEBUG=INFO\n"
          "NCCL_SOKCET_IFNAME=eth0\nNCCL_BUFF_SIZE=1\nNCCL_CHECK_DISABLE=1\nNCCL_DUMP_ON_TIMEOUT=1\n"
          "TORCH_NCCL_SOCKET_IFNAME=eth0\nTORCH_ALLOC_CONF=x\nNCCL_OFI_PROTOCOL=RDMA\nFI_PROVIDERS=efa\n"
          "SHARP_COLL_LOG_LEVELS=3\nNVSHMEM_SYMETRIC_SIZE=1G\nMELLANOX_VISIBLE_DEVICE=all\n",
          0);
    expect_grade("NCCL_SOCKET_IFNAMES", TESS_ENV_WRONG, "did you mean NCCL_SOCKET_IFNAME?");
    expect_grade("TORCH_NCCL_HEARTBEAT_TIMEOUT", TESS_ENV_WRONG, "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC");
    expect_grade("TESSERA_CPUS", TESS_ENV_WRONG, "TESSERA_CPU?");
    expect_grade("UCX_GGA_SOMETHING", TESS_ENV_UNKNOWN, "ucx_info");
    expect_grade("UCX_NET_DEVICE", TESS_ENV_WRONG, "UCX_NET_DEVICES");
    expect_grade("OMPI_MCA_btl_tcp_links", TESS_ENV_UNKNOWN, "ompi_info");
    expect_grade("UCT_TLS", TESS_ENV_WRONG, "nobody reads a variable of this name: did you mean UCX_TLS?");
    expect_grade("UCT_FOO", TESS_ENV_WRONG, "nobody reads a variable of this name");
    expect_grade("NCLL_DEBUG", TESS_ENV_WRONG, "did you mean NCCL_DEBUG?");
    expect_grade("NCCL_SOKCET_IFNAME", TESS_ENV_WRONG, "did you mean NCCL_SOCKET_IFNAME?");
    expect_grade("NCCL_BUFF_SIZE", TESS_ENV_WRONG, "did you mean NCCL_BUFFSIZE?");
    expect_grade("NCCL_CHECK_DISABLE", TESS_ENV_WRONG, "did you mean NCCL_CHECKS_DISABLE?");
    expect_grade("NCCL_DUMP_ON_TIMEOUT", TESS_ENV_WRONG, "did you mean TORCH_NCCL_DUMP_ON_TIMEOUT?");
    expect_grade("TORCH_NCCL_SOCKET_IFNAME", TESS_ENV_WRONG, "did you mean NCCL_SOCKET_IFNAME?");
    expect_grade("TORCH_ALLOC_CONF", TESS_ENV_WRONG, "did you mean PYTORCH_ALLOC_CONF?");
    expect_grade("NCCL_OFI_PROTOCOL", TESS_ENV_WRONG, "did you mean OFI_NCCL_PROTOCOL?");
    expect_grade("FI_PROVIDERS", TESS_ENV_WRONG, "did you mean FI_PROVIDER?");
    expect_grade("SHARP_COLL_LOG_LEVELS", TESS_ENV_WRONG, "did you mean SHARP_COLL_LOG_LEVEL?");
    expect_grade("NVSHMEM_SYMETRIC_SIZE", TESS_ENV_WRONG, "did you mean NVSHMEM_SYMMETRIC_SIZE?");
    expect_grade("MELLANOX_VISIBLE_DEVICE", TESS_ENV_WRONG, "did you mean MELLANOX_VISIBLE_DEVICES?");
    forget();
}

/* A newer version may read what the registry lacks: nothing is claimed of such a name, however near another one is. */
static void names_that_the_registry_lacks_are_not_called_wrong(void)
{
    judge("NCCL_FOO=1\nNCCL_NEW_PLUGIN=x\nTORCH_NCCL_NEWER=1\nFI_PSM4_UUID=1\nUCX_XC_TIMEOUT=1s\nGLOO_NEW=1\n"
          "NCCL_MID_CTAS=4\nOMP_NEW=1\nNVSHMEM_NEW=1\nSHARP_NEW=1\nNCCL_DEBUG_SUBSYSTEM=ALL\nPMIX_SIZE=4\n"
          "OMPI_MCA_mtl_tcp_if_exclude=lo\n",
          0);
    for (int i = 0; i < report.n_settings; i++)
        expect_grade(report.settings[i].name, TESS_ENV_UNKNOWN, "not in the registry");
    EXPECT_INT(report.n_settings, 13);
    EXPECT_INT(tess_env_n_findings(&report), 0);
    /* It is near to all short names. */
    EXPECT(strstr(tess_env_find(&report, "NCCL_FOO")->finding, "did you mean") == NULL);
    EXPECT_CONTAINS(tess_env_find(&report, "NCCL_DEBUG_SUBSYSTEM")->finding, "did you mean NCCL_DEBUG_SUBSYS?");
    forget();
}

static void expect_conflict(const char *environment, const char *needle)
{
    judge(environment, 8);
    for (int i = 0; i < report.n_conflicts; i++) {
        if (strstr(report.conflicts[i], needle) != NULL) {
            forget();
            return;
        }
    }
    test_fail(__FILE__, __LINE__, "no conflict with \"%s\" among %d in %s", needle, report.n_conflicts, environment);
}

static void contradictions_are_named(void)
{
    expect_conflict("NCCL_IB_DISABLE=1\nNCCL_IB_HCA=mlx5_0\n", "NCCL_IB_HCA=mlx5_0 does nothing");
    expect_conflict("NCCL_IB_DISABLE=-1\nNCCL_IB_HCA=mlx5_0\n", "NCCL_IB_HCA=mlx5_0 does nothing");
    expect_conflict("NCCL_IB_DISABLE=01\nNCCL_IB_HCA=mlx5_0\n", "NCCL_IB_HCA=mlx5_0 does nothing");
    expect_conflict("NCCL_IB_DISABLE=0x1\nNCCL_IB_HCA=mlx5_0\n", "NCCL_IB_HCA=mlx5_0 does nothing");
    expect_conflict("NCCL_RAS_ENABLE=0x0\nNCCL_RAS_ADDR=localhost:7\n", "NCCL_RAS_ADDR=localhost:7 does nothing");
    expect_conflict("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=120\n", "below the collective timeout of 600 s");
    expect_conflict("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=300\nDEEPSPEED_TIMEOUT=60\n", "3600 s");
    expect_conflict("OMP_NUM_THREADS=4\nLOCAL_WORLD_SIZE=4\n", "set it to 2");
    expect_conflict("NCCL_SOCKET_NTHREADS=16\nNCCL_NSOCKS_PERTHREAD=8\n", "64 sockets");
    expect_conflict("NCCL_DEBUG_SUBSYS=ALL\n", "without NCCL_DEBUG");
    expect_conflict("NCCL_DEBUG_SUBSYS=ALL\nNCCL_DEBUG=WARN\n", "does nothing");
    expect_conflict("NCCL_ASYNC_ERROR_HANDLING=1\nTORCH_NCCL_ASYNC_ERROR_HANDLING=3\n", "old and the new name");
    expect_conflict("NCCL_MIN_CTAS=32\nNCCL_MAX_CTAS=16\n", "above");
    expect_conflict("NCCL_NET=Socket\nNCCL_IB_TC=106\n", "leaves InfiniBand aside");
    expect_conflict("NCCL_IB_GID_INDEX=3\nNCCL_IB_ROCE_VERSION_NUM=2\n", "fixes the GID");
    expect_conflict("NCCL_SOCKET_IFNAME=eth0\nGLOO_SOCKET_IFNAME=ib0\n", "different interfaces");
    expect_conflict("NCCL_SOCKET_IFNAME==eth\nGLOO_SOCKET_IFNAME=eth0\n", "different interfaces");
    judge("NCCL_SOCKET_IFNAME=ib,eth\nGLOO_SOCKET_IFNAME=eth0\n", 8); /* a prefix of it */
    EXPECT_INT(report.n_conflicts, 0);
    forget();
    expect_conflict("RANK=8\nWORLD_SIZE=8\nMASTER_ADDR=h\n", "not below");
    expect_conflict("TORCH_NCCL_DUMP_ON_TIMEOUT=1\nTORCH_NCCL_TRACE_BUFFER_SIZE=0\n", "nothing to dump");
    expect_conflict("NCCL_BLOCKING_WAIT=1\nNCCL_ASYNC_ERROR_HANDLING=1\n", "choose one");
    expect_conflict("TORCH_NCCL_BLOCKING_WAIT=1\nNCCL_ASYNC_ERROR_HANDLING=1\n", "choose one");
    expect_conflict("TORCH_NCCL_DUMP_ON_TIMEOUT=1\nTORCH_NCCL_ENABLE_MONITORING=0\n", "nothing is dumped");
    expect_conflict("TORCH_NCCL_DESYNC_DEBUG=1\nTORCH_NCCL_ASYNC_ERROR_HANDLING=0\n", "ranks that are behind");
    expect_conflict("CUDA_LAUNCH_BLOCKING=1\nNCCL_LAUNCH_ORDER_IMPLICIT=1\n", "cannot order launches");
    expect_conflict("NCCL_P2P_DISABLE=1\nNCCL_SHM_DISABLE=1\n", "only the network is left");
    expect_conflict("WORLD_SIZE=16\nLOCAL_WORLD_SIZE=8\nNCCL_SOCKET_IFNAME=lo\n", "8 of the 16 ranks are on others");
    judge("WORLD_SIZE=8\nLOCAL_WORLD_SIZE=8\nRANK=0\nMASTER_ADDR=localhost\nGLOO_SOCKET_IFNAME=lo\n", 8);
    EXPECT_INT(tess_env_n_findings(&report), 0);
    forget();
    judge("NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=INIT,^ENV\nTORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=900\nOMP_NUM_THREADS=2\n"
          "LOCAL_WORLD_SIZE=4\nNCCL_IB_HCA==mlx5_0:1\nNCCL_ALGO=allreduce:^tree\n",
          8);
    EXPECT_INT(tess_env_n_findings(&report), 0);
    forget();
}

static void an_environment_is_read_in_all_its_forms(void)
{
    static const char block[] = "NCCL_DEBUG=INFO\0NCCL_DEBUG_FILE=a b # c\0=bad\0NCCL_ALGO";
    judge("  export NCCL_DEBUG=\"WARN\"\r\n# NCCL_ALGO=Tree\nNCCL_NET='IB'\nNCCL_NET=Socket\nnot a line\n=\n", 0);
    EXPECT_TEXT(tess_env_find(&report, "NCCL_DEBUG")->value, "WARN");
    EXPECT_TEXT(tess_env_find(&report, "NCCL_NET")->value, "Socket");
    EXPECT_INT(report.n_settings, 2);
    forget();
    EXPECT_OK(tess_env_registry_load(test_mem(), NULL, 0, &registry));
    EXPECT_OK(tess_env_check(test_mem(), &registry, block, sizeof(block) - 1, TESS_ENV_BLOCK, 0, &report));
    EXPECT_TEXT(tess_env_find(&report, "NCCL_DEBUG_FILE")->value, "a b # c");
    EXPECT_INT(report.n_settings, 2);
    forget();
}

static void expect_value(const char *name, const char *value, bool computed)
{
    const tess_env_setting *s = tess_env_find(&report, name);
    if (s == NULL)
        test_fail(__FILE__, __LINE__, "%s is not in the report", name);
    EXPECT_TEXT(s->value, value);
    if (s->computed != computed)
        test_fail(__FILE__, __LINE__, "%s=%s: computed is %d", name, value, s->computed);
}

static void assignments_of_a_shell_script_are_read(void)
{
    judge("#!/bin/bash\n# don't set NCCL_FOO=1\n: \"${NCCL_DEBUG:=ERROR}\"\n: ${NCCL_IB_TIMEOUT=2}\n"
          "export NCCL_IB_RETRY_CNT=${RETRY:-1} NCCL_SOCKET_IFNAME=\"${IF:-eth0}\"\nHCA='mlx5_0'\n"
          "export NCCL_IB_HCA=$HCA; export UCX_TLS=${TLS-rc}\nPORT=\nMASTER_PORT=\"${PORT:-295\"00\"}\"\n"
          "export MASTER_ADDR=$(scontrol show hostnames \"$NODES\" | head -n 1)\nNCCL_DEBUG_FILE='${X:=3}'\n"
          "OMP_NUM_THREADS=4 NCCL_SHM_DISABLE=1 torchrun --nproc-per-node 8 train.py NCCL_NTHREADS=${A:-${B:-100}} \\\n"
          "  NCCL_BUFFSIZE=$((4 * 1024)) NCCL_ALGO=`cat algo` # NCCL_NET=Socket\n"
          "declare -x TORCH_CUDA_ARCH_LIST=\"8.0 9.0\"\nmpirun -x NCCL_PROTO=LL -x NCCL_IB_HCA=\"$HCA\" echo it's\n"
          "export WORLD_SIZE=${N:=8} LOCAL_WORLD_SIZE=$N RANK=${R%0} TORCH_HOME=$HOME/torch GLOO_SOCKET_IFNAME=${IF\n",
          0);
    expect_value("NCCL_DEBUG", "ERROR", false);
    expect_value("NCCL_IB_TIMEOUT", "2", false);
    expect_value("NCCL_IB_RETRY_CNT", "1", false);
    expect_value("NCCL_SOCKET_IFNAME", "eth0", false);
    expect_value("NCCL_IB_HCA", "mlx5_0", false);
    expect_value("UCX_TLS", "rc", false);
    expect_value("MASTER_PORT", "29500", false);
    expect_value("MASTER_ADDR", "$(scontrol show hostnames \"$NODES\" | head -n 1)", true);
    expect_value("NCCL_DEBUG_FILE", "${X:=3}", false);
    expect_value("OMP_NUM_THREADS", "4", false);
    expect_value("NCCL_SHM_DISABLE", "1", false);
    expect_value("NCCL_NTHREADS", "100", false);
    expect_value("NCCL_BUFFSIZE", "$((4 * 1024))", true);
    expect_value("NCCL_ALGO", "`cat algo`", true);
    expect_value("TORCH_CUDA_ARCH_LIST", "8.0 9.0", false);
    expect_value("NCCL_PROTO", "LL", false);
    expect_value("WORLD_SIZE", "8", false);
    expect_value("LOCAL_WORLD_SIZE", "8", false);
    expect_value("RANK", "${R%0}", true);
    expect_value("TORCH_HOME", "$HOME/torch", true);
    expect_value("GLOO_SOCKET_IFNAME", "${IF", true);
    EXPECT(tess_env_find(&report, "NCCL_FOO") == NULL && tess_env_find(&report, "NCCL_NET") == NULL);
    expect_grade("NCCL_DEBUG", TESS_ENV_WRONG, "WARN");
    expect_grade("NCCL_IB_TIMEOUT", TESS_ENV_RISKY, "busy network");
    expect_grade("UCX_TLS", TESS_ENV_RISKY, "add self,sm");
    expect_grade("NCCL_NTHREADS", TESS_ENV_WRONG, "64|128|256|512");
    expect_grade("NCCL_BUFFSIZE", TESS_ENV_FINE, "the shell computes the value");
    forget();
}

/* Values that only a shell knows are neither judged nor compared with other variables. */
static void values_that_a_shell_computes_are_not_judged(void)
{
    judge("export NCCL_DEBUG=$LEVEL\nexport NCCL_DEBUG_SUBSYS=INIT\nexport NCCL_RAS_ENABLE=$RAS\n"
          "export NCCL_RAS_ADDR=localhost:1\nexport NCCL_SOCKET_IFNAME=$IF GLOO_SOCKET_IFNAME=eth0\n"
          "export RANK=$SLURM_PROCID WORLD_SIZE=8 MASTER_ADDR=$(hostname)\n",
          0);
    EXPECT_INT(report.n_settings, 9);
    EXPECT_INT(tess_env_n_findings(&report), 0);
    forget();
    judge("NCCL_IB_TIMEOUT=${T:-22}\nNCCL_BUFFSIZE=$SIZE\nNCCL_DEBUG_FILE=/tmp/it's a log\n", 0);
    expect_value("NCCL_IB_TIMEOUT", "22", false);
    expect_value("NCCL_BUFFSIZE", "$SIZE", true);
    expect_value("NCCL_DEBUG_FILE", "/tmp/it's a log", false);
    forget();
}

static void names_are_explained_and_values_given_with_them_are_judged(void)
{
    char *names[] = {"NCCL_DEBUG=ERROR", "NCCL_IB_TIMEOUT=2", "UCX_TLS", "NCCL_IB_HCA=mlx5_0", "NCCL_NOT_YET=1"};
    unsetenv("UCX_TLS");
    EXPECT_OK(tess_env_registry_load(test_mem(), NULL, 0, &registry));
    EXPECT_OK(tess_env_explain(test_mem(), &registry, names, 5, &report));
    EXPECT_INT(report.n_settings, 5);
    expect_grade("NCCL_DEBUG", TESS_ENV_WRONG, "WARN");
    expect_grade("NCCL_IB_TIMEOUT", TESS_ENV_RISKY, "busy network");
    expect_grade("UCX_TLS", TESS_ENV_FINE, "");
    EXPECT(tess_env_find(&report, "UCX_TLS")->value == NULL);
    expect_value("NCCL_IB_HCA", "mlx5_0", false);
    expect_grade("NCCL_NOT_YET", TESS_ENV_UNKNOWN, "not in the registry");
    tess_env_report_free(&report);
    names[0] = "FOO=1"; /* the other names are answered all the same */
    EXPECT_OK(tess_env_explain(test_mem(), &registry, names, 5, &report));
    EXPECT_INT(report.n_settings, 5);
    EXPECT_INT(report.n_strangers, 1);
    expect_grade("FOO", TESS_ENV_UNKNOWN, "no library of distributed training");
    expect_grade("NCCL_IB_TIMEOUT", TESS_ENV_RISKY, "busy network");
    forget();
}

/* Values that are small languages. */
static void settings_of_the_allocator_and_lists_of_gpus_are_read(void)
{
    static const struct {
        const char *text;
        tess_env_grade grade;
        const char *finding;
    } values[] = {
        {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", TESS_ENV_FINE, ""},
        {"PYTORCH_ALLOC_CONF=max_split_size_mb:128, garbage_collection_threshold:0.8", TESS_ENV_FINE, ""},
        {"PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:[256:1,512:2,>:8],expandable_segments:False", TESS_ENV_FINE,
         ""},
        {"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync", TESS_ENV_FINE, ""},
        {"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync,max_split_size_mb:64", TESS_ENV_RISKY, "no effect"},
        {"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync,pinned_use_cuda_host_register:True", TESS_ENV_FINE, ""},
        {"PYTORCH_CUDA_ALLOC_CONF=expandable_segment:True", TESS_ENV_WRONG, "did you mean expandable_segments?"},
        {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:true", TESS_ENV_WRONG, "must be True or False"},
        {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments", TESS_ENV_WRONG, "lacks a value"},
        {"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8", TESS_ENV_WRONG, "more than 20"},
        {"PYTORCH_HIP_ALLOC_CONF=garbage_collection_threshold:80", TESS_ENV_WRONG, "between 0 and 1"},
        {"PYTORCH_ALLOC_CONF=backend:async", TESS_ENV_WRONG, "native or cudaMallocAsync"},
        {"CUDA_VISIBLE_DEVICES=0,1,2", TESS_ENV_FINE, ""},
        {"CUDA_VISIBLE_DEVICES=", TESS_ENV_FINE, ""},
        {"CUDA_VISIBLE_DEVICES=-1", TESS_ENV_FINE, ""},
        {"CUDA_VISIBLE_DEVICES=GPU-5b1c,GPU-77aa", TESS_ENV_FINE, ""},
        {"CUDA_VISIBLE_DEVICES=0,0", TESS_ENV_WRONG, "named twice: CUDA then sees no GPU"},
        {"CUDA_VISIBLE_DEVICES=0,1,01", TESS_ENV_WRONG, "named twice"},
        {"CUDA_VISIBLE_DEVICES=GPU-5b1c,GPU-5b1c", TESS_ENV_WRONG, "named twice"},
        {"CUDA_VISIBLE_DEVICES=0,,1", TESS_ENV_RISKY, "ends the list"},
        {"CUDA_VISIBLE_DEVICES=0,-1,2", TESS_ENV_RISKY, "ends the list"},
        {"CUDA_VISIBLE_DEVICES=0,GPU-5b1c", TESS_ENV_RISKY, "ends the list"},
    };
    EXPECT_OK(tess_env_registry_load(test_mem(), NULL, 0, &registry));
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char text[120], *names[] = {text};
        snprintf(text, sizeof(text), "%s", values[i].text);
        EXPECT_OK(tess_env_explain(test_mem(), &registry, names, 1, &report));
        const tess_env_setting *setting = &report.settings[0];
        if (setting->grade != values[i].grade || strstr(setting->finding, values[i].finding) == NULL)
            test_fail(__FILE__, __LINE__, "%s: grade %d, \"%s\"; expected %d, \"%s\"", values[i].text, setting->grade,
                      setting->finding, values[i].grade, values[i].finding);
        tess_env_report_free(&report);
    }
    tess_env_registry_free(&registry);
}

/* Only the first 1,024 items of a list are compared, so that a long list takes no time. */
static void a_long_list_of_gpus_is_read_in_no_time(void)
{
    static const struct {
        int repeated; /* item that has the number of the item before it */
        tess_env_grade grade;
    } lists[] = {{1000, TESS_ENV_WRONG}, {1023, TESS_ENV_WRONG}, {1024, TESS_ENV_FINE}, {19999, TESS_ENV_FINE}};
    EXPECT_OK(tess_env_registry_load(test_mem(), NULL, 0, &registry));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        tess_buffer text = {.mem = test_mem()};
        EXPECT_OK(tess_buffer_printf(&text, "CUDA_VISIBLE_DEVICES=0"));
        for (int item = 1; item < 20000; item++)
            EXPECT_OK(tess_buffer_printf(&text, ",%d", item - (item == lists[i].repeated)));
        EXPECT_OK(tess_buffer_append(&text, "", 1));
        char *names[] = {text.data};
        EXPECT_OK(tess_env_explain(test_mem(), &registry, names, 1, &report));
        EXPECT_INT(report.settings[0].grade, lists[i].grade);
        tess_env_report_free(&report);
        tess_buffer_free(&text);
    }
    tess_env_registry_free(&registry);
}

static const char *write_file(const char *name, const char *text)
{
    static char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), name));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    return path;
}

static void expect_bad_file(const char *text, const char *needle)
{
    const char *path = write_file("v.yaml", text);
    EXPECT_FAILS(tess_env_registry_load(test_mem(), &path, 1, &registry), TESS_E_FORMAT, needle);
    tess_env_registry_free(&registry);
}

static void a_variable_that_names_no_library_or_source_has_those_of_its_family(void)
{
    const char *path = write_file("v.yaml", "NCCL_DEBUG:\n  does: other\n");
    EXPECT_OK(tess_env_registry_load(test_mem(), &path, 1, &registry));
    const char *text = "NCCL_DEBUG=WARN\nNCCL_DEBUG_FILE=x\nCUDA_HOME=/usr\n";
    EXPECT_OK(tess_env_check(test_mem(), &registry, text, strlen(text), TESS_ENV_LINES, 0, &report));
    const tess_env_setting *ours = tess_env_find(&report, "NCCL_DEBUG");
    const tess_env_setting *built_in = tess_env_find(&report, "NCCL_DEBUG_FILE");
    EXPECT_TEXT(ours->of, "NCCL");
    EXPECT(ours->source == NULL);
    EXPECT_TEXT(built_in->of, "NCCL");
    EXPECT_TEXT(built_in->source, "NCCL user guide, environment variables");
    EXPECT_TEXT(tess_env_find(&report, "CUDA_HOME")->of, "build tools");
    forget();
}

static void a_users_file_adds_and_a_broken_one_names_its_line(void)
{
    const char *path = write_file("v.yaml", "NCCL_DEBUG:\n  of: us\n  does: other\nOUR_SWITCH:\n  of: us\n  does: x\n"
                                            "  values: one A|B\n");
    EXPECT_OK(tess_env_registry_load(test_mem(), &path, 1, &registry));
    EXPECT_OK(
        tess_env_check(test_mem(), &registry, "OUR_SWITCH=C\nNCCL_DEBUG=ERROR\n", 30, TESS_ENV_LINES, 0, &report));
    expect_grade("OUR_SWITCH", TESS_ENV_WRONG, "one of A|B");
    expect_grade("NCCL_DEBUG", TESS_ENV_FINE, "");
    forget();
    expect_bad_file("A:\n  of: x\n  doess: y\n", "v.yaml:3: there is no field 'doess': did you mean 'does'?");
    expect_bad_file("A:\n  of: x\n", "v.yaml:2: 'A' needs the field 'does'");
    expect_bad_file("A:\n  does: y\n", "v.yaml:2: 'A' needs the field 'of'");
    expect_bad_file("A:\n  of: x\n  does: y\n  values: enum 1\n", "write bool");
    expect_bad_file("A:\n  of: x\n  does: y\nB:\n  of: x\n  does: y\nA:\n  of: z\n",
                    "v.yaml:7: 'A' is given again: it is on line 1 already");
    expect_bad_file("A:\n  of: x\n  does: y\n  risky: 'on'\n", "'risky' and 'risk' need each other");
    expect_bad_file("A:\n  of: x\n  does: y\n  risky: any\n  risk: z\n", "risky 'any': write bool");
    expect_bad_file("A:\n  of: [\n", "v.yaml:3");
    expect_bad_file("A:\n  of: ''\n", "'of' is empty");
}

static void reports_are_text_and_json(void)
{
    tess_buffer out = {.mem = test_mem()};
    json_t *json;
    int64_t version = 0;
    judge("NCCL_TIMEOUT=1\nNCCL_DEBUG_FILE=\x1b[31m\xff\n", 0);
    EXPECT_OK(tess_env_print(&report, &registry, false, &out));
    EXPECT_CONTAINS(out.data, "void     NCCL_TIMEOUT=1");
    EXPECT(strchr(out.data, '\x1b') == NULL);
    out.size = 0;
    EXPECT_OK(tess_env_print(&report, &registry, true, &out));
    EXPECT_OK(tess_json_parse(out.data, out.size, "report", true, &json));
    EXPECT_OK(tess_json_get_int(json, "version", "report", &version));
    EXPECT_INT(version, 1);
    EXPECT_INT(json_array_size(json_object_get(json, "settings")), 2);
    json_decref(json);
    tess_buffer_free(&out);
    forget();
}

static const test_case cases[] = {
    CASE(the_registry_knows_its_variables),
    CASE(invalid_values_are_flagged),
    CASE(values_that_are_accepted_and_dangerous_are_flagged_with_their_reason),
    CASE(lists_of_integers_are_parsed),
    CASE(void_advice_is_called_void),
    CASE(what_a_variable_means_for_tessera_is_told),
    CASE(all_variables_of_our_own_are_known),
    CASE(unknown_names_get_the_nearest_one),
    CASE(names_that_the_registry_lacks_are_not_called_wrong),
    CASE(contradictions_are_named),
    CASE(an_environment_is_read_in_all_its_forms),
    CASE(assignments_of_a_shell_script_are_read),
    CASE(values_that_a_shell_computes_are_not_judged),
    CASE(names_are_explained_and_values_given_with_them_are_judged),
    CASE(settings_of_the_allocator_and_lists_of_gpus_are_read),
    CASE(a_long_list_of_gpus_is_read_in_no_time),
    CASE(a_variable_that_names_no_library_or_source_has_those_of_its_family),
    CASE(a_users_file_adds_and_a_broken_one_names_its_line),
    CASE(reports_are_text_and_json),
};

TEST_MAIN(cases)
