/* Dumps of flight recorders, ours and those of NCCL and gloo: reading, writing, and the rank to blame. */
#include "base/os/os.h"
#include "doctor/flight_recorder/flight_recorder.h"
#include "support/test.h"
#include "diagnosis/root_cause.h"

/* tools/make_flight_recorder_fixtures.py makes fixtures/nccl, fixtures/gloo, fixtures/gloo_killed and
 * fixtures/gloo_chain. */
static tess_history *read_folder(const char *folder)
{
    tess_history *history;
    EXPECT_OK(tess_flight_recorder_read(test_mem(), folder, &history));
    return history;
}

static void put(const char *name, const char *text)
{
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), name));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
}

/* Compares record `index` of the rank with the expected one. */
static const tess_record *expect_record(const tess_history *history, int rank, size_t index, tess_trace_op op,
                                        uint64_t sequence, uint64_t count, tess_trace_state state)
{
    EXPECT(index < history->ranks[rank].n_records);
    const tess_record *record = &history->ranks[rank].records[index];
    EXPECT_TEXT(tess_trace_op_name(record->op), tess_trace_op_name(op));
    EXPECT_INT(record->sequence, sequence);
    EXPECT_INT(record->count, count);
    EXPECT_TEXT(tess_trace_state_name(record->state), tess_trace_state_name(state));
    EXPECT_INT(record->reduce_op, 255);
    return record;
}

static void expect_team(const tess_history *history, uint64_t hash, const char *name, const int *ranks, int n)
{
    const tess_team_history *team = tess_history_team(history, hash);
    EXPECT(team != NULL);
    EXPECT_TEXT(team->name, name);
    EXPECT_INT(team->n_ranks, n);
    for (int i = 0; i < n; i++)
        EXPECT_INT(team->ranks[i], ranks[i]);
}

static void dumps_of_nccl_become_a_history(void)
{
    tess_history *history = read_folder(test_path("doctor/fixtures/nccl"));
    EXPECT_INT(history->source, TESS_HISTORY_PYTORCH);
    EXPECT_INT(history->world, 4);
    EXPECT_INT(history->n_teams, 3);
    for (int r = 0; r < 4; r++) {
        EXPECT(history->ranks[r].present && !history->ranks[r].lost_any);
        EXPECT_TEXT(history->ranks[r].why, "");
        EXPECT_INT(history->ranks[r].n_records, 5 + (r != 2) + (r < 2));
        const tess_record *first = expect_record(history, r, 0, TESS_TRACE_BROADCAST, 1, 1024, TESS_TRACE_COMPLETED);
        EXPECT_INT(first->dtype, TESS_BF16);
        EXPECT_TEXT(first->site, "step (train.py:11)");
        expect_team(history, first->team, "default_pg", (const int[]){0, 1, 2, 3}, 4);
        expect_record(history, r, 1, TESS_TRACE_ALL_GATHER, 2, 256, TESS_TRACE_COMPLETED);
        const tess_record *pair = expect_record(history, r, 2, TESS_TRACE_ALL_REDUCE, 1, 131, TESS_TRACE_COMPLETED);
        expect_team(history, pair->team, "mesh_tp", r < 2 ? (const int[]){0, 1} : (const int[]){2, 3}, 2);
        EXPECT_INT(pair->dtype, TESS_F32);
        /* two members and the entry that ends them are one operation, in the state of that entry */
        expect_record(history, r, 3, TESS_TRACE_REDUCE_SCATTER, 3, 384, TESS_TRACE_COMPLETED);
    }
    EXPECT_INT(expect_record(history, 0, 4, TESS_TRACE_SEND, 1, 8, TESS_TRACE_COMPLETED)->root, 1);
    EXPECT_INT(expect_record(history, 1, 4, TESS_TRACE_RECV, 1, 8, TESS_TRACE_COMPLETED)->root, 0);
    expect_record(history, 2, 4, TESS_TRACE_BARRIER, 4, 1, TESS_TRACE_COMPLETED);
    /* scheduled on rank 0, started on rank 3: both wait */
    const tess_record *last = expect_record(history, 0, 6, TESS_TRACE_ALL_REDUCE, 5, 4096, TESS_TRACE_ENQUEUED);
    EXPECT_INT(last->dtype, TESS_DTYPE_COUNT);
    EXPECT_TEXT(last->what, "dtype Double");
    EXPECT_INT(last->started_ns, 0);
    expect_record(history, 3, 5, TESS_TRACE_ALL_REDUCE, 5, 4096, TESS_TRACE_ENQUEUED);
    EXPECT_INT(history->now_ns, history->ranks[1].last_ns);
    tess_history_destroy(&history);
}

/* gloo describes its groups wrongly and records neither start nor end: torch's own analyser fails on these dumps. */
static void dumps_of_gloo_become_a_history(void)
{
    tess_history *history = read_folder(test_path("doctor/fixtures/gloo"));
    EXPECT_INT(history->world, 3);
    EXPECT_INT(history->n_teams, 2);
    for (int r = 0; r < 3; r++) {
        size_t n = r == 1 ? 4 : 6;
        EXPECT_INT(history->ranks[r].n_records, n);
        const tess_record *first = expect_record(history, r, 0, TESS_TRACE_ALL_REDUCE, 1, 12, TESS_TRACE_COMPLETED);
        EXPECT_TEXT(first->site, "train (train.py:8)");
        expect_team(history, first->team, "default_pg", (const int[]){0, 1, 2}, 3);
        if (r == 1) {
            expect_record(history, r, 3, TESS_TRACE_ALL_REDUCE, 4, 12, TESS_TRACE_COMPLETED);
            continue;
        }
        const tess_record *even = expect_record(history, r, 1, TESS_TRACE_BROADCAST, 1, 12, TESS_TRACE_COMPLETED);
        expect_team(history, even->team, "even", (const int[]){0, 2}, 2);
        expect_record(history, r, 5, TESS_TRACE_ALL_REDUCE, 5, 7, TESS_TRACE_ENQUEUED);
    }
    tess_history_destroy(&history);
}

/* Rank 2 of two pairs was killed. Who belongs to a pair is guessed from who dumped, so its pair would be rank 3 alone,
 * for which the failed operation would be over. */
static void a_killed_rank_without_a_dump_is_the_suspect(void)
{
    tess_diagnosis diagnosis;
    tess_history *history = read_folder(test_path("doctor/fixtures/gloo_killed"));
    EXPECT_INT(history->world, 4);
    EXPECT_INT(history->n_teams, 3);
    for (int r = 0; r < 4; r++) {
        if (r == 2)
            continue;
        const tess_record *pair = expect_record(history, r, 2, TESS_TRACE_ALL_REDUCE, 2, 12,
                                                r < 2 ? TESS_TRACE_COMPLETED : TESS_TRACE_ENQUEUED);
        expect_team(history, pair->team, "pair", r < 2 ? (const int[]){0, 1} : (const int[]){2, 3}, 2);
    }
    EXPECT_OK(tess_diagnosis_find(history, 0, &diagnosis));
    EXPECT_TEXT(tess_diagnosis_name(diagnosis.kind), "missing_rank");
    EXPECT_INT(diagnosis.n_ranks, 1);
    EXPECT_INT(diagnosis.ranks[0], 2);
    EXPECT_INT(diagnosis.n_waiting, 3);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
}

/* No dump says that rank 2 belongs to the pair in which rank 1 waits: rank 1 waits for somebody unknown, and is not to
 * blame for what others wait for. */
static void who_waits_in_a_group_of_unknown_members_is_not_blamed(void)
{
    tess_diagnosis diagnosis;
    tess_history *history = read_folder(test_path("doctor/fixtures/gloo_chain"));
    expect_record(history, 1, 1, TESS_TRACE_ALL_REDUCE, 1, 12, TESS_TRACE_ENQUEUED);
    EXPECT_OK(tess_diagnosis_find(history, 0, &diagnosis));
    EXPECT_TEXT(tess_diagnosis_name(diagnosis.kind), "missing_rank");
    EXPECT_INT(diagnosis.n_ranks, 1);
    EXPECT_INT(diagnosis.ranks[0], 2);
    EXPECT_INT(diagnosis.n_waiting, 1);
    EXPECT_INT(diagnosis.waiting[0], 3);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
}

/* gloo lists the places of one group under an empty name: a rank without a dump can be the last one. */
static void gloo_says_how_many_ranks_there_are_at_least(void)
{
    tess_diagnosis diagnosis;
    put("nccl_trace_rank_0.json",
        "{\"pg_config\":{\"\":{\"name\":\"\",\"desc\":\"\",\"ranks\":\"[0, "
        "1]\"}},\"entries\":[{\"process_group\":[\"0\","
        "\"default_pg\"],\"collective_seq_id\":1,\"profiling_name\":\"gloo:all_reduce\",\"state\":\"scheduled\","
        "\"retired\":false,\"time_created_ns\":1000}]}");
    tess_history *history = read_folder(test_folder());
    EXPECT_INT(history->world, 2);
    EXPECT_OK(tess_diagnosis_find(history, 0, &diagnosis));
    EXPECT_INT(diagnosis.n_ranks, 1);
    EXPECT_INT(diagnosis.ranks[0], 1);
    EXPECT_CONTAINS(diagnosis.headline, "rank 1 has left no record, and may be who did not come");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
}

/* The sizes of an operation say that a group without a name has more members than the job has ranks. */
static void a_group_has_at_most_the_ranks_of_the_job(void)
{
    put("nccl_trace_rank_0.json",
        "{\"entries\":[{\"collective_seq_id\":1,\"profiling_name\":\"gloo:all_gather\",\"input_sizes\":[[2]],"
        "\"output_sizes\":[[4,2]],\"state\":\"scheduled\",\"retired\":true}]}");
    put("nccl_trace_rank_1.json", "{\"entries\":[],\"pg_config\":{}}");
    tess_history *history = read_folder(test_folder());
    EXPECT_INT(history->world, 2);
    tess_history_destroy(&history);
}

#define GLOO(group, desc, seq, op, in, out)                                                                        \
    "{\"process_group\":[\"" group "\",\"" desc "\"],\"collective_seq_id\":" #seq ",\"profiling_name\":\"gloo:" op \
    "\",\"input_sizes\":[" in "],\"output_sizes\":[" out "],\"state\":\"scheduled\",\"retired\":true}"
#define WORLD GLOO("0", "default_pg", 1, "all_gather", "[2]", "[4,2]")

/* The last rank was killed: only the sizes of an all_gather tell that there was one. Where they tell that a pair is
 * complete, a rank that stopped after its operation is behind, and is not said to wait for the one without a dump. */
static void sizes_tell_who_may_be_missing(void)
{
    for (int complete = 0; complete < 2; complete++) {
        tess_diagnosis diagnosis;
        const char *other = complete ? GLOO("2", "pair", 1, "all_gather", "[2]", "[1,2]")
                                     : GLOO("2", "pair", 1, "all_gather", "[2]", "[2,2]");
        char text[2048];
        for (int r = 0; r < 2; r++) {
            snprintf(text, sizeof(text), "rank_%d", r);
            put(text, "{\"entries\":[" WORLD "," GLOO("1", "pair", 1, "all_reduce", "[3]", "[3]") "," GLOO(
                          "0", "default_pg", 2, "all_reduce", "[3]", "[3]") "]}");
        }
        snprintf(text, sizeof(text), "{\"entries\":[" WORLD ",%s]}", other);
        put("rank_2", text);
        tess_history *history = read_folder(test_folder());
        EXPECT_INT(history->world, 4);
        EXPECT_OK(tess_diagnosis_find(history, 0, &diagnosis));
        EXPECT_TEXT(tess_diagnosis_name(diagnosis.kind), "missing_rank");
        EXPECT_INT(diagnosis.n_ranks, 1);
        EXPECT_INT(diagnosis.ranks[0], complete ? 2 : 3);
        tess_diagnosis_free(history, &diagnosis);
        tess_history_destroy(&history);
    }
}

#define ENTRY(id, seq, state)                                                                                 \
    "{\"record_id\":" #id ",\"pg_id\":0,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":" #seq \
    ",\"p2p_seq_id\":0,\"profiling_name\":\"nccl:all_reduce\",\"time_created_ns\":" #id                       \
    "00,\"input_sizes\":[[2,3]],\"output_sizes\":[[2,3]],\"input_dtypes\":[\"Float\"],\"output_dtypes\":"     \
    "[\"Float\"],\"state\":\"" state "\",\"time_discovered_started_ns\":0,\"time_discovered_completed_ns\":0}"
#define DUMP(version, ranks, entries)                                                                           \
    "{\"version\":\"" version "\",\"comm_lib_version\":\"2.21\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":" \
    "\"default_pg\",\"ranks\":\"" ranks "\"}},\"entries\":[" entries "]}"

static void oddities_of_a_dump_are_noted(void)
{
    put("trace_rank_0.json", DUMP("2.10", "[0, 1, 2, 3, 4]", ENTRY(7, 8, "completed") "," ENTRY(8, 9, "scheduled")));
    put("trace_rank_1.json", DUMP("2.10", "[0, 1, 2, 3, 4]", ENTRY(8, 9, "scheduled")));
    put("trace_rank_2.json", DUMP("2.4", "[0, 1, 2]", ENTRY(8, 9, "scheduled")));
    put("trace_rank_3.json", "{\"version\": \"2.10\", \"entries\": [");
    put("rank_0.txt", "no dump");
    put("rank-00000.ring", "no dump");
    put("notes_9", "no dump");
    tess_history *history = read_folder(test_folder());
    EXPECT_INT(history->world, 5);
    EXPECT(history->ranks[0].present && history->ranks[0].lost_any);
    EXPECT_TEXT(history->ranks[0].why, "");
    expect_record(history, 0, 0, TESS_TRACE_ALL_REDUCE, 8, 6, TESS_TRACE_COMPLETED);
    EXPECT_CONTAINS(history->ranks[2].why, "its group 'default_pg' has ranks [0, 1, 2], rank 0's has [0, 1, 2, 3, 4]");
    EXPECT_CONTAINS(history->ranks[2].why, "its dump has version 2.4, others 2.10");
    EXPECT(history->ranks[0].records[0].team != history->ranks[2].records[0].team);
    EXPECT(!history->ranks[3].present);
    EXPECT_CONTAINS(history->ranks[3].why, "its dump cannot be read");
    EXPECT_CONTAINS(history->ranks[3].why, "trace_rank_3.json: not valid JSON: line 1");
    EXPECT(!history->ranks[4].present);
    EXPECT_CONTAINS(history->ranks[4].why, "there is no dump of it in ");
    EXPECT(tess_flight_recorder_is(test_folder()));
    tess_history_destroy(&history);
}

/* Three ranks in operation #9; the last one asks for another operation. */
static void expect_odd(const char *usual, const char *odd, const char *class, const char *words)
{
    tess_diagnosis diagnosis;
    for (int r = 0; r < 3; r++) {
        char name[16], text[1024];
        snprintf(name, sizeof(name), "rank_%d", r);
        snprintf(
            text, sizeof(text),
            "{\"pg_config\":{\"0\":{\"desc\":\"default_pg\",\"ranks\":\"[0, 1, 2]\"}},\"entries\":[{\"process_group\":"
            "[\"0\",\"default_pg\"],\"collective_seq_id\":9,\"input_sizes\":[[2,3]],\"state\":\"scheduled\",%s}]}",
            r == 2 ? odd : usual);
        put(name, text);
    }
    tess_history *history = read_folder(test_folder());
    EXPECT_OK(tess_diagnosis_find(history, 0, &diagnosis));
    EXPECT_TEXT(tess_diagnosis_name(diagnosis.kind), class);
    EXPECT_CONTAINS(diagnosis.headline, words);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
}

/* Operations and dtypes without a number of ours are compared by name. */
static void operations_and_dtypes_of_others_are_compared_by_name(void)
{
    static const char complex[] = "\"profiling_name\":\"nccl:all_reduce\",\"input_dtypes\":[\"ComplexFloat\"]";
    expect_odd(
        "\"profiling_name\":\"nccl:all_reduce\",\"input_dtypes\":[\"Float\"]", complex, "mismatch_dtype",
        "rank 2 called all_reduce #9 of team 'default_pg' for dtype ComplexFloat: 6 elements, but ranks 0 1 called "
        "all_reduce #9 of team 'default_pg': 6 float32");
    expect_odd("\"profiling_name\":\"nccl:all_reduce\",\"input_dtypes\":[\"Double\"]", complex, "mismatch_dtype",
               "rank 2");
    expect_odd("\"profiling_name\":\"nccl:fancy\"", "\"profiling_name\":\"nccl:strange\"", "mismatch_op",
               "rank 2 called strange #9 of team 'default_pg': 6 elements, but ranks 0 1 called fancy #9");
}

static void unknown_operations_and_backends_keep_their_names(void)
{
    put("dump_0", "{\"entries\":[{\"process_group\":[\"5\",\"x\"],\"profiling_name\":\"zccl:fancy_op\",\"state\":"
                  "\"started\",\"collective_seq_id\":\"3\",\"input_sizes\":[]},{\"profiling_name\":\"oops\"},"
                  "{\"profiling_name\":\"gloo:recv 2<-?\",\"p2p_seq_id\":1}]}");
    tess_history *history = read_folder(test_folder());
    EXPECT_INT(history->ranks[0].n_records, 3);
    EXPECT_TEXT(expect_record(history, 0, 0, TESS_TRACE_OTHER, 3, 0, TESS_TRACE_ENQUEUED)->what, "fancy_op");
    EXPECT_TEXT(expect_record(history, 0, 1, TESS_TRACE_OTHER, 0, 0, TESS_TRACE_ENQUEUED)->what, "oops");
    EXPECT_INT(expect_record(history, 0, 2, TESS_TRACE_RECV, 1, 0, TESS_TRACE_ENQUEUED)->root, -1);
    EXPECT(history->ranks[0].records[0].tag != history->ranks[0].records[1].tag);
    tess_history_destroy(&history);
}

/* Otherwise a job that hung while its recorder was off would be called healthy. */
static void dumps_without_operations_are_refused(void)
{
    tess_history *history;
    static const char *const empty[] = {
        "{\"entries\": []}", "{\"version\": \"2.10\", \"entries\": null, \"pg_config\": {\"0\": {\"ranks\": \"[0]\"}}}",
        "{\"version\": \"2.10\", \"pg_config\": {\"0\": {\"ranks\": \"[0]\"}}}"};
    for (int i = 0; i < 3; i++) {
        put("rank_0", empty[i]);
        EXPECT_FAILS(tess_flight_recorder_read(test_mem(), test_folder(), &history), TESS_E_FORMAT,
                     "no dump there holds an operation: TORCH_FR_BUFFER_SIZE=2000 turns the recorder on");
    }
}

static void malformed_dumps_are_named_with_the_place(void)
{
    static const struct {
        const char *text, *needle;
    } cases[] = {
        {"", "rank_0: offset 0: cut off"},
        {"[]", "rank_0: offset 0: 0x5b is not an opcode"},
        {"{\"entries\": 3}", "rank_0: 'entries' is no list"},
        {"{\"x\": 3}", "rank_0: it has neither 'entries' nor 'pg_config'"},
        {"{\"entries\": [{}, 4]}", "rank_0: entries[1]: it is no dict"},
        {"{\"entries\": [{\"record_id\": \"x\"}]}", "entries[0]: 'record_id' is no integer"},
        {"{\"entries\": [{\"time_created_ns\": -5}]}", "entries[0]: 'time_created_ns' is -5"},
        {"{\"entries\": [{\"input_sizes\": [[-1]]}]}", "entries[0]: a size is no number"},
        {"{\"entries\": [{\"input_sizes\": [1]}]}", "entries[0]: 'input_sizes' is no list of lists"},
        {"{\"entries\": [{\"tessera\": {\"root\": -2}}]}", "entries[0]: 'tessera': 'root' is -2"},
        {"{\"entries\": [], \"tessera\": {\"version\": 2}}", "rank_0: 'tessera': 'version' is 2"},
        {"{\"pg_config\": {\"0\": {\"ranks\": \"[0, x]\"}}}", "pg_config: group '0': ranks are '[0, x]'"},
        {"{\"pg_config\": {\"0\": {\"ranks\": \"[0, 1, 0]\"}}}", "pg_config: group '0' has rank 0 twice"},
        {"{\"pg_config\": {\"0\": {\"ranks\": [70000]}}}", "pg_config: group '0': rank 70000 is not 0 to 65535"},
        {"cos\nsystem\n(S'true'\ntR.", "it names 'os.system', which has no place in such a file"},
    };
    tess_history *history;
    EXPECT_FAILS(tess_flight_recorder_read(test_mem(), test_folder(), &history), TESS_E_NOT_FOUND, "no file there");
    EXPECT(!tess_flight_recorder_is(test_folder()));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put("rank_0", cases[i].text);
        EXPECT_FAILS(tess_flight_recorder_read(test_mem(), test_folder(), &history), TESS_E_FORMAT, cases[i].needle);
        EXPECT_CONTAINS(tess_error_message(), "of 1 dumps none can be read");
    }
}

/* Compares two records of an operation. */
static void expect_same_record(const tess_record *got, const tess_record *want)
{
    EXPECT_TEXT(tess_trace_op_name(got->op), tess_trace_op_name(want->op));
    EXPECT_INT(got->sequence, want->sequence);
    EXPECT_INT(got->count, want->count);
    EXPECT_INT(got->dtype, want->dtype);
    EXPECT_INT(got->state, want->state);
    EXPECT_INT(got->enqueued_ns, want->enqueued_ns);
    EXPECT_INT(got->completed_ns, want->completed_ns);
    EXPECT_TEXT(got->site, want->site);
    EXPECT_INT(got->root, want->root);
    EXPECT_INT(got->in_dtype, want->in_dtype);
    EXPECT_TEXT(got->phase, want->phase);
}

/* Two ranks of a job of three; rank 0 has lost its first operation. */
static tess_history *make_history(void)
{
    static const tess_trace_op ops[] = {TESS_TRACE_ALL_GATHER, TESS_TRACE_REDUCE_SCATTER, TESS_TRACE_ALL_REDUCE,
                                        TESS_TRACE_BROADCAST,  TESS_TRACE_BARRIER,        TESS_TRACE_GATHER,
                                        TESS_TRACE_SCATTER,    TESS_TRACE_REDUCE,         TESS_TRACE_ALL_REDUCE};
    tess_history *history;
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, 3, &history));
    for (int r = 0; r < 3; r++)
        EXPECT_OK(tess_history_add_member(history, 77, "dp \"shard\"", 3, r, r));
    for (int r = 0; r < 2; r++) {
        history->ranks[r].present = true;
        history->ranks[r].lost_any = r == 0;
        for (uint64_t i = r == 0; i < 9; i++) {
            tess_record record = {.team = 77,
                                  .sequence = 10 + i,
                                  .count = ops[i] == TESS_TRACE_BARRIER ? 0 : 100 + i,
                                  .root = -1,
                                  .dtype = TESS_BF16,
                                  .in_dtype = TESS_BF16,
                                  .op = ops[i],
                                  .enqueued_ns = 5000 + i * 1000,
                                  .site = "train_step (step.c:41)"};
            record.dtype = ops[i] == TESS_TRACE_BARRIER ? TESS_DTYPE_COUNT : TESS_BF16;
            record.in_dtype = TESS_F32; /* converted before it is sent: dumps have the dtype that is sent */
            record.state = i == 8 ? TESS_TRACE_ENQUEUED : TESS_TRACE_COMPLETED;
            record.started_ns = i == 8 ? 0 : record.enqueued_ns + 200;
            record.completed_ns = i == 8 ? 0 : record.enqueued_ns + 300;
            EXPECT_OK(tess_history_add_record(history, r, &record));
        }
        const tess_record message = {.team = 77,
                                     .sequence = 1,
                                     .count = 5,
                                     .root = 1 - r,
                                     .dtype = TESS_F32,
                                     .in_dtype = TESS_F32,
                                     .enqueued_ns = 20000,
                                     .op = r == 0 ? TESS_TRACE_SEND : TESS_TRACE_RECV,
                                     .site = "exchange (p2p.c:7)"};
        EXPECT_OK(tess_history_add_record(history, r, &message));
    }
    return history;
}

static void a_written_history_reads_back(void)
{
    for (int pickle = 0; pickle < 2; pickle++) {
        char folder[512];
        EXPECT_OK(tess_os_join(folder, sizeof(folder), test_folder(), pickle ? "pickle/dumps" : "json/dumps"));
        tess_history *history = make_history();
        EXPECT_OK(tess_flight_recorder_write(history, folder, pickle));
        tess_history *again = read_folder(folder);
        EXPECT_INT(again->world, 3);
        EXPECT(!again->ranks[2].present);
        for (int r = 0; r < 2; r++) {
            const tess_rank_history *want = &history->ranks[r], *got = &again->ranks[r];
            size_t skipped = r == 1; /* rank 0 has lost this operation, rank 1 has it */
            EXPECT_INT(got->n_records, want->n_records - skipped);
            for (size_t i = 0; i < got->n_records; i++)
                expect_same_record(&got->records[i], &want->records[i + skipped]);
            const tess_team_history *team = tess_history_team(again, got->records[0].team);
            EXPECT_TEXT(team->name, "dp \"shard\"");
            EXPECT_INT(team->n_ranks, 3);
        }
        EXPECT_INT(again->source, TESS_HISTORY_RINGS);
        tess_history_destroy(&again);
        tess_history_destroy(&history);
    }
}

/* Rank 1 computes. The others wait for it in an operation whose sizes may differ between ranks. */
static tess_history *make_busy_history(void)
{
    tess_history *history;
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, 3, &history));
    history->now_ns = UINT64_C(9000000000);
    for (int r = 0; r < 3; r++) {
        tess_rank_history *rank = &history->ranks[r];
        const tess_phase_span span = {.begin_ns = 1000, .step = 7, .detail = 2, .phase = "forward"};
        EXPECT_OK(tess_history_add_member(history, 77, "world", 3, r, r));
        rank->present = rank->lost_any = true;
        rank->situation = r == 1 ? TESS_RANK_COMPUTING : TESS_RANK_WELL;
        snprintf(rank->why, sizeof(rank->why), "%s", r == 1 ? "computing (state R)" : "");
        EXPECT_OK(tess_history_add_span(history, r, &span));
        for (uint64_t i = 652; i < (r == 1 ? 653 : 654); i++) {
            const tess_record record = {.team = 77,
                                        .sequence = i,
                                        .count = 4096,
                                        .tag = UINT64_C(0xfedcba9876543210),
                                        .enqueued_ns = 2000 + i,
                                        .started_ns = i == 652 ? 2900 : 0,
                                        .completed_ns = i == 652 ? 3000 : 0,
                                        .step = 7,
                                        .detail = 2,
                                        .root = -1,
                                        .op = TESS_TRACE_ALL_GATHER_PIECES,
                                        .state = i == 652 ? TESS_TRACE_COMPLETED : TESS_TRACE_ENQUEUED,
                                        .dtype = TESS_BF16,
                                        .in_dtype = TESS_F32,
                                        .phase = "forward"};
            EXPECT_OK(tess_history_add_record(history, r, &record));
        }
    }
    return history;
}

static void the_diagnosis_survives_the_way_through_dumps(void)
{
    tess_history *history = make_busy_history();
    EXPECT_OK(tess_flight_recorder_write(history, test_folder(), false));
    tess_history *again = read_folder(test_folder());
    tess_diagnosis before, after;
    EXPECT_OK(tess_diagnosis_find(history, 0.75, &before));
    EXPECT_OK(tess_diagnosis_find(again, 0.75, &after));
    EXPECT_TEXT(tess_diagnosis_name(before.kind), "rank_busy");
    EXPECT_TEXT(tess_diagnosis_name(after.kind), "rank_busy");
    EXPECT_INT(after.ranks[0], 1);
    EXPECT_TEXT(after.headline, before.headline);
    EXPECT_TEXT(after.lines[0], before.lines[0]);
    EXPECT_INT(again->ranks[0].n_spans, 1);
    tess_diagnosis_free(history, &before);
    tess_diagnosis_free(again, &after);
    tess_history_destroy(&again);
    tess_history_destroy(&history);
}

static void a_group_s_status_is_written(void)
{
    char path[512];
    tess_mapping file;
    tess_history *history = make_busy_history();
    EXPECT_OK(tess_flight_recorder_write(history, test_folder(), false));
    tess_history_destroy(&history);
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "nccl_trace_rank_0.json"));
    EXPECT_OK(tess_os_map(path, &file));
    static const char status[] = "\"pg_status\":{\"0\":{\"last_enqueued_collective\":653,"
                                 "\"last_started_collective\":652,\"last_completed_collective\":652}}";
    EXPECT(memmem(file.data, file.size, status, strlen(status)) != NULL);
    tess_os_unmap(&file);
}

static const test_case cases[] = {
    CASE(the_diagnosis_survives_the_way_through_dumps),
    CASE(a_group_s_status_is_written),
    CASE(a_written_history_reads_back),
    CASE(dumps_of_nccl_become_a_history),
    CASE(dumps_of_gloo_become_a_history),
    CASE(who_waits_in_a_group_of_unknown_members_is_not_blamed),
    CASE(a_group_has_at_most_the_ranks_of_the_job),
    CASE(gloo_says_how_many_ranks_there_are_at_least),
    CASE(a_killed_rank_without_a_dump_is_the_suspect),
    CASE(sizes_tell_who_may_be_missing),
    CASE(oddities_of_a_dump_are_noted),
    CASE(operations_and_dtypes_of_others_are_compared_by_name),
    CASE(unknown_operations_and_backends_keep_their_names),
    CASE(dumps_without_operations_are_refused),
    CASE(malformed_dumps_are_named_with_the_place),
};
TEST_MAIN(cases)
