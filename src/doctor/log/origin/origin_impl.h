/* Internal to the readers of prefixes (origin*.c, host_name.c): what they share. */
#ifndef TESS_DOCTOR_LOG_ORIGIN_IMPL_H
#define TESS_DOCTOR_LOG_ORIGIN_IMPL_H

#include "doctor/log/log_impl.h"

/* ---- host_name.c ---- */
/* Whether the text is the name of a file: "train.py", "run.sh", "net_ib.cc", "64-linux-gnu.so". */
bool log_is_file(const char *text, size_t size);
/* Whether a name in capital letters is a host: "NODE6E", "DGX-04". It must begin with a word that is usual for
 * hosts, and continue with a number. */
bool log_is_numbered_host(const char *text, size_t size);

/* ---- origin_text.c ---- */
/* Returns the number at text[at..size); -1: there is none, or it is too large for a rank. */
int origin_number_at(const char *text, size_t size, size_t at, size_t *end);
/* Returns a process id or rank of up to 9 digits; 0: none. */
int origin_number_wide(const char *text, size_t size);
/* Returns the number after `word` (in upper or lower case) if the character `after` follows the number; '\0': any
 * character may follow. -1: none. */
int origin_number_after(const char *text, size_t size, const char *word, char after);
void origin_copy(char *out, size_t out_size, const char *text, size_t size);
/* Copies the beginning of a line as a string, without NULs. Returns its length. */
size_t origin_copy_head(const char *line, size_t size, char *head, size_t head_size);
bool log_is_host_char(char c);
void origin_set_rank(log_who *who, int rank);

/* ---- origin_frameworks.c ---- */
/* Reads host, process, thread and device, as NCCL writes them: "node-a:100:200 [5] ...". */
void origin_read_nccl(const char *line, size_t size, log_who *who);
/* Reads prefixes of Ray, "(Worker pid=5120, ip=192.0.2.14)" and "(raylet, ip=192.0.2.14)", of vLLM, "(VllmWorker rank=1
 * pid=77)", and of SkyPilot, "(task-name, pid=77)". */
void origin_read_worker(const char *line, size_t size, log_who *who);
/* Reads run, step, task and process of Metaflow: "[177/train/578 (pid 28936)] ". */
void origin_read_task(const char *line, size_t size, log_who *who);
/* Reads process and thread of Neuron's runtime: "2025-Jan-10 11:43:09.0123 77:78 ERROR  NRT:nrt_init ". */
void origin_read_neuron(const char *line, log_who *who);
/* Reads the process before a line of oneCCL, "2025:01:10-11:43:09:(77) |CCL_ERROR| ". */
void origin_read_oneccl(const char *line, log_who *who);
/* Reads the process before a line of PyTorch's Python code, "W0110 11:43:09.123000 77 torch/distributed/run.py:793] ".
 * Some versions print the number of a thread there, which is larger than any process id. */
void origin_read_torch(const char *line, log_who *who);
/* Reads the process before a line of Ray's native code, "[2025-01-10 11:43:09,123 I 77 78] main.cc:12: ". */
void origin_read_ray(const char *line, log_who *who);
/* Reads the device in a label at the beginning of a line: "[GPU3] ", "[GPU 3]: ", "GPU 3: ", "[cuda:3] ", or "[3]
 * file.cc:1 NCCL" of a line of NCCL that has lost its host and process. */
void origin_read_gpu(const char *line, log_who *who);
/* Reads the prefix of SGLang, "[2025-01-10 11:43:09 DP1 TP3] ": the ranks in its groups are the name of a scheduler. */
void origin_read_scheduler(const char *line, size_t size, log_who *who);
/* Reads host and process before a crash report of Open MPI, "[node-a:04242] ", or UCX, "[node-a:4242 :0:4242] ". */
void origin_read_crash(const char *line, size_t size, log_who *who);

/* ---- origin_system.c ---- */
/* Reads the host of syslog, which stands before the program: "Jan 10 11:43:09 n1 kernel: ", "Jan 10 11:43:09 n1
 * kubelet[77]: ". */
void origin_read_syslog(const char *line, size_t size, log_who *who);
/* Reads the host of a journal, which stands between a time and the program: "2025-01-10T11:43:09+0000 n1 python[77]: ".
 */
void origin_read_journal(const char *text, log_who *who);
/* Reads the host from a logger's field: "host=gpu-4", "hostname=gpu-4". */
void origin_read_field(const char *line, log_who *who);
/* Reads the host from the logger's name of a test harness: "lisa.env[e1].node[0].cmd[3].stdout ". */
void origin_read_harness(const char *line, log_who *who);

/* ---- origin_launchers.c ---- */
/* Reads host and number of a worker of a TPU, as xla_dist writes them after a time: "192.0.2.8 [14] ". */
void origin_read_tpu_worker(const char *text, size_t is_after_time, log_who *who);
/* Reads the host of SageMaker's tag, "[1,mpirank:6,algo-2]<stderr>:". */
void origin_read_tag(const char *line, log_who *who);
/* Reads a host in brackets, "[node-3] ". Only names that are usual for hosts count: others are loggers or jobs. */
void origin_read_bracketed_host(const char *text, size_t size, log_who *who);
/* Returns the rank in a label at the beginning of a line, "rank3: ", "rank_3: " or "rank-3 | "; -1: none. */
int origin_rank_in_label(const char *line, size_t size);
/* Whether compose named the container: its name ends with the number of the replica, "algo-1-X7YK_1", "trainer_1", or
 * is in small letters and is padded, "engine  |". */
bool origin_is_container(const char *text, size_t size);
/* Returns the length of the name of a stream after a source, " [stderr] " or " [stdout] "; 0: the text has another
 * form.
 */
size_t origin_stream_at(const char *text, size_t size);
/* Reads the host in a prefix of kubectl, "[pod/job-worker-3/pytorch] ", compose, "job-worker-3  | ", pdsh,
 * "node-a: ", or a launcher that names the stream, "job.node-a [stderr] ", or the container that compose names,
 * "trainer_1  | ". */
void origin_read_host(const char *line, size_t size, log_who *who);
/* Whether the rank of a line is that of torchrun's prefix "[default3]:", which counts the processes of one host. */
bool origin_names_only_local_rank(const char *line, size_t size);

/* ---- origin_skip.c ---- */
/* Returns the offset after a time at the beginning: "2025-01-01T10:00:00.123Z ", "2025-01-01 10:00:00,123 " or "Tue
 * Jul 25 14:01:57 2017" (Open MPI, directly before its tag), "704.7s\t1451\t" (Kaggle: seconds and the line's number);
 * 0: the text begins with no such time. */
size_t origin_skip_time(const char *text, size_t size);
/* Returns the offset after "[...]", "[...]:" or "[...]<stderr>:", or after "(...)" of a process or of a raylet; 0:
 * the text begins with none of these. */
size_t origin_skip_bracket(const char *text, size_t size);
/* Returns the offset after the time that UCX writes, "[1767225600.123456] "; 0: the text has another form. */
size_t origin_skip_ucx_time(const char *text);
/* Returns the offset after Open MPI's tag, "[1,6]<stderr>:", or SageMaker's, "[1,mpirank:6,algo-2]<stderr>:"; 0: the
 * text has another form. */
size_t origin_skip_tag(const char *text);
/* Returns the offset after a number or time that a collector of logs puts before a bar, "132 | " or "|
 * 2025-01-10T11:43:09Z | "; 0: the text has another form. */
size_t origin_skip_column(const char *text);

#endif
