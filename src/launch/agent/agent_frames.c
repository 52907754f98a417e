#include "launch/agent/agent_frames.h"

#include <string.h>

#include "diagnosis/history.h"

/* ---- Fields. A reader at the end of its bytes returns zeros, and reports that at the end. ---- */
typedef struct writer {
    uint8_t *at;
} writer;

typedef struct reader {
    const uint8_t *at, *end;
    bool is_short;
} reader;

static void put(writer *w, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        *w->at++ = (uint8_t)(value >> 8 * i);
}

static void put_bytes(writer *w, const void *data, size_t n)
{
    memcpy(w->at, data, n);
    w->at += n;
}

static uint64_t get(reader *r, int n_bytes)
{
    uint64_t value = 0;
    if (r->end - r->at < n_bytes) {
        r->is_short = true;
        r->at = r->end;
        return 0;
    }
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)*r->at++ << 8 * i;
    return value;
}

static void get_bytes(reader *r, void *data, size_t n)
{
    if ((size_t)(r->end - r->at) < n) {
        r->is_short = true;
        r->at = r->end;
        memset(data, 0, n);
        return;
    }
    memcpy(data, r->at, n);
    r->at += n;
}

static void put_words(writer *w, const uint64_t *words, int n)
{
    for (int i = 0; i < n; i++)
        put(w, words[i], 8);
}

static void get_words(reader *r, uint64_t *words, int n)
{
    for (int i = 0; i < n; i++)
        words[i] = get(r, 8);
}

/* Texts are sent after their length. A reader refuses a text that does not fit with its NUL. */
static void put_text(writer *w, const char *text, size_t size)
{
    size_t n = strnlen(text, size - 1);
    put(w, n, 2);
    put_bytes(w, text, n);
}

static bool get_text(reader *r, char *text, size_t size)
{
    size_t n = (size_t)get(r, 2);
    text[0] = '\0';
    if (n >= size)
        return false;
    get_bytes(r, text, n);
    text[n] = '\0';
    return memchr(text, '\0', n) == NULL;
}

/* ---- Operations ---- */
static void put_op(writer *w, const tess_fingerprint *op)
{
    put(w, op->team, 8);
    put(w, op->sequence, 8);
    put(w, op->count, 8);
    put(w, op->tag, 8);
    put(w, op->call_site, 8);
    put(w, (uint32_t)op->root, 4);
    put(w, op->kind, 1);
    put(w, op->dtype, 1);
    put(w, op->in_dtype, 1);
    put(w, op->op, 1);
    put(w, op->flags, 1);
    put(w, op->label, 8);
}

static bool get_op(reader *r, tess_fingerprint *op)
{
    memset(op, 0, sizeof(*op));
    op->team = get(r, 8);
    op->sequence = get(r, 8);
    op->count = get(r, 8);
    op->tag = get(r, 8);
    op->call_site = get(r, 8);
    op->root = (int32_t)get(r, 4);
    op->kind = (uint8_t)get(r, 1);
    op->dtype = (uint8_t)get(r, 1);
    op->in_dtype = (uint8_t)get(r, 1);
    op->op = (uint8_t)get(r, 1);
    op->flags = (uint8_t)get(r, 1);
    op->label = get(r, 8);
    return op->kind < TESS_TRACE_OP_COUNT;
}

/* ---- Rows ---- */
static void put_row(writer *w, const frame_row *row)
{
    const tess_board_copy *c = &row->copy;
    put(w, row->rank, 4);
    put(w, c->state, 1);
    put(w, c->ended, 1);
    put(w, c->run_state, 1);
    put(w, c->op_state, 1);
    put(w, (uint32_t)c->pid, 4);
    put(w, (uint32_t)c->signal, 4);
    put(w, (uint32_t)c->exit_code, 4);
    put(w, (uint32_t)c->blames, 4);
    put(w, c->age_ns, 8);
    put(w, c->broken_team, 8);
    put(w, (uint64_t)c->step, 8);
    put(w, (uint64_t)c->detail, 8);
    put(w, c->phase_age_ns, 8);
    put(w, c->op_age_ns, 8);
    put(w, c->wait_age_ns, 8);
    put_words(w, c->wait_missing, JOB_RANK_WORDS);
    put(w, c->situation, 1);
    put(w, (uint32_t)c->status, 4);
    put(w, c->n_steps, 8);
    put(w, c->n_tokens, 8);
    put(w, c->loss, 8);
    put(w, c->step_ns, 8);
    put_words(w, c->phase_ns, TESS_PHASE_COUNT);
    put_words(w, c->pool_bytes, TESS_POOL_COUNT);
    put_op(w, &c->op);
    put_op(w, &c->wait_op);
    put_text(w, c->phase, sizeof(c->phase));
    put_text(w, c->op_team, sizeof(c->op_team));
    put_text(w, c->wait_team, sizeof(c->wait_team));
    put_text(w, c->why, sizeof(c->why));
    put_text(w, c->error, sizeof(c->error));
}

static bool get_row(reader *r, frame_row *row)
{
    tess_board_copy *c = &row->copy;
    memset(row, 0, sizeof(*row));
    row->rank = (uint32_t)get(r, 4);
    c->state = (uint32_t)get(r, 1);
    c->ended = (uint32_t)get(r, 1);
    c->run_state = (uint32_t)get(r, 1);
    c->op_state = (uint32_t)get(r, 1);
    c->pid = (int32_t)get(r, 4);
    c->signal = (int32_t)get(r, 4);
    c->exit_code = (int32_t)get(r, 4);
    c->blames = (int32_t)get(r, 4);
    c->age_ns = get(r, 8);
    c->broken_team = get(r, 8);
    c->step = (int64_t)get(r, 8);
    c->detail = (int64_t)get(r, 8);
    c->phase_age_ns = get(r, 8);
    c->op_age_ns = get(r, 8);
    c->wait_age_ns = get(r, 8);
    get_words(r, c->wait_missing, JOB_RANK_WORDS);
    c->situation = (uint32_t)get(r, 1);
    c->status = (int32_t)get(r, 4);
    c->n_steps = get(r, 8);
    c->n_tokens = get(r, 8);
    c->loss = get(r, 8);
    c->step_ns = get(r, 8);
    get_words(r, c->phase_ns, TESS_PHASE_COUNT);
    get_words(r, c->pool_bytes, TESS_POOL_COUNT);
    bool known = c->state <= JOB_RANK_LOST && c->ended <= 1 && c->op_state <= TESS_TRACE_FAILED && c->run_state < 128 &&
                 c->situation < TESS_SITUATION_COUNT;
    bool op = get_op(r, &c->op), wait = get_op(r, &c->wait_op);
    bool phase = get_text(r, c->phase, sizeof(c->phase));
    bool team = get_text(r, c->op_team, sizeof(c->op_team));
    bool wait_team = get_text(r, c->wait_team, sizeof(c->wait_team));
    bool why = get_text(r, c->why, sizeof(c->why));
    bool error = get_text(r, c->error, sizeof(c->error));
    return known && op && wait && phase && team && wait_team && why && error;
}

/* ---- Frames ---- */
size_t agent_frame_encode(const agent_frame *frame, uint8_t out[FRAME_MOST_BYTES])
{
    writer w = {.at = out + FRAME_HEAD_BYTES};
    switch (frame->kind) {
    case FRAME_HELLO:
        put_bytes(&w, frame->hello.secret, AGENT_SECRET_BYTES);
        put(&w, frame->hello.version, 4);
        put(&w, frame->hello.host, 4);
        put(&w, frame->hello.n_hosts, 4);
        put(&w, frame->hello.world, 4);
        break;
    case FRAME_HOST:
        put(&w, frame->host.stop, 1);
        put(&w, frame->host.diagnosis_seen, 1);
        break;
    case FRAME_ROW:
        put_row(&w, &frame->row);
        break;
    case FRAME_DIAGNOSIS:
        put(&w, (uint32_t)frame->diagnosis.rank, 4);
        put(&w, (uint32_t)frame->diagnosis.code, 4);
        break;
    }
    size_t bytes = (size_t)(w.at - out);
    writer head = {.at = out};
    put(&head, bytes, 2);
    put(&head, frame->kind, 1);
    put(&head, 0, 1);
    return bytes;
}

static bool get_body(reader *r, agent_frame *frame)
{
    switch (frame->kind) {
    case FRAME_HELLO:
        get_bytes(r, frame->hello.secret, AGENT_SECRET_BYTES);
        frame->hello.version = (uint32_t)get(r, 4);
        frame->hello.host = (uint32_t)get(r, 4);
        frame->hello.n_hosts = (uint32_t)get(r, 4);
        frame->hello.world = (uint32_t)get(r, 4);
        return true;
    case FRAME_HOST:
        frame->host.stop = (uint8_t)get(r, 1);
        frame->host.diagnosis_seen = (uint8_t)get(r, 1);
        return frame->host.stop <= JOB_STOP_AFTER_SAVE && frame->host.diagnosis_seen <= 1;
    case FRAME_ROW:
        return get_row(r, &frame->row);
    case FRAME_DIAGNOSIS:
        frame->diagnosis.rank = (int32_t)get(r, 4);
        frame->diagnosis.code = (int32_t)get(r, 4);
        return true;
    }
    return false;
}

tess_status agent_frame_decode(const uint8_t *data, size_t size, agent_frame *frame, size_t *used)
{
    *used = 0;
    if (size < FRAME_HEAD_BYTES)
        return TESS_OK;
    size_t bytes = (size_t)(data[0] | data[1] << 8);
    TESS_CHECK(bytes >= FRAME_HEAD_BYTES && bytes <= FRAME_MOST_BYTES, TESS_E_FORMAT, "a frame of %zu bytes", bytes);
    TESS_CHECK(data[2] >= FRAME_HELLO && data[2] <= FRAME_DIAGNOSIS && data[3] == 0, TESS_E_FORMAT,
               "a frame of kind %d, %d", data[2], data[3]);
    if (size < bytes)
        return TESS_OK;
    reader r = {.at = data + FRAME_HEAD_BYTES, .end = data + bytes};
    frame->kind = (frame_kind)data[2];
    bool valid = get_body(&r, frame);
    TESS_CHECK(valid && !r.is_short && r.at == r.end, TESS_E_FORMAT, "a frame of kind %d with %zu bytes is malformed",
               data[2], bytes);
    *used = bytes;
    return TESS_OK;
}
