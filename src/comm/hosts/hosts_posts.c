/* Sends posts to other hosts and receives posts from them. */
#include <stddef.h>
#include <string.h>

#include "base/os/os.h"
#include "comm/hosts/hosts_impl.h"

static const double longest_send_s = 60;

static size_t slot_of(uint64_t sequence)
{
    return sequence % HOSTS_LETTERS;
}

/* Completes the sends of the slot's last operation. All ranks have met since, so its messages have arrived, and MPI
 * only has to report it. */
static tess_status finish_sending(comm_hosts *h, size_t slot)
{
    double begin_s = 0;
    for (int host = 0; host < h->n_hosts; host++) {
        wire_request **request = &h->sending[slot * (size_t)h->n_hosts + (size_t)host];
        for (bool done = false; !done;) {
            TESS_TRY(tess_wire_test(request, &done));
            if (done)
                break;
            double now_s = tess_os_now_s();
            begin_s = begin_s == 0 ? now_s : begin_s;
            TESS_CHECK(now_s - begin_s < longest_send_s, TESS_E_TIMEOUT,
                       "a message that was received long ago is not sent yet");
        }
    }
    return TESS_OK;
}

tess_status hosts_send_post(tess_work *work)
{
    tess_team *team = work->team;
    comm_hosts *h = hosts_of(team);
    const hosts_way *way = &h->ways[HOSTS_STRIPED];
    size_t slot = slot_of(work->fp.sequence);
    int tag = hosts_tag(work, HOSTS_TAG_POST);
    const tess_post *post = shm_post(work, team->rank);
    TESS_TRY(finish_sending(h, slot));
    hosts_letter *letter = hosts_letter_at(h, h->sent, slot);
    memcpy(&letter->post, post, sizeof(*post));
    memcpy(letter->beside, tess_control_inline(team->control, team->size, work->fp.sequence, team->rank), post->beside);
    for (int k = 0; k < way->n_sources; k++) {
        size_t at = slot * (size_t)way->n_sources + (size_t)k;
        TESS_TRY(tess_wire_recv(h->group, hosts_letter_at(h, h->received, at), h->letter_bytes, way->sources[k], tag,
                                &h->awaited[at]));
    }
    for (int host = 0; host < h->n_hosts; host++) {
        if (host == h->mine)
            continue;
        TESS_TRY(tess_wire_send(h->group, letter, offsetof(hosts_letter, beside) + post->beside,
                                hosts_handler(h, way, host, team->rank), tag,
                                &h->sending[slot * (size_t)h->n_hosts + (size_t)host]));
    }
    return TESS_OK;
}

static tess_status put_into_place(tess_team *team, uint64_t sequence, int rank, const hosts_letter *letter)
{
    tess_post *post = tess_control_post(team->control, team->size, sequence, rank);
    TESS_CHECK(letter->post.beside <= tess_control_inline_bytes(team->size), TESS_E_IO,
               "rank %d sent %llu bytes beside its post", team->ranks[rank], (unsigned long long)letter->post.beside);
    memcpy(post, &letter->post, offsetof(tess_post, arrivals));
    memcpy(tess_control_inline(team->control, team->size, sequence, rank), letter->beside, letter->post.beside);
    shm_arrive_for(team, sequence, rank, 1);
    return TESS_OK;
}

tess_status hosts_receive_posts(tess_team *team)
{
    comm_hosts *h = hosts_of(team);
    const hosts_way *way = &h->ways[HOSTS_STRIPED];
    for (const tess_work *work = team->head; work != NULL; work = work->next) {
        for (int k = 0; k < way->n_sources; k++) {
            size_t at = slot_of(work->fp.sequence) * (size_t)way->n_sources + (size_t)k;
            bool done = false;
            if (h->awaited[at] == NULL)
                continue;
            TESS_TRY(tess_wire_test(&h->awaited[at], &done));
            if (done)
                TESS_TRY(put_into_place(team, work->fp.sequence, way->sources[k], hosts_letter_at(h, h->received, at)));
        }
    }
    return TESS_OK;
}

int hosts_late(const tess_work *work, int rank)
{
    const tess_team *team = work->team;
    int holder = hosts_local_rank(hosts_of(team), hosts_of(team)->ways[HOSTS_STRIPED].seats[rank].holder);
    const tess_post *own = tess_control_post(team->control, team->size, work->fp.sequence, team->rank);
    const tess_post *his = tess_control_post(team->control, team->size, work->fp.sequence, holder);
    if (atomic_load(&his->arrivals) < atomic_load(&own->arrivals))
        return holder; /* the handler has not come itself, so nothing is known of `rank` */
    tess_board_copy copy;
    tess_board_export(&team->runtime->job.rows[team->ranks[rank]], &copy);
    bool has_posted = copy.op.team == team->hash && copy.op.sequence >= work->fp.sequence;
    return has_posted ? holder : rank;
}
