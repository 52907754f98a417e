#include "control/launch/agent/agent_frames.h"

#include <stddef.h>
#include <string.h>

#include "diagnosis/history.h"

/* One field of a frame, used for both writing and reading. */
typedef struct field {
    uint16_t offset; /* offset in agent_frame */
    uint16_t size;   /* size of an element in agent_frame */
    uint16_t n;      /* number of elements */
    /* size of an element in the frame; 0: a text of up to `size` bytes, after two bytes with its length */
    uint16_t bytes;
} field;

#define SIZE(member) sizeof(((const agent_frame *)0)->member)
#define NUMBER(member, bytes)                                   \
    {                                                           \
        offsetof(agent_frame, member), SIZE(member), 1, (bytes) \
    }
#define ARRAY(member)                                                                                   \
    {                                                                                                   \
        offsetof(agent_frame, member), SIZE(member[0]), SIZE(member) / SIZE(member[0]), SIZE(member[0]) \
    }
#define TEXT(member)                                      \
    {                                                     \
        offsetof(agent_frame, member), SIZE(member), 1, 0 \
    }
#define OPERATION(member)                                                                                     \
    NUMBER(member.team, 8), NUMBER(member.sequence, 8), NUMBER(member.count, 8), NUMBER(member.tag, 8),       \
        NUMBER(member.call_site, 8), NUMBER(member.root, 4), NUMBER(member.kind, 1), NUMBER(member.dtype, 1), \
        NUMBER(member.in_dtype, 1), NUMBER(member.op, 1), NUMBER(member.flags, 1), NUMBER(member.label, 8)

static const field hello_fields[] = {ARRAY(hello.secret), NUMBER(hello.version, 4), NUMBER(hello.host, 4),
                                     NUMBER(hello.n_hosts, 4), NUMBER(hello.world, 4)};
static const field host_fields[] = {NUMBER(host.stop, 1), NUMBER(host.diagnosis_seen, 1)};
static const field diagnosis_fields[] = {NUMBER(diagnosis.rank, 4), NUMBER(diagnosis.code, 4)};
static const field awaited_fields[] = {NUMBER(awaited.rank, 4), NUMBER(awaited.first, 4), ARRAY(awaited.words)};
static const field row_fields[] = {
    NUMBER(row.rank, 4),
    NUMBER(row.copy.state, 1),
    NUMBER(row.copy.ended, 1),
    NUMBER(row.copy.run_state, 1),
    NUMBER(row.copy.op_state, 1),
    NUMBER(row.copy.pid, 4),
    NUMBER(row.copy.signal, 4),
    NUMBER(row.copy.exit_code, 4),
    NUMBER(row.copy.blames, 4),
    NUMBER(row.copy.age_ns, 8),
    NUMBER(row.copy.broken_team, 8),
    NUMBER(row.copy.step, 8),
    NUMBER(row.copy.detail, 8),
    NUMBER(row.copy.phase_age_ns, 8),
    NUMBER(row.copy.op_age_ns, 8),
    NUMBER(row.copy.wait_age_ns, 8),
    NUMBER(row.copy.situation, 1),
    NUMBER(row.copy.status, 4),
    NUMBER(row.copy.n_steps, 8),
    NUMBER(row.copy.n_tokens, 8),
    NUMBER(row.copy.loss, 8),
    NUMBER(row.copy.step_ns, 8),
    ARRAY(row.copy.phase_ns),
    ARRAY(row.copy.pool_bytes),
    NUMBER(row.copy.disk_bytes, 8),
    OPERATION(row.copy.op),
    OPERATION(row.copy.wait_op),
    TEXT(row.copy.phase),
    TEXT(row.copy.op_team),
    TEXT(row.copy.wait_team),
    TEXT(row.copy.why),
    TEXT(row.copy.error),
};

#define FIELDS(table)                             \
    {                                             \
        table, sizeof(table) / sizeof((table)[0]) \
    }
static const struct {
    const field *fields;
    size_t n;
} kinds[] = {[FRAME_HELLO] = FIELDS(hello_fields),
             [FRAME_HOST] = FIELDS(host_fields),
             [FRAME_ROW] = FIELDS(row_fields),
             [FRAME_DIAGNOSIS] = FIELDS(diagnosis_fields),
             [FRAME_AWAITED] = FIELDS(awaited_fields)};

/* ---- Writing ---- */
static uint8_t *put(uint8_t *at, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static uint64_t load(const void *from, size_t size)
{
    if (size == 8)
        return *(const uint64_t *)from;
    return size == 4 ? *(const uint32_t *)from : *(const uint8_t *)from;
}

static uint8_t *put_field(uint8_t *at, const field *f, const uint8_t *from)
{
    if (f->bytes == 0) {
        size_t n = strnlen((const char *)from, f->size - 1u);
        at = put(at, n, 2);
        memcpy(at, from, n);
        return at + n;
    }
    for (int i = 0; i < f->n; i++)
        at = put(at, load(from + i * f->size, f->size), f->bytes);
    return at;
}

size_t agent_frame_encode(const agent_frame *frame, uint8_t out[FRAME_MOST_BYTES])
{
    uint8_t *at = out + FRAME_HEAD_BYTES;
    for (size_t i = 0; i < kinds[frame->kind].n; i++) {
        const field *f = &kinds[frame->kind].fields[i];
        at = put_field(at, f, (const uint8_t *)frame + f->offset);
    }
    size_t bytes = (size_t)(at - out);
    at = put(out, bytes, 2);
    at = put(at, frame->kind, 1);
    put(at, 0, 1);
    return bytes;
}

/* ---- Reading. Missing bytes read as zeros. ---- */
typedef struct frame_reader {
    const uint8_t *at, *end;
    bool is_malformed; /* a field is truncated, or a text does not fit */
} frame_reader;

static uint64_t get(frame_reader *r, int n_bytes)
{
    uint64_t value = 0;
    if (r->end - r->at < n_bytes) {
        r->is_malformed = true;
        r->at = r->end;
        return 0;
    }
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)*r->at++ << 8 * i;
    return value;
}

static void store(void *to, size_t size, uint64_t value)
{
    if (size == 8)
        *(uint64_t *)to = value;
    else if (size == 4)
        *(uint32_t *)to = (uint32_t)value;
    else
        *(uint8_t *)to = (uint8_t)value;
}

/* Reads a text. Refuses it if it does not fit with a NUL after it, or contains a NUL. */
static void get_text(frame_reader *r, char *text, size_t size)
{
    size_t n = (size_t)get(r, 2);
    if (n >= size || (size_t)(r->end - r->at) < n || memchr(r->at, '\0', n) != NULL) {
        r->is_malformed = true;
        return;
    }
    memcpy(text, r->at, n);
    r->at += n;
}

static void get_field(frame_reader *r, const field *f, uint8_t *to)
{
    if (f->bytes == 0)
        get_text(r, (char *)to, f->size);
    for (int i = 0; i < f->n && f->bytes > 0; i++)
        store(to + i * f->size, f->size, get(r, f->bytes));
}

static bool is_known(const agent_frame *frame)
{
    const tess_board_copy *c = &frame->row.copy;
    if (frame->kind == FRAME_HOST)
        return frame->host.stop <= JOB_STOP_AFTER_SAVE && frame->host.diagnosis_seen <= 1;
    return frame->kind != FRAME_ROW ||
           (c->state <= JOB_RANK_LOST && c->ended <= 1 && c->op_state <= TESS_TRACE_FAILED && c->run_state < 128 &&
            c->situation < TESS_SITUATION_COUNT && c->op.kind < TESS_TRACE_OP_COUNT &&
            c->wait_op.kind < TESS_TRACE_OP_COUNT);
}

tess_status agent_frame_decode(const uint8_t *data, size_t size, agent_frame *frame, size_t *used)
{
    *used = 0;
    if (size < FRAME_HEAD_BYTES)
        return TESS_OK;
    size_t bytes = (size_t)(data[0] | data[1] << 8);
    TESS_CHECK(bytes >= FRAME_HEAD_BYTES && bytes <= FRAME_MOST_BYTES, TESS_E_FORMAT, "a frame of %zu bytes", bytes);
    TESS_CHECK(data[2] >= FRAME_HELLO && data[2] <= FRAME_AWAITED && data[3] == 0, TESS_E_FORMAT,
               "a frame of kind %d, %d", data[2], data[3]);
    if (size < bytes)
        return TESS_OK;
    frame_reader r = {.at = data + FRAME_HEAD_BYTES, .end = data + bytes};
    memset(frame, 0, sizeof(*frame));
    frame->kind = (frame_kind)data[2];
    for (size_t i = 0; i < kinds[frame->kind].n; i++) {
        const field *f = &kinds[frame->kind].fields[i];
        get_field(&r, f, (uint8_t *)frame + f->offset);
    }
    TESS_CHECK(!r.is_malformed && r.at == r.end && is_known(frame), TESS_E_FORMAT,
               "a frame of kind %d with %zu bytes is malformed", data[2], bytes);
    *used = bytes;
    return TESS_OK;
}
