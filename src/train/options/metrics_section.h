/* Options of log lines and of the files of metrics. */
#ifndef TESS_TRAIN_OPTIONS_METRICS_SECTION_H
#define TESS_TRAIN_OPTIONS_METRICS_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_METRICS_OPTIONS(OPTION)                                                                                   \
    OPTION(INT, metrics, log_freq, CALLS, "10", 1, 1e9, "steps between log lines")                                     \
    OPTION(BOOL, metrics, enable_tensorboard, NOTHING, "true", "write TensorBoard event files")                        \
    OPTION(BOOL, metrics, report, NOTHING, "true",                                                                     \
           "write report.html into job.dump_folder when the run ends, as `tessera report` does")                       \
    OPTION(INT, metrics, pipeline_timeline, CALLS, "0", 0, 1e9,                                                        \
           "steps between pictures of when each stage worked, in the log and in pipeline/ of job.dump_folder; 0: "     \
           "none")                                                                                                     \
    OPTION(PATH, metrics, tensorboard_folder, NOTHING, "tb",                                                           \
           "folder of the TensorBoard files, inside job.dump_folder")                                                  \
    OPTION(FLOAT, metrics, price_per_rank_hour, NOTHING, "0", 0, 1e9,                                                  \
           "price of one rank for one hour, for `tessera report --cost`")                                              \
    OPTION(ADDRESS, metrics, prometheus_listen, NOTHING, "",                                                           \
           "address and port at which each host shows its metrics to Prometheus, such as 127.0.0.1:9464; empty: none") \
    OPTION(BOOL, metrics, prometheus_public, NOTHING, "false",                                                         \
           "let prometheus_listen be an address that other machines reach: everybody there can read the metrics")      \
    OPTION(PATH, metrics, prometheus_file, NOTHING, "",                                                                \
           "file with the metrics of this host, for the node exporter's text file collector (NAME.prom); empty: none") \
    OPTION(FLOAT, metrics, prometheus_interval_s, NOTHING, "15", 0.1, 3600,                                            \
           "seconds between two writes of prometheus_file")                                                            \
    OPTION(PATHS, metrics, command, CALLS,                                                                             \
           "words of a program that gets each line of metrics.jsonl on its standard input as the run goes on, "        \
           "such as deploy/bridges/wandb.py (docs/howto/trackers.md); empty: none")                                    \
    OPTION(FLOAT, metrics, command_wait_s, CALLS, "30", 0, 86400,                                                      \
           "seconds that metrics.command has to finish when the run has ended; then it is killed")                     \
    OPTION(INT, metrics, samples, NOTHING, "0", 0, 4096,                                                               \
           "number of answers of each rollout that `tessera rl` writes as text to samples.jsonl, TensorBoard and "     \
           "metrics.command; 0: none")                                                                                 \
    OPTION(INT, metrics, histograms_every, CALLS, "0", 0, 1e9,                                                         \
           "steps between histograms of trained weights and gradients in TensorBoard; 0: none")
/* clang-format on */

typedef struct tess_metrics_section {
    TESS_METRICS_OPTIONS(TESS_OPTION_FIELD)
} tess_metrics_section;

extern const tess_option_section tess_section_metrics;

#endif
