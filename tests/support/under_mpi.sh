# under_mpi.sh openmpi|mpich|hosts|tcp TESSERA PROGRAM PROJECT [FILTER]: runs a test program with its ranks started by MPI; on
# hosts that is two network namespaces, which share the ranks. With tcp there is no MPI. 77: something is missing here.
how=$1 tessera=$2 program=$3 project=$4

skip() { echo "SKIPPED: $*"; exit 77; }
need() { # MPI PACKAGE
    command -v "mpirun.$1" >/dev/null || skip "mpirun.$1 is missing (Debian package: $2)"
    [ -e "$(dirname "$tessera")/libtessera_mpi_$1.so" ] || skip "this build has no plug-in for $1"
}

export TESS_TEST_TESSERA=$tessera
export LD_LIBRARY_PATH=$(dirname "$tessera")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} # the plug-ins lie beside the command, not beside the test
# After a failed job mpirun gives processes time to end; here all have, or will not.
quick="-q --mca odls_base_sigkill_timeout 0"
case $how in
openmpi)
    need openmpi openmpi-bin
    export TESS_TEST_MPI="mpirun.openmpi $quick --allow-run-as-root --oversubscribe --bind-to none -x TESS_TEST_PASSED -np %d"
    ;;
mpich)
    need mpich mpich
    export TESS_TEST_MPI="mpirun.mpich -n %d"
    ;;
tcp) export TESS_TEST_MPI="bash $project/tests/support/over_tcp.sh %d" TESS_TEST_RANKS=${TESS_TEST_RANKS:-4} ;;
hosts)
    need openmpi openmpi-bin
    export TESS_HOSTS_PREFIX=t$$ TESS_HOSTS_OWNER=$$
    "$project/tools/hosts" up 2 || exit $?
    trap '"$project/tools/hosts" down' EXIT
    export TESS_TEST_MPI="$project/tools/hosts mpirun --mpi-args '$quick' -np %d"
    ;;
esac
"$program" "${@:5}"
