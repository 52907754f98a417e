/* Formats a mesh as text: its shape, its ranks, and their hosts. */
#include <stdio.h>
#include <stdlib.h>

#include "mesh/mesh_impl.h"

bool tess_mesh_axis_crosses_hosts(const tess_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->grid.n_axes && tess_mesh_layout_crosses(&mesh->grid, axis);
}

/* Prints the ranks of the mesh on one host, numbered as in the job, as ranges: "0-3", or "0-1, 4-5". */
static void print_ranks(const tess_mesh *mesh, int host, FILE *out)
{
    int begin = -1, last = -1;
    for (int rank = 0; rank <= mesh->grid.size; rank++) {
        bool here = rank < mesh->grid.size && mesh->grid.hosts[rank] == host;
        int number = here ? tess_team_global_rank(mesh->all, rank) : -1;
        if (here && begin >= 0 && number == last + 1) {
            last = number;
            continue;
        }
        if (begin >= 0 && (here || rank == mesh->grid.size)) {
            fprintf(out, begin == last ? "%d" : "%d-%d", begin, last);
            fputs(here ? ", " : "", out);
        }
        if (here)
            begin = last = number;
    }
}

/* Prints a line that lists the hosts and the axes that cross them. Prints nothing if there is one host. */
static void print_hosts(const tess_mesh *mesh, FILE *out)
{
    const char *separator = "\n  hosts";
    bool one_host = true;
    for (int rank = 1; rank < mesh->grid.size; rank++)
        one_host &= mesh->grid.hosts[rank] == mesh->grid.hosts[0];
    if (one_host)
        return;
    for (int rank = 0; rank < mesh->grid.size; rank++) {
        bool listed = false; /* whether an earlier rank of this host has listed it */
        for (int r = 0; r < rank; r++)
            listed |= mesh->grid.hosts[r] == mesh->grid.hosts[rank];
        if (listed)
            continue;
        const char *name = tess_runtime_host_name(mesh->runtime, mesh->grid.hosts[rank]);
        fprintf(out, "%s %s: ranks ", separator, name);
        print_ranks(mesh, mesh->grid.hosts[rank], out);
        separator = ",";
    }
    separator = ";";
    for (int a = 0; a < mesh->grid.n_axes; a++) {
        if (mesh->grid.sizes[a] == 1)
            continue;
        fprintf(out, "%s %s %s", separator, mesh->grid.names[a],
                tess_mesh_axis_crosses_hosts(mesh, a) ? "crosses hosts" : "stays inside a host");
        separator = ",";
    }
}

int tess_mesh_format(const tess_mesh *mesh, char *text, size_t size)
{
    char *whole = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&whole, &n);
    if (out == NULL)
        return -1;
    fputs("mesh", out);
    for (int a = 0; a < mesh->grid.n_axes; a++)
        fprintf(out, a > 0 ? " x %d" : " %d", mesh->grid.sizes[a]);
    for (int a = 0; a < mesh->grid.n_axes; a++)
        fprintf(out, a > 0 ? ", %s" : " (%s", mesh->grid.names[a]);
    fprintf(out, ")");
    print_hosts(mesh, out);
    /* One line for each team of the last axis, named by the coordinates of the others. */
    int last = mesh->grid.n_axes - 1;
    for (int rank = 0; rank < mesh->grid.size; rank++) {
        int coordinates[TESS_MESH_MAX_AXES];
        tess_mesh_coordinates(mesh, rank, coordinates);
        if (coordinates[last] == 0) {
            fprintf(out, "\n  ");
            for (int a = 0; a < last; a++)
                fprintf(out, a > 0 ? ", %s %d" : "%s %d", mesh->grid.names[a], coordinates[a]);
            fprintf(out, last > 0 ? ": ranks" : "ranks");
        }
        fprintf(out, " %d", tess_team_global_rank(mesh->all, rank));
    }
    fclose(out);
    snprintf(text, size, "%s", whole != NULL ? whole : "");
    free(whole);
    return (int)n;
}
