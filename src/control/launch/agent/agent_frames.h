/* Encodes and decodes the messages between agents. Pure functions: they use neither sockets nor the board.
 *
 *     u16 bytes of the whole frame, u8 kind, u8 0, then the kind's fields, little-endian, without padding
 *
 * A connection begins with a hello in both directions. Then, ten times a second and at every important change, one
 * FRAME_HOST is sent, and a FRAME_ROW for each rank of the sender's host. FRAME_DIAGNOSIS is sent once after a
 * failure. Before the row of a rank that waits, FRAME_AWAITED frames are sent; together they hold the set of ranks
 * that it waits for. */
#ifndef TESS_CONTROL_LAUNCH_AGENT_AGENT_FRAMES_H
#define TESS_CONTROL_LAUNCH_AGENT_AGENT_FRAMES_H

#include "control/launch/agent/agent.h"

enum { FRAME_VERSION = 6, FRAME_HEAD_BYTES = 4, FRAME_MOST_BYTES = 2240, FRAME_WORDS = 8 };

typedef enum frame_kind { FRAME_HELLO = 1, FRAME_HOST, FRAME_ROW, FRAME_DIAGNOSIS, FRAME_AWAITED } frame_kind;

/* Identifies the caller, and shows that it belongs to the job. */
typedef struct frame_hello {
    uint8_t secret[AGENT_SECRET_BYTES];
    uint32_t version;
    uint32_t host, n_hosts, world;
} frame_hello;

typedef struct frame_host {
    uint8_t stop;           /* tess_stop_request */
    uint8_t diagnosis_seen; /* the sender knows the diagnosis */
} frame_host;

typedef struct frame_row {
    uint32_t rank;
    tess_board_copy copy;
} frame_row;

/* The root cause. Only the host that reports it sends it. */
typedef struct frame_diagnosis {
    int32_t rank, code;
} frame_diagnosis;

/* A part of the set of ranks that `rank` waits for, in words of 64 ranks. */
typedef struct frame_awaited {
    uint32_t rank;
    uint32_t first;              /* index of the first word */
    uint64_t words[FRAME_WORDS]; /* words after the last one of the set are 0 */
} frame_awaited;

typedef struct agent_frame {
    frame_kind kind;
    union {
        frame_hello hello;
        frame_host host;
        frame_row row;
        frame_diagnosis diagnosis;
        frame_awaited awaited;
    };
} agent_frame;

/* Encodes a frame. Returns the number of bytes written to out. */
size_t agent_frame_encode(const agent_frame *frame, uint8_t out[FRAME_MOST_BYTES]);
/* Decodes the first frame in data[0 .. size). *used is its size; 0: the frame is incomplete. TESS_E_FORMAT: these
 * bytes begin no valid frame. The caller must check the ranks and hosts in it. */
tess_status agent_frame_decode(const uint8_t *data, size_t size, agent_frame *frame, size_t *used);

#endif
