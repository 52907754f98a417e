# under_mpi.sh openmpi|mpich|hosts TESSERA PROGRAM PROJECT: runs a test program with its ranks started by MPI; on hosts made
# of network namespaces also with one rank and with three, which they share unequally. 77: something is missing here.
how=$1 tessera=$2 program=$3 project=$4

need() { command -v "$1" >/dev/null || { echo "SKIPPED: $1 is missing (Debian package: $2)"; exit 77; }; }

export TESS_TEST_TESSERA=$tessera
case $how in
openmpi)
    need mpirun.openmpi openmpi-bin
    export TESS_TEST_MPI="mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -np %d"
    ;;
mpich)
    need mpirun.mpich mpich
    export TESS_TEST_MPI="mpirun.mpich -n %d"
    ;;
hosts)
    need mpirun.openmpi openmpi-bin
    export TESS_HOSTS_PREFIX=t$$
    "$project/tools/hosts" up 2 || exit $?
    trap '"$project/tools/hosts" down' EXIT
    export TESS_TEST_MPI="$project/tools/hosts mpirun -np %d"
    ;;
esac
"$program"
