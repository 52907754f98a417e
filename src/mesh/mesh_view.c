/* Formats a layout as text and as JSON: its axes, groups and ranks, a picture, and the speed of its axes. */
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "mesh/mesh_layout.h"

static const char *host_of(const tess_mesh_view *view, int rank)
{
    const int *hosts = view->layout->hosts;
    return hosts != NULL && view->host_names != NULL ? view->host_names[hosts[rank]] : "";
}

/* Counts the hosts, which are numbered in the order of their ranks. */
static int count_hosts(const tess_mesh_layout *layout)
{
    int most = 0;
    for (int rank = 0; layout->hosts != NULL && rank < layout->size; rank++)
        most = layout->hosts[rank] > most ? layout->hosts[rank] : most;
    return most + 1;
}

/* Returns the rank of member i of a group. */
static int member(const tess_mesh_layout *l, int axis, int group, int i)
{
    return tess_mesh_layout_at(l, tess_mesh_layout_first(l, axis, group) + i * tess_mesh_layout_stride(l, axis));
}

/* Returns the difference between the ranks of neighbours along an axis, or 0 if it is not the same for all. */
static int rank_step(const tess_mesh_layout *l, int axis)
{
    int step = tess_mesh_layout_stride(l, axis);
    if (l->ranks == NULL || l->sizes[axis] == 1)
        return step;
    step = member(l, axis, 0, 1) - member(l, axis, 0, 0);
    for (int group = 0; group < l->size / l->sizes[axis]; group++)
        for (int i = 1; i < l->sizes[axis]; i++)
            if (member(l, axis, group, i) - member(l, axis, group, i - 1) != step)
                return 0;
    return step;
}

static bool is_shown(const tess_mesh_view *view, int axis)
{
    return view->axis < 0 || view->axis == axis;
}

/* ---- Text ---- */
static int widest(int a, int b)
{
    return a > b ? a : b;
}

static int digits(int number)
{
    return snprintf(NULL, 0, "%d", number);
}

/* Prints "mesh 2 x 4 (dp, tp): 8 ranks on 2 hosts; rank = 4 dp + tp". */
static tess_status print_title(const tess_mesh_layout *l, tess_buffer *out)
{
    int n_hosts = count_hosts(l);
    const char *number = l->ranks != NULL ? "place" : "rank";
    for (int a = 0; a < l->n_axes; a++)
        TESS_TRY(tess_buffer_printf(out, a > 0 ? " x %d" : "mesh %d", l->sizes[a]));
    for (int a = 0; a < l->n_axes; a++)
        TESS_TRY(tess_buffer_printf(out, a > 0 ? ", %s" : " (%s", l->names[a]));
    TESS_TRY(tess_buffer_printf(out, "): %d rank%s on ", l->size, l->size == 1 ? "" : "s"));
    TESS_TRY(tess_buffer_printf(out, n_hosts == 1 ? "one host; " : "%d hosts; ", n_hosts));
    TESS_TRY(tess_buffer_printf(out, "%s = ", number));
    for (int a = 0; a < l->n_axes; a++) {
        int stride = tess_mesh_layout_stride(l, a);
        TESS_TRY(tess_buffer_printf(out, a > 0 ? " + " : ""));
        if (stride > 1)
            TESS_TRY(tess_buffer_printf(out, "%d ", stride));
        TESS_TRY(tess_buffer_printf(out, "%s", l->names[a]));
    }
    return tess_buffer_printf(out, l->ranks != NULL ? "; the grid shows the rank at each place\n" : "\n");
}

static tess_status print_axes(const tess_mesh_view *view, int name_width, tess_buffer *out)
{
    const tess_mesh_layout *l = view->layout;
    TESS_TRY(tess_buffer_printf(out, "\n%-*s  size  groups  apart\n", name_width, "axis"));
    for (int a = 0; a < l->n_axes; a++) {
        bool alone = l->sizes[a] == 1;
        int step = rank_step(l, a);
        char apart[16];
        snprintf(apart, sizeof(apart), step != 0 ? "%d" : "-", step);
        TESS_TRY(tess_buffer_printf(out, "%-*s  %4d  %6d  %5s  %s\n", name_width, l->names[a], l->sizes[a],
                                    l->size / l->sizes[a], apart,
                                    alone                            ? "one rank: no communication"
                                    : tess_mesh_layout_crosses(l, a) ? "crosses hosts"
                                                                     : "stays inside a host"));
    }
    return TESS_OK;
}

static tess_status print_groups(const tess_mesh_view *view, int name_width, tess_buffer *out)
{
    const tess_mesh_layout *l = view->layout;
    TESS_TRY(tess_buffer_printf(out, "\ngroups\n"));
    for (int a = 0; a < l->n_axes; a++) {
        if (!is_shown(view, a))
            continue;
        TESS_TRY(tess_buffer_printf(out, "%-*s ", name_width, l->names[a]));
        for (int group = 0; group < l->size / l->sizes[a]; group++)
            for (int i = 0; i < l->sizes[a]; i++)
                TESS_TRY(tess_buffer_printf(out, "%s%d%s", i == 0 ? " [" : " ", member(l, a, group, i),
                                            i == l->sizes[a] - 1 ? "]" : ""));
        TESS_TRY(tess_buffer_printf(out, "\n"));
    }
    return TESS_OK;
}

/* Prints the hosts of ranks [first, first + n), each once: "h1" or "h1,h2". */
static tess_status print_hosts_of(const tess_mesh_view *view, int first, int n, tess_buffer *out)
{
    for (int rank = first; rank < first + n; rank++) {
        bool listed = false;
        for (int r = first; r < rank; r++)
            listed |= view->layout->hosts[r] == view->layout->hosts[rank];
        if (!listed)
            TESS_TRY(tess_buffer_printf(out, "%s%s", rank == first ? "   " : ",", host_of(view, rank)));
    }
    return TESS_OK;
}

/* Prints the picture: a row for each group of the last axis, labelled with its coordinates on the other axes. There
 * is a gap where one of those axes, except the last of them, restarts. */
static tess_status print_picture(const tess_mesh_view *view, tess_buffer *out)
{
    const tess_mesh_layout *l = view->layout;
    int last = l->n_axes - 1, n = l->sizes[last], width = digits(l->size - 1), label = -1;
    for (int a = 0; a < last; a++)
        label += (int)strlen(l->names[a]) + digits(l->sizes[a] - 1) + 2;
    label = widest(label, (int)strlen(l->names[last]));
    bool one_host = count_hosts(l) == 1;
    TESS_TRY(tess_buffer_printf(out, "\n%*s", label, l->names[last]));
    for (int i = 0; i < n; i++)
        TESS_TRY(tess_buffer_printf(out, "  %*d", width, i));
    for (int first = 0; first < l->size; first += n) {
        int at[TESS_MESH_MAX_AXES];
        char text[TESS_MESH_MAX_AXES * (TESS_MESH_NAME_SIZE + 16)] = "";
        size_t end = 0;
        tess_mesh_layout_coordinates(l, first, at);
        if (last >= 2 && at[last - 1] == 0)
            TESS_TRY(tess_buffer_printf(out, "\n"));
        for (int a = 0; a < last; a++)
            end = tess_text_add(text, sizeof(text), end, "%s%s %*d", a > 0 ? " " : "", l->names[a],
                                digits(l->sizes[a] - 1), at[a]);
        TESS_TRY(tess_buffer_printf(out, "\n%-*s", label, text));
        for (int i = 0; i < n; i++)
            TESS_TRY(tess_buffer_printf(out, "  %*d", width, tess_mesh_layout_at(l, first + i)));
        if (!one_host)
            TESS_TRY(print_hosts_of(view, first, n, out));
    }
    return tess_buffer_printf(out, "\n");
}

static tess_status print_ranks(const tess_mesh_view *view, tess_buffer *out)
{
    const tess_mesh_layout *l = view->layout;
    bool one_host = count_hosts(l) == 1;
    TESS_TRY(tess_buffer_printf(out, "\nrank"));
    for (int a = 0; a < l->n_axes; a++)
        TESS_TRY(tess_buffer_printf(out, "  %4s", l->names[a]));
    TESS_TRY(tess_buffer_printf(out, one_host ? "\n" : "  host\n"));
    for (int rank = 0; rank < l->size; rank++) {
        int at[TESS_MESH_MAX_AXES];
        tess_mesh_layout_coordinates(l, rank, at);
        TESS_TRY(tess_buffer_printf(out, "%4d", tess_mesh_layout_at(l, rank)));
        for (int a = 0; a < l->n_axes; a++)
            TESS_TRY(tess_buffer_printf(out, "  %*d", widest((int)strlen(l->names[a]), 4), at[a]));
        TESS_TRY(tess_buffer_printf(out, one_host ? "\n" : "  %s\n", host_of(view, rank)));
    }
    return TESS_OK;
}

static tess_status print_speeds(const tess_mesh_view *view, int name_width, tess_buffer *out)
{
    const tess_mesh_layout *l = view->layout;
    char size[32], rate[32];
    if (view->n_speeds == 0)
        return tess_buffer_printf(out, "\nbandwidth: not measured. --measure does it on this machine; over hosts it is "
                                       "`tessera launch --hosts ... -- bench comm`\n");
    TESS_TRY(tess_buffer_printf(out, "\nchecked: along every axis ranks gather and sum what the groups say\n"));
    TESS_TRY(tess_buffer_printf(out,
                                "\nall_reduce, all groups of an axis at once, the slowest\n%-*s  %10s  %12s  %12s\n",
                                name_width, "axis", "bytes", "time", "bus"));
    for (int a = 0; a < l->n_axes; a++)
        for (int i = 0; i < view->n_speeds && l->sizes[a] > 1; i++) {
            const tess_mesh_speed *s = &view->speeds[a][i];
            TESS_TRY(tess_buffer_printf(out, "%-*s  %10s  %9.1f us  %10s/s\n", name_width, l->names[a],
                                        tess_format_bytes((double)s->bytes, size, sizeof(size)), s->us,
                                        tess_format_bytes(s->bus_bytes_per_s, rate, sizeof(rate))));
        }
    return TESS_OK;
}

tess_status tess_mesh_view_print(const tess_mesh_view *view, tess_buffer *out)
{
    int name_width = 4;
    for (int a = 0; a < view->layout->n_axes; a++)
        name_width = widest(name_width, (int)strlen(view->layout->names[a]));
    TESS_TRY(print_title(view->layout, out));
    TESS_TRY(print_axes(view, name_width, out));
    TESS_TRY(print_groups(view, name_width, out));
    TESS_TRY(print_picture(view, out));
    TESS_TRY(print_ranks(view, out));
    return print_speeds(view, name_width, out);
}

/* ---- JSON ---- */
static json_t *describe_axis(const tess_mesh_view *view, int axis)
{
    const tess_mesh_layout *l = view->layout;
    int step = rank_step(l, axis);
    json_t *groups = json_array(), *speeds = json_array();
    for (int group = 0; group < l->size / l->sizes[axis]; group++) {
        json_t *ranks = json_array();
        for (int i = 0; i < l->sizes[axis]; i++)
            json_array_append_new(ranks, json_integer(member(l, axis, group, i)));
        json_array_append_new(groups, ranks);
    }
    for (int i = 0; i < view->n_speeds && l->sizes[axis] > 1; i++) {
        const tess_mesh_speed *s = &view->speeds[axis][i];
        json_array_append_new(speeds, json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)s->bytes, "us", s->us,
                                                "bus_bytes_per_s", s->bus_bytes_per_s));
    }
    return json_pack("{s:s, s:i, s:o, s:b, s:b, s:o, s:o}", "name", l->names[axis], "size", l->sizes[axis], "stride",
                     step != 0 ? json_integer(step) : json_null(), "crosses_hosts", tess_mesh_layout_crosses(l, axis),
                     "checked", view->n_speeds > 0, "groups", groups, "all_reduce", speeds);
}

static json_t *describe_rank(const tess_mesh_view *view, int rank)
{
    const tess_mesh_layout *l = view->layout;
    int at[TESS_MESH_MAX_AXES];
    json_t *coordinates = json_object();
    tess_mesh_layout_coordinates(l, rank, at);
    for (int a = 0; a < l->n_axes; a++)
        json_object_set_new(coordinates, l->names[a], json_integer(at[a]));
    json_t *object = json_pack("{s:i, s:o}", "rank", tess_mesh_layout_at(l, rank), "coordinates", coordinates);
    if (l->hosts != NULL)
        json_object_set_new(object, "host", tess_json_text(host_of(view, rank)));
    return object;
}

tess_status tess_mesh_view_json(const tess_mesh_view *view, json_t **json)
{
    json_t *axes = json_array(), *ranks = json_array();
    for (int a = 0; a < view->layout->n_axes; a++)
        if (is_shown(view, a))
            json_array_append_new(axes, describe_axis(view, a));
    for (int rank = 0; rank < view->layout->size; rank++)
        json_array_append_new(ranks, describe_rank(view, rank));
    *json = json_pack("{s:i, s:i, s:o, s:o}", "world", view->layout->size, "hosts", count_hosts(view->layout), "axes",
                      axes, "ranks", ranks);
    return *json != NULL ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "no memory to describe the mesh");
}
