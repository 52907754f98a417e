#include "cli/doctor/top_view.h"

#include <curses.h>
#include <locale.h>
#include <poll.h>
#include <term.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "doctor/top/page.h"

typedef struct top_view {
    tess_mem *mem;
    const char *what;
    double interval_s;
    tess_live_job jobs[TESS_LIVE_MAX]; /* the jobs in the list */
    int n_jobs, chosen;
    tess_live_job live;              /* the displayed job; closed when it has ended */
    tess_top_snapshot *now, *before; /* before: the newest snapshot with fewer steps than `now` */
    int first_rank, n_rows;
    bool shows_job, ended, done; /* shows_job false: the list is displayed */
} top_view;

/* ---- The terminal ---- */

static SCREEN *open_terminal(void)
{
    int error;
    setlocale(LC_CTYPE, ""); /* names may be UTF-8 */
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK)
        return NULL; /* newterm leaks memory if it does not know the terminal */
    del_curterm(cur_term);
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return NULL;
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    if (has_colors() && tess_variable_value(TESS_VAR_NO_COLOR) == NULL) {
        static const short colours[TESS_PHASE_COUNT] = {COLOR_WHITE, COLOR_MAGENTA, COLOR_CYAN,   COLOR_GREEN,
                                                        COLOR_BLUE,  COLOR_CYAN,    COLOR_YELLOW, COLOR_RED};
        start_color();
        use_default_colors();
        init_pair(TESS_TOP_WARN, COLOR_YELLOW, -1);
        init_pair(TESS_TOP_BAD, COLOR_RED, -1);
        for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
            init_pair((short)(TESS_TOP_PHASE + phase), colours[phase], -1);
    }
    return screen;
}

static attr_t attributes_of(tess_top_style style)
{
    switch (style) {
    case TESS_TOP_PLAIN:
        return A_NORMAL;
    case TESS_TOP_DIM:
        return A_DIM;
    case TESS_TOP_STRONG:
        return A_BOLD;
    case TESS_TOP_BAD:
        return A_BOLD | COLOR_PAIR(style);
    default:
        return COLOR_PAIR(style);
    }
}

static void put(TESS_UNUSED void *self, tess_top_style style, const char *text)
{
    attrset(attributes_of(style));
    addstr(text);
    attrset(A_NORMAL);
}

static void end_line(TESS_UNUSED void *self)
{
    int row = getcury(stdscr);
    move(row + 1 < LINES ? row + 1 : row, 0); /* lines that do not fit overwrite the last one */
}

/* ---- One job ---- */

static uint64_t steps_of(const tess_top_snapshot *s)
{
    uint64_t most = 0;
    for (int r = 0; r < s->world; r++)
        most = s->ranks[r].board.n_steps > most ? s->ranks[r].board.n_steps : most;
    return most;
}

static tess_status read_job(top_view *v)
{
    tess_top_snapshot *next;
    if (v->ended)
        return TESS_OK;
    TESS_TRY(tess_top_snapshot_take(v->mem, &v->live, &next));
    if (v->now != NULL && steps_of(next) > steps_of(v->now)) {
        tess_top_snapshot_destroy(&v->before);
        v->before = v->now;
        v->now = NULL;
    }
    tess_top_snapshot_destroy(&v->now);
    v->now = next;
    if (!next->running) { /* the job's memory can be released now */
        tess_live_close(&v->live);
        v->ended = true;
    }
    return TESS_OK;
}

static void draw_job(top_view *v)
{
    const tess_top_canvas canvas = {NULL, put, end_line};
    /* Leave the last column empty: a character there would move the cursor to the next line. */
    tess_top_size size = {.width = COLS > 1 ? COLS - 1 : 1, .height = LINES > 1 ? LINES - 1 : 1};
    size.first_rank = v->first_rank;
    move(0, 0);
    v->n_rows = tess_top_draw(v->now, v->before, &size, &canvas);
    const char *help = v->now->world > v->n_rows ? "q quits, arrows and page keys show other ranks" : "q quits";
    move(LINES - 1, 0);
    clrtoeol();
    attrset(A_DIM);
    addnstr(help, COLS - 1);
    attrset(A_NORMAL);
}

static void scroll_ranks(top_view *v, int by)
{
    int last = v->now->world - v->n_rows;
    int first = v->first_rank + by;
    v->first_rank = first > last ? last : first;
    v->first_rank = v->first_rank < 0 ? 0 : v->first_rank;
}

static void take_job_key(top_view *v, int key)
{
    if (key == KEY_DOWN || key == 'j')
        scroll_ranks(v, 1);
    else if (key == KEY_UP || key == 'k')
        scroll_ranks(v, -1);
    else if (key == KEY_NPAGE || key == ' ')
        scroll_ranks(v, v->n_rows);
    else if (key == KEY_PPAGE)
        scroll_ranks(v, -v->n_rows);
}

/* ---- The list of jobs ---- */

static void close_jobs(top_view *v)
{
    for (int i = 0; i < v->n_jobs; i++)
        tess_live_close(&v->jobs[i]);
    v->n_jobs = 0;
}

static void choose(top_view *v, int chosen)
{
    v->live = v->jobs[chosen];
    v->jobs[chosen] = v->jobs[--v->n_jobs];
    close_jobs(v);
    v->shows_job = true;
}

/* Refreshes the list of jobs. The selection stays on the same job. */
static tess_status list_jobs(top_view *v)
{
    int pid = v->n_jobs > 0 ? v->jobs[v->chosen].pid : 0;
    close_jobs(v);
    TESS_TRY(tess_live_find(v->what, v->jobs, TESS_LIVE_MAX, &v->n_jobs));
    v->chosen = 0;
    for (int i = 0; i < v->n_jobs; i++)
        if (v->jobs[i].pid == pid)
            v->chosen = i;
    if (v->n_jobs == 1 && pid == 0)
        choose(v, 0);
    return TESS_OK;
}

static tess_status draw_list(top_view *v)
{
    mvaddnstr(0, 0, "Jobs on this machine: arrows choose one, Enter looks at it, q quits", COLS - 1);
    int first = v->chosen < LINES - 2 ? 0 : v->chosen - (LINES - 3);
    for (int i = first; i < v->n_jobs && i - first + 1 < LINES; i++) {
        char text[512];
        tess_top_snapshot *snapshot;
        TESS_TRY(tess_top_snapshot_take(v->mem, &v->jobs[i], &snapshot));
        tess_top_describe(snapshot, text, sizeof(text));
        tess_top_snapshot_destroy(&snapshot);
        attrset(i == v->chosen ? A_REVERSE : A_NORMAL);
        mvaddnstr(i - first + 1, 0, text, COLS - 1);
        attrset(A_NORMAL);
    }
    return TESS_OK;
}

static void take_list_key(top_view *v, int key)
{
    if ((key == KEY_DOWN || key == 'j') && v->chosen + 1 < v->n_jobs)
        v->chosen++;
    else if ((key == KEY_UP || key == 'k') && v->chosen > 0)
        v->chosen--;
    else if (key == '\n' || key == '\r' || key == KEY_ENTER)
        choose(v, v->chosen);
}

/* ---- The loop ---- */

/* Waits for a key (returns true), the end of the job, a change of the terminal's size (EINTR), or the deadline. */
static bool wait_for_event(const top_view *v, double until_s)
{
    double rest_s = until_s - tess_os_now_s();
    bool watches = v->shows_job && !v->ended && v->live.pid_fd >= 0;
    struct pollfd events[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = watches ? v->live.pid_fd : -1, .events = POLLIN}};
    return poll(events, 2, rest_s > 0 ? (int)(rest_s * 1000) + 1 : 0) > 0 && events[0].revents != 0;
}

static void take_key(top_view *v, int key)
{
    if (key == KEY_RESIZE)
        clear();
    else if (key == 'q' || key == 'Q')
        v->done = true;
    else if (v->shows_job)
        take_job_key(v, key);
    else
        take_list_key(v, key);
}

/* Handles all pending keys. If input is `ready` but contains no key, it has ended: the terminal is gone. */
static void take_keys(top_view *v, bool ready)
{
    int key = getch();
    v->done = ready && key == ERR;
    for (; key != ERR && !v->done; key = getch())
        take_key(v, key);
}

static tess_status draw(top_view *v)
{
    erase();
    if (v->shows_job)
        draw_job(v);
    else
        TESS_TRY(draw_list(v));
    refresh();
    return TESS_OK;
}

static tess_status run(top_view *v)
{
    double next_s = 0;
    while (!v->done) {
        bool showed_job = v->shows_job, ended = v->shows_job && !v->ended && !tess_live_running(&v->live);
        if (tess_os_now_s() >= next_s || ended) {
            if (!v->shows_job)
                TESS_TRY(list_jobs(v));
            if (v->shows_job)
                TESS_TRY(read_job(v));
            next_s = tess_os_now_s() + v->interval_s;
        }
        TESS_TRY(draw(v));
        take_keys(v, wait_for_event(v, next_s));
        if (v->shows_job && !showed_job)
            next_s = 0;
    }
    return TESS_OK;
}

tess_status cli_top_view(tess_mem *mem, const char *what, double interval_s)
{
    top_view v = {.mem = mem, .what = what, .interval_s = interval_s};
    tess_status status = list_jobs(&v); /* runs before the screen is cleared, so that an error stays readable */
    if (status == TESS_OK && v.shows_job)
        status = read_job(&v);
    SCREEN *screen = NULL;
    if (status == TESS_OK && (screen = open_terminal()) == NULL)
        status = TESS_FAIL(TESS_E_UNSUPPORTED, "this terminal (TERM=%s) cannot show a page: use --once",
                           tess_variable_value(TESS_VAR_TERM) != NULL ? tess_variable_value(TESS_VAR_TERM) : "");
    if (status == TESS_OK)
        status = run(&v);
    if (screen != NULL) {
        endwin();
        delscreen(screen);
    }
    close_jobs(&v);
    if (v.shows_job && !v.ended)
        tess_live_close(&v.live);
    tess_top_snapshot_destroy(&v.now);
    tess_top_snapshot_destroy(&v.before);
    return status;
}
