/* A mesh as text: its shape, its ranks, and their hosts. */
#include <stdarg.h>
#include <stdio.h>

#include "mesh/mesh_impl.h"

/* snprintf at `at`; returns where the text would end in a buffer that is large enough. */
static size_t append(char *text, size_t size, size_t at, const char *format, ...) __attribute__((format(printf, 4, 5)));
static size_t append(char *text, size_t size, size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(at < size ? text + at : NULL, at < size ? size - at : 0, format, args);
    va_end(args);
    return at + (n > 0 ? (size_t)n : 0);
}

bool tess_mesh_axis_crosses_hosts(const tess_mesh *mesh, int axis)
{
    if (axis < 0 || axis >= mesh->n_axes)
        return false;
    int stride = 1; /* of the axis: distance of neighbours in row-major order */
    for (int a = axis + 1; a < mesh->n_axes; a++)
        stride *= mesh->sizes[a];
    for (int rank = 0; rank < mesh->size; rank++) {
        int coordinate = rank / stride % mesh->sizes[axis];
        if (mesh->hosts[rank] != mesh->hosts[rank - coordinate * stride])
            return true;
    }
    return false;
}

/* The job's ranks of the mesh on one host as ranges: "0-3", or "0-1, 4-5". */
static size_t append_ranks(const tess_mesh *mesh, int host, char *text, size_t size, size_t at)
{
    int begin = -1, last = -1;
    for (int rank = 0; rank <= mesh->size; rank++) {
        bool here = rank < mesh->size && mesh->hosts[rank] == host;
        int number = here ? tess_team_global_rank(mesh->all, rank) : -1;
        if (here && begin >= 0 && number == last + 1) {
            last = number;
            continue;
        }
        if (begin >= 0 && (here || rank == mesh->size)) {
            at = append(text, size, at, begin == last ? "%d" : "%d-%d", begin, last);
            at = append(text, size, at, here ? ", " : "");
        }
        if (here)
            begin = last = number;
    }
    return at;
}

/* Appends a line that lists the hosts, and says which axes cross them. Nothing on one host. */
static size_t append_hosts(const tess_mesh *mesh, char *text, size_t size, size_t at)
{
    const char *separator = "\n  hosts";
    bool one_host = true;
    for (int rank = 1; rank < mesh->size; rank++)
        one_host &= mesh->hosts[rank] == mesh->hosts[0];
    if (one_host)
        return at;
    for (int rank = 0; rank < mesh->size; rank++) {
        bool listed = false; /* with an earlier rank of this host */
        for (int r = 0; r < rank; r++)
            listed |= mesh->hosts[r] == mesh->hosts[rank];
        if (listed)
            continue;
        const char *name = tess_runtime_host_name(mesh->runtime, mesh->hosts[rank]);
        at = append(text, size, at, "%s %s: ranks ", separator, name);
        at = append_ranks(mesh, mesh->hosts[rank], text, size, at);
        separator = ",";
    }
    separator = ";";
    for (int a = 0; a < mesh->n_axes; a++) {
        if (mesh->sizes[a] == 1)
            continue;
        at = append(text, size, at, "%s %s %s", separator, mesh->names[a],
                    tess_mesh_axis_crosses_hosts(mesh, a) ? "crosses hosts" : "stays inside a host");
        separator = ",";
    }
    return at;
}

int tess_mesh_format(const tess_mesh *mesh, char *text, size_t size)
{
    size_t at = append(text, size, 0, "mesh");
    for (int a = 0; a < mesh->n_axes; a++)
        at = append(text, size, at, a > 0 ? " x %d" : " %d", mesh->sizes[a]);
    for (int a = 0; a < mesh->n_axes; a++)
        at = append(text, size, at, a > 0 ? ", %s" : " (%s", mesh->names[a]);
    at = append(text, size, at, ")");
    at = append_hosts(mesh, text, size, at);
    /* One line for each team of the last axis, named by the coordinates of the others. */
    int last = mesh->n_axes - 1;
    for (int rank = 0; rank < mesh->size; rank++) {
        int coordinates[TESS_MESH_MAX_AXES];
        tess_mesh_coordinates(mesh, rank, coordinates);
        if (coordinates[last] == 0) {
            at = append(text, size, at, "\n  ");
            for (int a = 0; a < last; a++)
                at = append(text, size, at, a > 0 ? ", %s %d" : "%s %d", mesh->names[a], coordinates[a]);
            at = append(text, size, at, last > 0 ? ": ranks" : "ranks");
        }
        at = append(text, size, at, " %d", tess_team_global_rank(mesh->all, rank));
    }
    return (int)at;
}
