/* Texts of libraries, engines, clouds and files, made from the formats of their sources, and the shapes in which logs
 * name hosts and peers: which entry heads the report, and which words its headline has. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

#define TRACE(rank, error)                                           \
    "[rank" rank "]: Traceback (most recent call last):\n[rank" rank \
    "]:   File \"/data/t.py\", line 9, in main\n[rank" rank "]:     f(x)\n[rank" rank "]: " error "\n"
#define IB(host, gpu, peer)                                                                        \
    host ":7:8 [" gpu "] transport/net_ib.cc:99 NCCL WARN NET/IB : Got completion from peer " peer \
         "<4000> with status=12 opcode=0 len=0 vendor err 129\n"

static const struct {
    const char *id, *words, *text; /* words: part of the headline; a leading "!" means that it must not be there */
} samples[] = {
    /* libraries that do not fit */
    {"library-mismatch", "",
     "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but "
     "found runtime version (8, 9, 2)."},
    {"library-mismatch", "", "TypeError: Descriptors cannot be created directly."},
    {"library-mismatch", "", "Intel MKL FATAL ERROR: Cannot load libmkl_avx512.so.2 or libmkl_def.so.2."},
    {"library-mismatch", "",
     "Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with libgomp.so.1 library."},
    {"python-version", "", "RuntimeError: apex.optimizers.FusedAdam requires cuda extensions"},
    {"python-internal-check", "", "RuntimeError: Assertion error (csrc/jit/compiler.hpp:99): arch_major == 9"},
    {"python-device-missing", "", "x.exceptions.MisconfigurationException: No supported gpu backend found!"},
    /* texts that blind sets of public logs showed to be unknown */
    {"tensorrt-llm-world-size", "!Triton failed",
     "  File \"/opt/tritonserver/examples/run.py\", line 571, in <module>\n    main(args)\n"
     "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: mpiSize == tp * pp "
     "(/tmp/tritonbuild/tensorrtllm/cpp/runtime/worldConfig.cpp:99)"},
    {"tensorrt-llm-mpi", "",
     "terminate called after throwing an instance of 'tensorrt_llm::common::TllmException'\n"
     "  what():  [TensorRT-LLM][ERROR] Assertion failed: Failed: MPI error /w/cpp/common/mpiUtils.cpp:211 '6'"},
    {"turbomind-check", "Check failed",
     "[TM][FATAL] kernels/apply.cu(212): Check failed: a.first ==b.first must have the same batch size."},
    {"python-file-missing", "c000001",
     "c000001: FileNotFoundError: [Errno 2] No such file or directory: '/data/cache/x_idx.npy'\n"
     "c000002:   File \"/w/data/dataset.py\", line 35, in build"},
    {"openmpi-daemon-not-started", "plm_rsh_agent",
     "The value of the MCA parameter \"plm_rsh_agent\" was set to a path\nthat could not be found:\n"},
    {"windows-access-violation", "",
     "subprocess.CalledProcessError: Command '['C:\\\\x\\\\python.exe', 'train.py']' returned non-zero exit status "
     "3221225477."},
    {"slurm-cancelled", "job 77", "slurmstepd: *** JOB 77 CANCELLED AT 2026-01-01T00:00:00 *** on n3"},
    {"slurm-time-limit", "job 77",
     "slurmstepd: *** JOB 77 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT *** on n3"},
    {"nccl-duplicate-gpu", "",
     "RuntimeError: CUDASymmetricMemoryAllocator::rendezvous: detected allocations from overlapping devices from "
     "different ranks."},
    {"accelerator-out-of-memory", "",
     "RuntimeError: Resource exhausted: From /job:tpu_worker/replica:0/task:0:\nAttempting to reserve 3.95G at the "
     "bottom of memory. That was not possible. There are 1.92G free, 0B reserved, and 1.92G reservable."},
    /* TensorFlow's words for any remote limit, and another program's policy */
    {"python-exception", "!no memory",
     "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Resource exhausted: From "
     "/job:worker/replica:0/task:1: received message larger than max (5000000 vs. 4194304)"},
    {"none", "", "ERROR The specified eviction policy is not recognized"},
    {"pytorch-unused-parameters", "rank 3",
     "Parameters which did not receive grad for rank 3: cv4.2.2.bias, cv4.2.2.weight\nRuntimeError: Expected to have "
     "finished reduction in the prior iteration before starting a new one."},
    {"object-store", "Failed to upload",
     "{\"simapp_exception\": {\"function\": \"save\", \"message\": \"Exception [Failed to upload /opt/c/0.data to "
     "bucket/x"},
    {"kv-transfer-not-started", "",
     "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: status == NIXL_SUCCESS\n(../nixl/transferAgent.cpp:416)"},
    {"batch-time-limit", "", "ERROR: Not retrying job due to wall clock limit (job automatically killed on the node)"},
    /* engines */
    {"engine-model-unknown", "OddForCausalLM",
     "ValueError: Model architectures ['OddForCausalLM'] are not supported for now. Supported architectures: []"},
    {"tensorrt-engine-file", "",
     "[TRT] [E] IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion stdVersionRead "
     "== "
     "kSERIALIZATION_VERSION failed.Version tag does not match.)"},
    {"tensorrt-engine-file", "", "[TensorRT-LLM][ERROR] Assertion failed: Failed to deserialize cuda engine"},
    /* trainers */
    {"fsdp-setup", "", "ValueError: Could not find the transformer layer class OddLayer in the model."},
    {"loss-printed-nan", "(step 11)", "step 10 loss 2.3\nstep 11 loss nan\nstep 12 loss nan\n"},
    /* files and servers */
    {"hub-missing", "", "Entry Not Found for url: https://huggingface.co/a/b/resolve/main/x.json."},
    {"server-certificate", "was not accepted",
     "requests.exceptions.SSLError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with "
     "url: /x (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
     "failed: unable to get local issuer certificate')))"},
    {"proxy-refuses", "",
     "urllib3.exceptions.ProxyError: ('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 Forbidden'))"},
    {"file-denied", "may not be read or written",
     "error: failed to open file `/c/uv/x`: Permission denied (os error 13)"},
    {"inotify-limit", "", "OSError: [Errno 28] inotify watch limit reached"},
    /* clouds and clusters */
    {"cloud-preempted", "", "The spot instance i-77 will be terminated in 2 minutes"},
    {"kubernetes-node-lost", "", "Warning  NodeNotReady  3s  node-controller  Node is not ready"},
    /* names of hosts, peers and ranks */
    {"cuda-out-of-memory", "host node-3", "[node-3] RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"},
    {"cuda-illegal-access", "host worker-2",
     "2026-01-10 11:43:09,123 [worker-2] ERROR trainer - CUDA error: an illegal memory access was encountered"},
    {"cuda-out-of-memory", "!host", "[c10d] RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"},
    {"host-name-unknown", "!DNS): socket.gaierror", "socket.gaierror: [Errno -2] Name or service not known"},
    {"nccl-ib-retry-exceeded", "to 192.0.2.9; all of them name the same other side: look there first",
     IB("n1", "0", "192.0.2.9") IB("n2", "0", "192.0.2.9") IB("n3", "4", "192.0.2.9")},
    {"nccl-ib-retry-exceeded", "to 192.0.2.7, 192.0.2.8, 192.0.2.9",
     IB("n1", "0", "192.0.2.7") IB("n1", "1", "192.0.2.8") IB("n1", "2", "192.0.2.9") IB("n1", "3", "192.0.2.7")},
    {"python-argument", "all ranks failed alike (none of them is at fault): a value",
     TRACE("0", "ValueError: unsupported scheduler odd") TRACE("1", "ValueError: unsupported scheduler odd")
         TRACE("2", "ValueError: unsupported scheduler odd")},
    {"python-argument", "rank 1: a value",
     "[rank0]: world_size=2\n" TRACE("1", "ValueError: unsupported scheduler odd")},
};

static void each_text_heads_the_report_with_its_entry(void)
{
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    tess_knowledge *knowledge;
    char path[512];
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const char *words = samples[i].words, *text = samples[i].text;
        EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        const char *id = diagnosis.entry >= 0 ? tess_knowledge_at(knowledge, diagnosis.entry)->row.id : "none";
        bool is_absent = words[0] == '!', has_words = strstr(diagnosis.headline, words + is_absent) != NULL;
        if (strcmp(id, samples[i].id) != 0 || has_words == is_absent)
            test_fail(__FILE__, __LINE__, "\"%.200s\": expected %s with \"%s\", found %s: \"%s\"", text, samples[i].id,
                      words, id, diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

/* Ranks that failed alike only report. */
static void ranks_that_failed_alike_are_not_guilty(void)
{
    static const char text[] = TRACE("0", "KeyError: 'rope_type'") TRACE("1", "KeyError: 'rope_type'");
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    tess_knowledge *knowledge;
    char path[512];
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
    EXPECT_OK(tess_survey_read(&survey, path));
    EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
    EXPECT_INT(diagnosis.n_culprits, 0);
    EXPECT_INT(diagnosis.reporter.n_ranks, 2);
    EXPECT(diagnosis.is_cause);
    tess_survey_free(&survey);
    tess_knowledge_destroy(&knowledge);
}

static const test_case cases[] = {
    CASE(each_text_heads_the_report_with_its_entry),
    CASE(ranks_that_failed_alike_are_not_guilty),
};

TEST_MAIN(cases)
