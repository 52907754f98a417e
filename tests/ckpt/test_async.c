/* The protocol between ranks, the keeper and the writer while any of them is killed. Each case chooses how the writer
 * behaves. */
#include <sys/mman.h>

#include "async_job.h"

enum { VALUES = 3000 };

static float values[VALUES];

/* A tensor with one row per rank. */
static tess_ckpt_tensor own_row(const async_rank *r, float first)
{
    int rank = tess_team_rank(r->team), world = tess_team_size(r->team);
    for (int i = 0; i < VALUES; i++)
        values[i] = i == 0 ? first : 0;
    return (tess_ckpt_tensor){.name = "w",
                              .shape = {2, {world, VALUES}},
                              .box = {{rank}, {1, VALUES}},
                              .primary = {{rank}, {1, VALUES}},
                              .data = values};
}

static const tess_saver_options plain = {.host_wait_s = PATIENCE_S};

static tess_status save(async_rank *r, int64_t step, float first, tess_saver_times *times)
{
    tess_ckpt_tensor tensor = own_row(r, first);
    tess_saver_times unused;
    return tess_saver_save(r->saver, "there", step, NULL, &tensor, 1, times != NULL ? times : &unused);
}

/* Waits for news on any rank, as a trainer does after each step; then all ranks take it. */
static tess_status hear_next(async_rank *r, tess_saver_outcome *outcome)
{
    double deadline_s = tess_os_now_s() + PATIENCE_S;
    int64_t news = 0;
    while (news == 0) {
        EXPECT(tess_os_now_s() < deadline_s);
        news = tess_saver_has_news(r->saver);
        EXPECT_OK(tess_all_reduce(r->team, &news, &news, 1, TESS_I64, TESS_SUM, NULL));
    }
    return tess_saver_hear(r->saver, outcome);
}

/* ---- Writers ---- */
static tess_status write_well(async_writer *w, async_outcome *outcome)
{
    async_header *header = w->area->header;
    float sum = 0;
    atomic_fetch_add(&the_stand->n_begun, 1);
    for (int i = 0; i < (int)header->n_slots; i++) {
        uint8_t *stage;
        const async_slot *slot = &header->slots[i];
        TESS_TRY(async_area_map_stage(w->area, i, slot->data_bytes + slot->text_bytes, &stage));
        sum += *(float *)stage;
        atomic_fetch_add(&the_stand->staged, (int64_t)slot->data_bytes);
        tess_os_unmap_shared(stage, slot->data_bytes + slot->text_bytes);
    }
    atomic_store(&the_stand->sum, sum);
    atomic_fetch_add(&the_stand->n_written, 1);
    outcome->step = 7;
    return TESS_OK;
}

static tess_status write_when_let(async_writer *w, async_outcome *outcome)
{
    atomic_fetch_add(&the_stand->n_begun, 1);
    wait_until(&the_stand->go, 1);
    return write_well(w, outcome);
}

static tess_status fail_at_first(async_writer *w, async_outcome *outcome)
{
    if (atomic_fetch_add(&the_stand->n_begun, 1) == 0)
        return TESS_FAIL(TESS_E_NO_SPACE, "there/rank-00001.data: no space left on device");
    return write_well(w, outcome);
}

static tess_status die_at_first(async_writer *w, async_outcome *outcome)
{
    if (atomic_fetch_add(&the_stand->n_begun, 1) == 0)
        raise(SIGKILL);
    return write_well(w, outcome);
}

static tess_status die(async_writer *w, async_outcome *outcome)
{
    (void)w, (void)outcome;
    atomic_fetch_add(&the_stand->n_begun, 1);
    raise(SIGKILL);
    return TESS_OK;
}

/* Waits until nothing is left to write. */
static void drain(void)
{
    int fd;
    async_area area;
    double deadline_s = tess_os_now_s() + PATIENCE_S;
    EXPECT_OK(tess_environment_number(TESS_VAR_SAVES, 0, INT32_MAX, &fd));
    EXPECT_OK(async_area_open(fd, &area));
    while (async_is_busy(area.header) && tess_os_now_s() < deadline_s)
        usleep(1000);
    async_area_close(&area, false);
}

/* ---- Cases ---- */
static void save_twice_and_hear(void)
{
    tess_saver_outcome outcome;
    tess_saver_times times;
    async_rank r = join_with_saver(&plain);
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(save(&r, 10 + k, (float)(1 + k), &times));
        EXPECT_INT(times.bytes, VALUES * 4);
        EXPECT_OK(hear_next(&r, &outcome));
        EXPECT(outcome.committed == (tess_team_rank(r.team) == 0));
        EXPECT(!tess_saver_has_news(r.saver));
        EXPECT_TEXT(outcome.warning, "");
        EXPECT(atomic_load(&the_stand->sum) == (float)(3 * (1 + k)));
    }
    leave_with_saver(&r);
}

static void what_all_ranks_staged_is_written_once(void)
{
    begin_service(write_well);
    EXPECT_INT(run_job(3, save_twice_and_hear), 0);
    tess_async_service_stop(&the_service);
    EXPECT_INT(atomic_load(&the_stand->n_written), 2);
    EXPECT_INT(atomic_load(&the_stand->staged), 2 * 3 * 12288); /* whole blocks */
}

static void hear_failure_and_go_on(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_with_saver(&plain);
    EXPECT_OK(save(&r, 10, 1, NULL));
    EXPECT_FAILS(hear_next(&r, &outcome), TESS_E_NO_SPACE, "there/rank-00001.data: no space left");
    EXPECT(!outcome.committed);
    EXPECT(!tess_saver_has_news(r.saver));
    EXPECT_OK(save(&r, 20, 5, NULL));
    EXPECT_OK(hear_next(&r, &outcome));
    EXPECT(atomic_load(&the_stand->sum) == 10);
    leave_with_saver(&r);
}

static void a_failed_save_is_heard_by_all_ranks_and_the_next_one_works(void)
{
    begin_service(fail_at_first);
    EXPECT_INT(run_job(2, hear_failure_and_go_on), 0);
    tess_async_service_stop(&the_service);
}

static tess_status wait_in_vain(async_writer *w, async_outcome *outcome)
{
    (void)w;
    (void)outcome;
    return TESS_FAIL(TESS_E_TIMEOUT, "part-00001.json: not there after 5 s");
}

static void hear_of_a_host_that_is_late(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_with_saver(&plain);
    EXPECT_OK(save(&r, 10, 1, NULL));
    EXPECT_FAILS(hear_next(&r, &outcome), TESS_E_IO, "part-00001.json: not there");
    leave_with_saver(&r);
}

/* TESS_E_TIMEOUT as the status of a rank would end the job. */
static void a_writer_that_waits_in_vain_has_failed_to_save_and_no_more(void)
{
    begin_service(wait_in_vain);
    EXPECT_INT(run_job(2, hear_of_a_host_that_is_late), 0);
    tess_async_service_stop(&the_service);
}

static void hear_of_a_death(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_with_saver(&plain);
    bool warned = false, committed = false;
    EXPECT_OK(save(&r, 10, 2, NULL));
    while (!warned || !committed) {
        int64_t news[2];
        EXPECT_OK(hear_next(&r, &outcome));
        if (outcome.warning[0] != '\0') {
            EXPECT_CONTAINS(outcome.warning, "the process that writes checkpoints (pid ");
            EXPECT_CONTAINS(outcome.warning, "was killed by signal 9 (SIGKILL); another one has taken its place");
        }
        news[0] = outcome.warning[0] != '\0', news[1] = outcome.committed;
        EXPECT_OK(tess_all_reduce(r.team, news, news, 2, TESS_I64, TESS_MAX, NULL));
        warned = warned || news[0] != 0, committed = committed || news[1] != 0;
    }
    leave_with_saver(&r);
}

static void a_writer_that_is_killed_is_named_and_another_one_writes_the_save(void)
{
    begin_service(die_at_first);
    EXPECT_INT(run_job(2, hear_of_a_death), 0);
    tess_async_service_stop(&the_service);
    EXPECT_INT(atomic_load(&the_stand->n_written), 1);
    EXPECT(atomic_load(&the_stand->sum) == 4);
}

static void hear_that_all_writers_die(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_with_saver(&plain);
    tess_status status = TESS_OK;
    EXPECT_OK(save(&r, 10, 2, NULL));
    while (status == TESS_OK)
        status = hear_next(&r, &outcome);
    EXPECT_INT(status, TESS_E_IO);
    EXPECT_CONTAINS(tess_error_message(), "was killed by signal 9 (SIGKILL), and so was the one before it");
    leave_with_saver(&r);
}

static void a_save_that_kills_every_writer_fails(void)
{
    begin_service(die);
    EXPECT_INT(run_job(2, hear_that_all_writers_die), 0);
    tess_async_service_stop(&the_service);
    EXPECT_INT(atomic_load(&the_stand->n_begun), ASYNC_ATTEMPTS);
}

static void save_and_be_killed(void)
{
    async_rank r = join_with_saver(&plain);
    EXPECT_OK(save(&r, 10, 2, NULL));
    raise(SIGKILL);
}

static void what_was_staged_is_written_although_all_ranks_are_killed(void)
{
    begin_service(write_when_let);
    EXPECT_INT(run_job(3, save_and_be_killed), 128 + SIGKILL);
    EXPECT_INT(atomic_load(&the_stand->n_written), 0);
    atomic_store(&the_stand->go, 1);
    drain();
    EXPECT_INT(atomic_load(&the_stand->n_written), 1);
    EXPECT(atomic_load(&the_stand->sum) == 6);
    EXPECT_INT(run_job(3, save_twice_and_hear), 0); /* a job that begins anew finds the service as it was */
    tess_async_service_stop(&the_service);
}

/* Rank 1 is killed while it copies: its tensor cannot be read. */
static void die_while_staging(void)
{
    async_rank r = join_with_saver(&plain);
    tess_ckpt_tensor tensor = own_row(&r, 1);
    tess_saver_times times;
    if (tess_team_rank(r.team) == 1) {
        signal(SIGSEGV, SIG_DFL);
        tensor.data = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    (void)tess_saver_save(r.saver, "there", 3, NULL, &tensor, 1, &times);
    (void)tess_barrier(r.team, NULL);
    _exit(3);
}

static void a_save_that_not_all_staged_is_never_written(void)
{
    begin_service(write_well);
    EXPECT(run_job(3, die_while_staging) != 0);
    drain();
    EXPECT_INT(atomic_load(&the_stand->n_begun), 0);
    EXPECT_INT(run_job(3, save_twice_and_hear), 0);
    tess_async_service_stop(&the_service);
    EXPECT_INT(atomic_load(&the_stand->n_written), 2);
}

static void kill_the_keeper(void)
{
    tess_saver_outcome outcome;
    async_rank r = join_with_saver(&plain);
    EXPECT_OK(save(&r, 10, 2, NULL));
    wait_until(&the_stand->n_begun, 1);
    EXPECT_OK(tess_barrier(r.team, NULL));
    int fd, writer;
    EXPECT_OK(tess_environment_number(TESS_VAR_SAVES, 0, INT32_MAX, &fd));
    async_area area;
    EXPECT_OK(async_area_open(fd, &area));
    writer = area.header->writer_pid;
    if (tess_team_rank(r.team) == 0)
        kill(area.header->keeper_pid, SIGKILL);
    EXPECT_FAILS(hear_next(&r, &outcome), TESS_E_IO, "the process that starts writers of checkpoints (pid ");
    EXPECT_OK(tess_saver_wait(r.saver));
    EXPECT_FAILS(save(&r, 20, 2, NULL), TESS_E_UNSUPPORTED, "can no longer be written beside training");
    while (tess_os_process_state(writer) != '\0' && tess_os_process_state(writer) != 'Z')
        usleep(1000);
    async_area_close(&area, false);
    leave_with_saver(&r);
}

static void without_a_keeper_a_save_fails_by_name_and_no_other_begins(void)
{
    begin_service(write_when_let);
    EXPECT_INT(run_job(2, kill_the_keeper), 0);
    tess_async_service_stop(&the_service);
    EXPECT_INT(atomic_load(&the_stand->n_written), 0);
}

static void save_while_one_is_under_way(void)
{
    tess_saver_times times;
    tess_saver_outcome outcome;
    async_rank r = join_with_saver(&plain);
    EXPECT_OK(save(&r, 10, 1, NULL));
    wait_until(&the_stand->n_begun, 1);
    EXPECT(tess_saver_is_busy(r.saver));
    EXPECT_OK(tess_barrier(r.team, NULL));
    if (tess_team_rank(r.team) == 1) {
        usleep(100000); /* meanwhile rank 0 waits */
        atomic_store(&the_stand->go, 1);
    }
    EXPECT_OK(tess_saver_wait(r.saver));
    EXPECT_OK(tess_barrier(r.team, NULL));
    EXPECT_INT(atomic_load(&the_stand->n_written), 1);
    EXPECT_OK(hear_next(&r, &outcome));
    EXPECT_OK(save(&r, 20, 2, &times));
    EXPECT_OK(tess_saver_wait(r.saver));
    EXPECT(atomic_load(&the_stand->sum) == 4);
    leave_with_saver(&r);
}

static void a_save_waits_for_the_one_before(void)
{
    begin_service(write_when_let);
    EXPECT_INT(run_job(2, save_while_one_is_under_way), 0);
    tess_async_service_stop(&the_service);
    EXPECT_INT(atomic_load(&the_stand->n_written), 2);
}

static void wait_until_a_peer_is_lost(void)
{
    async_rank r = join_with_saver(&plain);
    EXPECT_OK(save(&r, 10, 1, NULL));
    if (tess_team_rank(r.team) == 1)
        raise(SIGKILL);
    EXPECT_FAILS(tess_saver_wait(r.saver), TESS_E_PEER_LOST, "a rank was lost");
    _exit(0);
}

static void ranks_that_wait_for_the_writer_see_that_a_peer_is_lost(void)
{
    begin_service(write_when_let);
    EXPECT_INT(run_job(3, wait_until_a_peer_is_lost), 128 + SIGKILL);
    atomic_store(&the_stand->go, 1);
    tess_async_service_stop(&the_service);
    EXPECT_INT(atomic_load(&the_stand->n_written), 1);
}

/* The child shares the case's state. */
static void the_writer_finishes_what_it_has_when_its_owner_is_killed(void)
{
    void *memory;
    int state;
    EXPECT_OK(tess_os_share("pids", sizeof(async_stand), &memory));
    the_stand = memory;
    async_stand *shared = the_stand;
    pid_t pid = fork();
    if (pid == 0) {
        EXPECT_OK(async_service_start(write_when_let, &the_service));
        EXPECT_INT(run_job(2, save_and_be_killed), 128 + SIGKILL);
        wait_until(&shared->n_begun, 1);
        raise(SIGKILL);
    }
    EXPECT_INT(waitpid(pid, &state, 0), pid);
    EXPECT(WIFSIGNALED(state));
    EXPECT_INT(atomic_load(&shared->n_written), 0);
    atomic_store(&shared->go, 1);
    wait_until(&shared->n_written, 1);
}

static void find_no_service(void)
{
    async_rank r = join_with_saver(&plain);
    EXPECT(r.saver == NULL);
    leave_with_saver(&r);
}

static void ranks_without_a_service_have_no_saver(void)
{
    EXPECT_INT(run_job(2, find_no_service), 0);
}

static void ask_for_too_much(void)
{
    async_rank r = join_with_saver(&plain);
    tess_ckpt_tensor tensor = own_row(&r, 1);
    tensor.shape = (tess_shape){2, {2, (int64_t)1 << 36}};
    tensor.box.size[1] = tensor.primary.size[1] = (int64_t)1 << 36;
    EXPECT_FAILS(tess_saver_prepare(r.saver, &tensor, 1), TESS_E_NOMEM, "of this host's memory");
    tensor = own_row(&r, 1);
    EXPECT_OK(tess_saver_prepare(r.saver, &tensor, 1));
    size_t before = tess_mem_stats(tess_runtime_mem(r.runtime), TESS_POOL_MISC).bytes;
    EXPECT(before >= (size_t)2 << 20);
    leave_with_saver(&r);
}

static void a_stage_that_memory_has_no_room_for_is_refused_on_all_ranks(void)
{
    begin_service(write_well);
    EXPECT_INT(run_job(2, ask_for_too_much), 0);
    tess_async_service_stop(&the_service);
}

static const test_case cases[] = {
    CASE(what_all_ranks_staged_is_written_once),
    CASE(a_failed_save_is_heard_by_all_ranks_and_the_next_one_works),
    CASE(a_writer_that_waits_in_vain_has_failed_to_save_and_no_more),
    CASE(a_writer_that_is_killed_is_named_and_another_one_writes_the_save),
    CASE(a_save_that_kills_every_writer_fails),
    CASE(what_was_staged_is_written_although_all_ranks_are_killed),
    CASE(a_save_that_not_all_staged_is_never_written),
    CASE(without_a_keeper_a_save_fails_by_name_and_no_other_begins),
    CASE(a_save_waits_for_the_one_before),
    CASE(ranks_that_wait_for_the_writer_see_that_a_peer_is_lost),
    CASE(the_writer_finishes_what_it_has_when_its_owner_is_killed),
    CASE(ranks_without_a_service_have_no_saver),
    CASE(a_stage_that_memory_has_no_room_for_is_refused_on_all_ranks),
};

TEST_MAIN(cases)
