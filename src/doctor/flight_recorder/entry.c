/* Reads one entry of a dump: operation, sizes, times, call site, and group. */
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "doctor/flight_recorder/flight_recorder_impl.h"

static tess_status get_int(dump_value entry, const char *key, int64_t *integer)
{
    dump_value value = dump_get(entry, key);
    TESS_CHECK(!dump_present(value) || dump_int(value, integer), TESS_E_FORMAT, "'%s' is no integer", key);
    return TESS_OK;
}

static tess_status get_time(dump_value entry, const char *key, uint64_t *ns)
{
    int64_t integer = 0;
    TESS_TRY(get_int(entry, key, &integer));
    TESS_CHECK(integer >= 0, TESS_E_FORMAT, "'%s' is %lld", key, (long long)integer);
    *ns = (uint64_t)integer;
    return TESS_OK;
}

static const char *get_text(dump_value entry, const char *key)
{
    const char *text = dump_text(dump_get(entry, key));
    return text != NULL ? text : "";
}

/* Multiplies the sizes of one tensor into its number of elements. */
static tess_status multiply(dump *dump, dump_value sizes, uint64_t *count)
{
    uint64_t product = 1;
    for (size_t i = 0; i < dump_length(sizes); i++) {
        int64_t extent;
        TESS_CHECK(dump_int(dump_at(dump, sizes, i), &extent) && extent >= 0, TESS_E_FORMAT, "a size is no number");
        if (__builtin_mul_overflow(product, (uint64_t)extent, &product))
            product = UINT64_MAX;
    }
    if (__builtin_add_overflow(*count, product, count))
        *count = UINT64_MAX;
    return TESS_OK;
}

/* Adds up the elements of all tensors of one side. */
static tess_status count_elements(dump *dump, dump_value entry, const char *key, uint64_t *count)
{
    dump_value tensors = dump_get(entry, key);
    *count = 0;
    TESS_CHECK(!dump_present(tensors) || dump_is_list(tensors), TESS_E_FORMAT, "'%s' is no list", key);
    for (size_t i = 0; i < dump_length(tensors); i++) {
        dump_value sizes = dump_at(dump, tensors, i);
        TESS_CHECK(dump_is_list(sizes), TESS_E_FORMAT, "'%s' is no list of lists", key);
        TESS_TRY(multiply(dump, sizes, count));
    }
    return TESS_OK;
}

static tess_status read_count(dump *dump, dump_value value, fr_entry *entry)
{
    uint64_t in, out;
    TESS_TRY(count_elements(dump, value, "input_sizes", &in));
    TESS_TRY(count_elements(dump, value, "output_sizes", &out));
    entry->record.count = entry->name.by_output && out > 0 ? out : in;
    if (entry->name.uneven && entry->record.op != TESS_TRACE_ALL_TO_ALL_V)
        entry->record.count = 0; /* ranks may correctly differ in the count */
    bool scatters = entry->name.kind == TESS_TRACE_REDUCE_SCATTER;
    uint64_t whole = scatters ? in : out, part = scatters ? out : in;
    if ((scatters || entry->name.kind == TESS_TRACE_ALL_GATHER) && !entry->name.uneven && part > 0 &&
        whole % part == 0 && whole / part <= TESS_HISTORY_MAX_RANKS)
        entry->n_members = (int)(whole / part);
    return TESS_OK;
}

/* Reads the dtype of the first tensor. If we do not have that dtype, its hash goes into the tag, so that ranks with
 * different dtypes still differ. */
static void read_dtype(dump *dump, dump_value value, fr_entry *entry)
{
    dump_value dtypes = dump_get(value, entry->name.by_output ? "output_dtypes" : "input_dtypes");
    if (dump_length(dtypes) == 0)
        dtypes = dump_get(value, entry->name.by_output ? "input_dtypes" : "output_dtypes");
    const char *text = dump_length(dtypes) > 0 ? dump_text(dump_at(dump, dtypes, 0)) : NULL;
    tess_dtype dtype = text != NULL ? fr_dtype_parse(text) : TESS_DTYPE_COUNT;
    entry->record.dtype = entry->record.in_dtype = (uint8_t)dtype;
    if (text != NULL && dtype == TESS_DTYPE_COUNT) {
        entry->record.tag ^= tess_hash_text(text);
        snprintf(entry->record.what, sizeof(entry->record.what), "dtype %.24s", text);
    }
}

static bool is_inside_torch(const char *filename)
{
    static const char *const folders[] = {"-packages/torch/", "/torch/distributed/", "/torch/nn/",
                                          "/torch/utils/",    "/torch/csrc/",        "/torch/_",
                                          "/torch/autograd/"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (strstr(filename, folders[i]) != NULL)
            return true;
    return false;
}

/* Returns the innermost frame outside torch, or the innermost frame of all if all are inside torch. */
static dump_value find_frame(dump *dump, dump_value frames)
{
    size_t n = dump_length(frames);
    dump_value first = n > 0 ? dump_at(dump, frames, 0) : (dump_value){0};
    for (size_t i = 0; i < n && i < FR_MOST_FRAMES; i++) {
        dump_value frame = dump_at(dump, frames, i);
        const char *filename = get_text(frame, "filename");
        if (filename[0] != '\0' && !is_inside_torch(filename))
            return frame;
    }
    return first;
}

static void read_site(dump *dump, dump_value value, tess_record *record)
{
    dump_value frame = find_frame(dump, dump_get(value, "frames"));
    const char *name = get_text(frame, "name"), *filename = get_text(frame, "filename");
    if (name[0] == '\0' && filename[0] == '\0')
        return;
    int64_t line = 0;
    if (!dump_int(dump_get(frame, "line"), &line))
        line = 0;
    const char *slash = strrchr(filename, '/');
    snprintf(record->site, sizeof(record->site), "%.30s (%.20s:%lld)", name, slash != NULL ? slash + 1 : filename,
             (long long)line);
    record->call_site = tess_hash_bytes(&line, sizeof(line), tess_hash_text(filename) ^ tess_hash_text(name));
}

static void read_group(dump *dump, dump_value value, fr_entry *entry)
{
    dump_value group = dump_get(value, "process_group");
    const char *name = dump_text(group), *desc = NULL;
    if (name == NULL && dump_length(group) == 2) {
        name = dump_text(dump_at(dump, group, 0));
        desc = dump_text(dump_at(dump, group, 1));
    }
    entry->group = name != NULL ? name : "";
    entry->desc = desc != NULL ? desc : "";
}

/* Reads the sequence number. Version 2.0 has one counter per group for both collectives and messages. */
static tess_status read_sequence(dump_value value, fr_entry *entry)
{
    int64_t sequence = 0;
    bool is_message = entry->name.kind == TESS_TRACE_SEND || entry->name.kind == TESS_TRACE_RECV;
    entry->is_message = is_message || dump_true(dump_get(value, "is_p2p"));
    TESS_TRY(get_int(value, "seq_id", &sequence));
    TESS_TRY(get_int(value, entry->is_message ? "p2p_seq_id" : "collective_seq_id", &sequence));
    entry->record.sequence = (uint64_t)sequence;
    return TESS_OK;
}

/* Reads the state. A kernel that has started may still wait for its peers, so a started operation counts as
 * enqueued. */
static tess_status read_state(dump_value value, fr_entry *entry)
{
    tess_record *record = &entry->record;
    TESS_TRY(get_time(value, "time_created_ns", &record->enqueued_ns));
    TESS_TRY(get_time(value, "time_discovered_started_ns", &record->started_ns));
    TESS_TRY(get_time(value, "time_discovered_completed_ns", &record->completed_ns));
    record->state = TESS_TRACE_ENQUEUED;
    if (strcmp(get_text(value, "state"), "completed") == 0 || record->completed_ns != 0) {
        record->state = TESS_TRACE_COMPLETED;
        record->completed_ns = record->completed_ns != 0 ? record->completed_ns : record->enqueued_ns;
        record->started_ns = record->started_ns != 0 ? record->started_ns : record->completed_ns;
    } else {
        record->started_ns = 0;
    }
    return TESS_OK;
}

tess_status fr_entry_read(dump *dump, dump_value value, fr_entry *entry)
{
    *entry = (fr_entry){.record = {.step = -1, .detail = -1, .root = -1, .reduce_op = 255}};
    TESS_CHECK(dump_is_dict(value), TESS_E_FORMAT, "it is no dict");
    fr_name_parse(get_text(value, "profiling_name"), &entry->name);
    entry->record.op = (uint8_t)entry->name.kind;
    entry->record.root = entry->name.peer;
    entry->retired = dump_true(dump_get(value, "retired"));
    TESS_TRY(get_int(value, "record_id", &entry->record_id));
    TESS_TRY(read_sequence(value, entry));
    TESS_TRY(read_state(value, entry));
    TESS_TRY(read_count(dump, value, entry));
    read_dtype(dump, value, entry);
    read_site(dump, value, &entry->record);
    read_group(dump, value, entry);
    if (entry->name.kind == TESS_TRACE_OTHER) {
        entry->record.tag ^= tess_hash_text(entry->name.op);
        snprintf(entry->record.what, sizeof(entry->record.what), "%.31s", entry->name.op);
    }
    return fr_own_read_record(value, &entry->record);
}
