/* Sets up a team over several hosts: its members by host, subtrees of sums, and memory for rounds and messages. */
#include "base/os/os.h"
#include "comm/hosts/linked.h"

uint64_t hosts_bytes(int n_local)
{
    return JOB_PAGE * (1 + (uint64_t)n_local * sizeof(hosts_counter) / JOB_PAGE) +
           (uint64_t)n_local * HOSTS_AREAS * HOSTS_AREA_BYTES;
}

static tess_status array(tess_team *team, size_t n, size_t size, const char *what, void *out)
{
    return tess_mem_alloc_array(team->runtime->mem, TESS_POOL_MISC, n, size, what, out);
}

/* Orders hosts by their first member, and members as in the team. */
static void seat_members(const tess_team *team, comm_hosts *h)
{
    int job_host[JOB_MAX_HOSTS], n[JOB_MAX_HOSTS] = {0};
    for (int r = 0; r < team->size; r++) {
        int host = 0, on = tess_team_host(team, r);
        while (host < h->n_hosts && job_host[host] != on)
            host++;
        if (host == h->n_hosts)
            job_host[h->n_hosts++] = on;
        h->members[r] = (hosts_member){.host = host, .index = n[host]++};
    }
    for (int host = 0; host < h->n_hosts; host++)
        h->first[host + 1] = h->first[host] + n[host];
    for (int r = 0; r < team->size; r++)
        h->ranks[h->first[h->members[r].host] + h->members[r].index] = r;
    h->mine = h->members[team->rank].host;
    h->index = h->members[team->rank].index;
}

/* Chooses which rank stores whose data on this host, and computes the maximum number of sources of any rank. */
static void choose_handlers(const tess_team *team, const comm_hosts *h, hosts_way *way)
{
    int *n_handled = team->lists.listed, carriers = hosts_carriers(h, way, h->mine);
    memset(n_handled, 0, (size_t)team->size * sizeof(*n_handled));
    for (int i = 0; i < team->size; i++) {
        int rank = h->ranks[i];
        const hosts_member *member = &h->members[rank];
        bool remote = member->host != h->mine;
        int holder = remote ? member->index % carriers : member->index;
        way->seats[rank] = (hosts_seat){holder, remote ? 1 + n_handled[holder]++ : 0};
        if (remote && holder == h->index)
            way->sources[way->n_sources++] = rank;
    }
    for (int host = 0; host < h->n_hosts; host++) {
        int n = hosts_carriers(h, way, host), sources = 0;
        /* sources with index 0, n, 2 n, ...: the first rank has the most */
        for (int other = 0; other < h->n_hosts; other++)
            sources += other != host ? (hosts_n_local(h, other) + n - 1) / n : 0;
        way->most_sources = sources > way->most_sources ? sources : way->most_sources;
    }
}

/* Appends the maximal subtrees on one host of the tree over ranks [begin, end). */
static void find_subtrees(const comm_hosts *h, int begin, int end, hosts_subtrees *of)
{
    bool on_one_host = true;
    for (int r = begin + 1; r < end; r++)
        on_one_host = on_one_host && h->members[r].host == h->members[begin].host;
    if (on_one_host) {
        of->at[of->n++] = (hosts_subtree){begin, end, h->members[begin].host};
        return;
    }
    int middle = begin + tess_reduce_half(end - begin);
    find_subtrees(h, begin, middle, of);
    find_subtrees(h, middle, end, of);
}

static void count_subtrees(const comm_hosts *h, hosts_subtrees *of)
{
    of->most = 0;
    for (int host = 0; host < h->n_hosts; host++) {
        int n = 0;
        for (int s = 0; s < of->n; s++)
            n += of->at[s].host == host;
        of->most = n > of->most ? n : of->most;
    }
}

const hosts_subtrees *hosts_subtrees_of(const tess_work *work)
{
    comm_hosts *h = hosts_of(work->team);
    if (work->steps == NULL)
        return &h->all;
    h->stepwise.n = 0;
    for (int i = 0; i < work->n_steps; i++)
        if (work->steps[i].n > 0)
            find_subtrees(h, work->steps[i].begin, work->steps[i].begin + work->steps[i].n, &h->stepwise);
    count_subtrees(h, &h->stepwise);
    return &h->stepwise;
}

static tess_status allocate(tess_team *team, comm_hosts *h)
{
    size_t W = (size_t)team->size;
    TESS_TRY(array(team, W, sizeof(hosts_member), "members", &h->members));
    TESS_TRY(array(team, W, sizeof(int), "members", &h->ranks));
    for (int way = 0; way < HOSTS_WAYS; way++) {
        TESS_TRY(array(team, W, sizeof(int), "members", &h->ways[way].sources));
        TESS_TRY(array(team, W, sizeof(hosts_seat), "members", &h->ways[way].seats));
    }
    TESS_TRY(array(team, W + 1, sizeof(int), "hosts", &h->first));
    TESS_TRY(array(team, W, sizeof(hosts_subtree), "subtrees", &h->all.at));
    TESS_TRY(array(team, W, sizeof(hosts_subtree), "subtrees", &h->stepwise.at));
    return array(team, 1, sizeof(hosts_rounds), "rounds", &h->rounds);
}

static tess_status allocate_letters(tess_team *team, comm_hosts *h)
{
    size_t n_hosts = (size_t)h->n_hosts, n_sources = (size_t)h->ways[HOSTS_STRIPED].n_sources;
    h->letter_bytes = sizeof(hosts_letter) + tess_control_inline_bytes(team->size);
    TESS_TRY(array(team, HOSTS_LETTERS, h->letter_bytes, "posts to other hosts", &h->sent));
    TESS_TRY(array(team, HOSTS_LETTERS * n_sources, h->letter_bytes, "posts of other hosts", &h->received));
    TESS_TRY(array(team, HOSTS_LETTERS * n_hosts, sizeof(wire_request *), "posts to other hosts", &h->sending));
    return array(team, HOSTS_LETTERS * n_sources, sizeof(wire_request *), "posts of other hosts", &h->awaited);
}

tess_status hosts_attach(tess_team *team, uint8_t *shared)
{
    comm_hosts *h;
    TESS_TRY(array(team, 1, sizeof(*h), "team over hosts", &h));
    team->state = h;
    TESS_TRY(allocate(team, h));
    seat_members(team, h);
    h->ways[HOSTS_STRIPED].carriers = team->size;
    h->ways[HOSTS_LEADERS].carriers = 1;
    for (int way = 0; way < HOSTS_WAYS; way++)
        choose_handlers(team, h, &h->ways[way]);
    find_subtrees(h, 0, team->size, &h->all);
    count_subtrees(h, &h->all);
    TESS_TRY(allocate_letters(team, h));
    h->counters = (hosts_counter *)(void *)shared;
    h->areas = shared + hosts_bytes(hosts_n_local(h, h->mine)) -
               (uint64_t)hosts_n_local(h, h->mine) * HOSTS_AREAS * HOSTS_AREA_BYTES;
    int *processes = team->lists.listed;
    for (int r = 0; r < team->size; r++)
        processes[r] = team->runtime->processes[team->ranks[r]];
    return tess_wire_make_group(processes, team->size, (int)(team->hash & 0x7fff), &h->group);
}

static void cancel_all(wire_request **requests, size_t n)
{
    for (size_t i = 0; requests != NULL && i < n; i++)
        tess_wire_cancel(&requests[i]);
}

static void cancel_batch(hosts_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        tess_wire_cancel(&batch->messages[i].request);
    batch->n = batch->n_done = 0;
}

static void cancel_messages(comm_hosts *h)
{
    cancel_all(h->sending, HOSTS_LETTERS * (size_t)h->n_hosts);
    cancel_all(h->awaited, HOSTS_LETTERS * (size_t)h->ways[HOSTS_STRIPED].n_sources);
    if (h->rounds != NULL)
        tess_wire_cancel(&h->rounds->native);
    for (int area = 0; h->rounds != NULL && area < HOSTS_AREAS; area++) {
        cancel_batch(&h->rounds->sends[area]);
        cancel_batch(&h->rounds->receives[area]);
    }
}

void hosts_give_up(tess_team *team)
{
    cancel_messages(hosts_of(team));
    if (hosts_of(team)->linked != NULL)
        tess_nccl_link_destroy(&hosts_of(team)->linked->link, false);
    hosts_pairs_give_up(team);
    tess_wire_give_up();
}

/* Waits for posts in flight, which a slow host still needs. */
static void finish_posts(const tess_team *team)
{
    const comm_hosts *h = hosts_of(team);
    const tess_job *job = &team->runtime->job;
    double begin_s = tess_os_now_s();
    for (size_t i = 0; h->sending != NULL && i < HOSTS_LETTERS * (size_t)h->n_hosts; i++)
        for (bool done = false; !done;)
            if (tess_wire_test(&h->sending[i], &done) != TESS_OK || atomic_load(&job->header->first_lost) >= 0 ||
                tess_os_now_s() - begin_s > team->timeout_s)
                return;
}

void hosts_detach(tess_team *team)
{
    comm_hosts *h = hosts_of(team);
    tess_mem *mem = team->runtime->mem;
    if (h == NULL)
        return;
    if (team->broken == TESS_OK)
        finish_posts(team);
    team->state = NULL;
    cancel_messages(h);
    for (int area = 0; h->rounds != NULL && area < HOSTS_AREAS; area++) {
        tess_mem_free(mem, h->rounds->sends[area].messages);
        tess_mem_free(mem, h->rounds->receives[area].messages);
    }
    tess_mem_count(mem, TESS_POOL_COMM, -(int64_t)h->used);
    tess_wire_free_group(&h->group);
    for (int way = 0; way < HOSTS_WAYS; way++) {
        tess_mem_free(mem, h->ways[way].sources);
        tess_mem_free(mem, h->ways[way].seats);
    }
    void *const owned[] = {h->members,  h->ranks,   h->first,   h->all.at, h->stepwise.at, h->rounds, h->sent,
                           h->received, h->sending, h->awaited, h};
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        tess_mem_free(mem, owned[i]);
}
