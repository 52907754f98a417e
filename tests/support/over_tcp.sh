#!/usr/bin/env bash
# over_tcp.sh N COMMAND...: N ranks with torchrun's variables, on two hosts that are names on this machine's loopback. As
# under mpirun, the first error ends all others; it is the exit code.
set -m
n=$1 half=$((($1 + 1) / 2)) code=0
shift
[ "$n" -gt 1 ] || exec "$@"
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 12000)) WORLD_SIZE=$n TESSERA_IFNAME=lo
export TESSERA_SECRET=${TESSERA_SECRET:-$RANDOM-$RANDOM-$RANDOM-$RANDOM-the-job}
for ((rank = 0; rank < n; rank++)); do
    host=$((rank >= half))
    RANK=$rank TESSERA_HOST=h$((host + 1)) GROUP_RANK=$host GROUP_WORLD_SIZE=2 LOCAL_RANK=$((rank - host * half)) \
        LOCAL_WORLD_SIZE=$((host ? n - half : half)) "$@" </dev/null &
done
for ((left = n; left > 0; left--)); do
    wait -n -p ended_pid
    ended=$?
    [ $ended != 0 ] && [ -n "${ended_pid:-}" ] && [ $code = 0 ] || continue
    code=$ended
    sleep 0.5
    for job in $(jobs -p); do kill -TERM -- "-$job" 2>/dev/null; done
done
exit $code
