/* The words between the launchers of a job's hosts (comm/tcp/tcp_hosts.h). Hosts exchange these numbers. */
#ifndef TESS_CONTROL_LAUNCH_NODE_NODE_WORDS_H
#define TESS_CONTROL_LAUNCH_NODE_NODE_WORDS_H

typedef enum node_word_kind {
    NODE_ALIVE = 1, /* said every few seconds, by both sides */
    NODE_READY,     /* a host waits for a start; `code`: with which its ranks have ended, 0: none have run */
    NODE_GO,        /* node 0: run the ranks of node `seat`, for start number `life`, which has the number `start` */
    NODE_END,       /* node 0: the job has ended with `code` */
    NODE_DONE       /* a host: its ranks have ended with `code`, which is no reason to start again */
} node_word_kind;

/* Seconds between two words of one side. */
#define NODE_ALIVE_S 1.0
/* Seconds of silence after which the other end counts as gone, in addition to tess_launch_node.spare_after_s. */
#define NODE_SILENT_S 3.0

#endif
