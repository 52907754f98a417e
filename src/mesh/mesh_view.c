/* Describes a layout: its axes, groups and ranks, a picture, and the speed of its axes. */
#include <stdio.h>

#include "base/text/json.h"
#include "mesh/mesh_layout.h"

static const char *host_of(const tess_mesh_view *view, int place)
{
    return view->host_names != NULL ? view->host_names[tess_mesh_layout_host(view->layout, place)] : "";
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

const tess_form_part tess_mesh_form[] = {
    {.text =
         "mesh {*grid: x }{size}{/} ({*grid:, }{name}{/}): {world} rank{world:s} on [{several_hosts:!}{hosts} "
         "hosts|one host]; {number} = {*grid: + }[{multiplier} ]{name}{/}[{ordered:!}; the grid shows the rank at each "
         "place]\n"
         "\naxis\v  size\v  groups\v  apart\n{*grid}{name}\v  {size}\v  {n_groups}\v  {stride}\t  {note}\n{/}"
         "\ngroups\n{*axes}{name:-4}\t  {*groups:17 }{[}{*:17 }{}{/}{]}{/}\n{/}"
         "\n\v{last}{*columns:17}\v  {}{/}\n"
         "{*rows:17}[{gap:!}\t\n]\v{label}{*ranks:17}\v  {}{/}[\t   {hosts}]\n{/}"
         "\n\vrank{*grid}\v  {name:4}{/}[{several_hosts:!}\t  host]\n"
         "{*ranks:17}\v{rank}{*at}\v  {}{/}[\t  {host}]\n{/}"
         "[{measured:!}\nchecked: along every axis ranks gather and sum what the groups say\n"
         "\nall_reduce, all groups of an axis at once, the slowest\n"
         "axis\v       bytes\v          time\v           bus\n"
         "{*grid}{*all_reduce}{axis}\v{bytes:B}\v{us:.1f} us\v{bus_bytes_per_s:B}/s\n{/}{/}"
         "|\nbandwidth: not measured. --measure does it on this machine; over hosts it is `tessera launch --hosts ... "
         "-- bench comm`\n]"},
    {NULL, NULL}};

static json_t *describe_groups(const tess_mesh_layout *l, int axis)
{
    json_t *groups = json_array();
    for (int group = 0; group < l->size / l->sizes[axis]; group++) {
        json_t *ranks = json_array();
        for (int i = 0; i < l->sizes[axis]; i++)
            json_array_append_new(ranks, json_integer(member(l, axis, group, i)));
        json_array_append_new(groups, ranks);
    }
    return groups;
}

static json_t *describe_axis(const tess_mesh_view *view, int axis, bool for_people)
{
    const tess_mesh_layout *l = view->layout;
    const int step = rank_step(l, axis), stride = tess_mesh_layout_stride(l, axis);
    const bool alone = l->sizes[axis] == 1, crosses = tess_mesh_layout_crosses(l, axis);
    json_t *speeds = json_array();
    for (int i = 0; i < view->n_speeds && !alone; i++) {
        const tess_mesh_speed *s = &view->speeds[axis][i];
        json_array_append_new(speeds, json_pack("{s:I, s:f, s:f, s:s*}", "bytes", (json_int_t)s->bytes, "us", s->us,
                                                "bus_bytes_per_s", s->bus_bytes_per_s, "axis",
                                                for_people ? l->names[axis] : NULL));
    }
    json_t *object = json_pack("{s:s, s:i, s:o, s:b, s:b, s:o, s:o}", "name", l->names[axis], "size", l->sizes[axis],
                               "stride", step != 0 ? json_integer(step) : json_null(), "crosses_hosts", (int)crosses,
                               "checked", view->n_speeds > 0, "groups", describe_groups(l, axis), "all_reduce", speeds);
    if (for_people)
        json_object_update_new(object, json_pack("{s:i, s:i, s:s}", "n_groups", l->size / l->sizes[axis], "multiplier",
                                                 stride > 1 ? stride : 0, "note",
                                                 alone     ? "one rank: no communication"
                                                 : crosses ? "crosses hosts"
                                                           : "stays inside a host"));
    return object;
}

static json_t *describe_rank(const tess_mesh_view *view, int rank, bool for_people, bool with_host)
{
    const tess_mesh_layout *l = view->layout;
    int at[TESS_MESH_MAX_AXES];
    json_t *coordinates = json_object();
    tess_mesh_layout_coordinates(l, rank, at);
    for (int a = 0; a < l->n_axes; a++)
        json_object_set_new(coordinates, l->names[a], json_integer(at[a]));
    json_t *object = json_pack("{s:i, s:o, s:o*}", "rank", tess_mesh_layout_at(l, rank), "coordinates", coordinates,
                               "at", for_people ? tess_json_ints(at, l->n_axes) : NULL);
    if (with_host)
        json_object_set_new(object, "host", tess_json_text(host_of(view, rank)));
    return object;
}

/* ---- The picture ---- */
/* Writes the hosts of places [first, first + n), each once: "h1" or "h1,h2". */
static void write_hosts(const tess_mesh_view *view, int first, int n, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int place = first; place < first + n; place++) {
        const int host = tess_mesh_layout_host(view->layout, place);
        bool listed = false;
        for (int p = place - 1; p >= first && !listed; p--)
            listed = tess_mesh_layout_host(view->layout, p) == host;
        if (!listed)
            at = tess_text_add(text, size, at, "%s%s", at > 0 ? "," : "", host_of(view, place));
    }
}

/* Describes a group of the last axis, labelled with its coordinates on the other axes. There is a gap where one of
 * those axes, except the last of them, restarts. */
static json_t *describe_row(const tess_mesh_view *view, int first, bool with_hosts)
{
    const tess_mesh_layout *l = view->layout;
    const int last = l->n_axes - 1, n = l->sizes[last];
    int at[TESS_MESH_MAX_AXES];
    char label[TESS_MESH_MAX_AXES * (TESS_MESH_NAME_SIZE + 16)] = "", hosts[256] = "";
    size_t end = 0;
    json_t *ranks = json_array();
    tess_mesh_layout_coordinates(l, first, at);
    for (int a = 0; a < last; a++)
        end = tess_text_add(label, sizeof(label), end, "%s%s %*d", a > 0 ? " " : "", l->names[a],
                            snprintf(NULL, 0, "%d", l->sizes[a] - 1), at[a]);
    for (int i = 0; i < n; i++)
        json_array_append_new(ranks, json_integer(tess_mesh_layout_at(l, first + i)));
    if (with_hosts)
        write_hosts(view, first, n, hosts, sizeof(hosts));
    return json_pack("{s:b, s:s, s:o, s:o}", "gap", last >= 2 && at[last - 1] == 0, "label", label, "ranks", ranks,
                     "hosts", tess_json_text(hosts));
}

/* Adds what only people are told. */
static void add_picture(const tess_mesh_view *view, bool several_hosts, json_t *json)
{
    const tess_mesh_layout *l = view->layout;
    const int n = l->sizes[l->n_axes - 1];
    json_t *columns = json_array(), *rows = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(columns, json_integer(i));
    for (int first = 0; first < l->size; first += n)
        json_array_append_new(rows, describe_row(view, first, several_hosts));
    json_object_update_new(json, json_pack("{s:b, s:s, s:b, s:s, s:o, s:o, s:b}", "several_hosts", (int)several_hosts,
                                           "number", l->ranks != NULL ? "place" : "rank", "ordered", l->ranks != NULL,
                                           "last", l->names[l->n_axes - 1], "columns", columns, "rows", rows,
                                           "measured", view->n_speeds > 0));
}

json_t *tess_mesh_view_json(const tess_mesh_view *view, bool for_people)
{
    const int n_hosts = count_hosts(view->layout);
    json_t *axes = json_array(), *grid = json_array(), *ranks = json_array();
    for (int a = 0; a < view->layout->n_axes; a++) {
        json_array_append_new(grid, describe_axis(view, a, for_people));
        if (view->axis < 0 || view->axis == a)
            json_array_append(axes, json_array_get(grid, (size_t)a));
    }
    for (int rank = 0; rank < view->layout->size; rank++)
        json_array_append_new(
            ranks, describe_rank(view, rank, for_people, for_people ? n_hosts > 1 : view->layout->hosts != NULL));
    json_t *json = json_pack("{s:i, s:i, s:i, s:o, s:o}", "version", 1, "world", view->layout->size, "hosts", n_hosts,
                             "axes", axes, "ranks", ranks);
    if (for_people) {
        json_object_set(json, "grid", grid);
        add_picture(view, n_hosts > 1, json);
    }
    json_decref(grid);
    return json;
}
