#!/usr/bin/env bash
# `tessera doctor env`: which variables are known, which values are accepted, and the exit codes.
. "$(dirname "$0")/support.sh"
export XDG_CONFIG_HOME=$work/config

printf 'NCCL_TIMEOUT=3600\nNCCL_DEBUG=WARN\n' >void.env
printf 'export NCCL_DEBUG=INFO\n' >fine.env
expect "advice that does nothing" 3 "void     NCCL_TIMEOUT=3600" "$tessera" doctor env --file void.env
expect "nothing to correct" 0 "fine     NCCL_DEBUG=INFO" "$tessera" doctor env --file fine.env
expect "its own environment" 3 "wrong    NCCL_DEBUG=ERROR" env NCCL_DEBUG=ERROR "$tessera" doctor env
expect "a variable by its name" 0 "unset    NCCL_DEBUG" env -u NCCL_DEBUG "$tessera" doctor env NCCL_DEBUG NCCL_IB_HCA
grep -qF "NCCL: how much NCCL prints" output && grep -qF "NCCL_IB_HCA" output && pass "is explained" || fail "$(cat output)"
expect "with its value" 3 "wrong    NCCL_DEBUG=ERROR" env NCCL_DEBUG=ERROR "$tessera" doctor env NCCL_DEBUG
expect "one that nobody reads" 3 "did you mean NCCL_DEBUG?" "$tessera" doctor env NCCL_DEBUGG
expect "one of no library" 2 "no library of distributed training is known" "$tessera" doctor env FOO
expect "the other names are answered" 2 "unset    NCCL_DEBUG" "$tessera" doctor env NCCL_DEBUG FOO
expect "in any order" 2 "unset    NCCL_DEBUG" "$tessera" doctor env FOO NCCL_DEBUG
expect "a process that is not there" 2 "/proc/2147483647/environ" "$tessera" doctor env --pid 2147483647
expect "two environments" 2 "name one environment" "$tessera" doctor env --pid 1 --file fine.env
expect "variables as JSON" 3 '"grade": "void"' "$tessera" doctor env --json --file void.env
printf '\001\377\000x' >random.env
expect "no variable in a file" 2 "no line NAME=VALUE is in it" "$tessera" doctor env --file random.env
printf 'UCX_TLS=foo\nCUDA_VISIBLE_DEVICES=0,1,x\n' >wrong.env
expect "a transport that is none" 3 "wrong    UCX_TLS=foo" "$tessera" doctor env --file wrong.env
expect "a GPU that is none" 3 "wrong    CUDA_VISIBLE_DEVICES=0,1,x" "$tessera" doctor env --file wrong.env

cat >names.env <<'ENV'
NCCL_SOCKET_RCVBUF=4194304
NCCL_MIN_P2P_NCHANNELS=8
NCCL_IB_QUERY_PORT_SPEED=1
OFI_NCCL_PROTOCOL=RDMA
RCCL_MSCCL_ENABLE=0
FI_EFA_FORK_SAFE=1
SHARP_COLL_ENABLE_SAT=1
NVSHMEM_SYMMETRIC_SIZE=2G
MELLANOX_VISIBLE_DEVICES=all
ENV
expect "names that only sources have" 0 "9 of 9 variables concern distributed training" "$tessera" doctor env --file names.env
grep -q '^unknown' output && fail "$(cat output)" || pass "all of them are known"
printf 'NCCL_NOT_YET=1\nFI_NOT_YET=1\nGLOO_NOT_YET=1\n' >newer.env
expect "names of a newer version" 0 "not in the registry; to check it: NCCL_DEBUG=INFO" "$tessera" doctor env --file newer.env
grep -qF "nobody reads" output && fail "$(cat output)" || pass "nothing is claimed of them"
expect "another library's prefix" 3 "did you mean UCX_TLS?" "$tessera" doctor env UCT_TLS

printf 'NCCL_IB_TIMEOUT=2\nUCX_TLS=rc\nNCCL_BLOCKING_WAIT=1\nNCCL_ASYNC_ERROR_HANDLING=1\n' >risky.env
expect "values that are accepted and dangerous" 3 "0 wrong, 0 void, 3 risky, 1 conflict" "$tessera" doctor env \
    --file risky.env
grep -q '^risky    NCCL_IB_TIMEOUT=2' output && grep -q '^risky    UCX_TLS=rc' output && pass "each is named" ||
    fail "$(cat output)"
expect "as JSON" 3 '"grade": "risky"' "$tessera" doctor env --json --file risky.env

cat >job.sh <<'SH'
#!/bin/bash
: "${NCCL_DEBUG:=ERROR}"
export NCCL_IB_TIMEOUT=${NCCL_IB_TIMEOUT:-2} NCCL_BUFFSIZE=$SIZE
NCCL_P2P_DISABLE=1 torchrun train.py
SH
expect "a shell script with defaults" 3 "4 of 4 variables concern distributed training" "$tessera" doctor env --file job.sh
grep -q '^wrong    NCCL_DEBUG=ERROR' output && grep -q '^risky    NCCL_IB_TIMEOUT=2' output &&
    grep -q '^risky    NCCL_P2P_DISABLE=1' output && grep -q '^fine     NCCL_BUFFSIZE=[$]SIZE' output &&
    pass "its values" || fail "$(cat output)"
expect "names with values" 3 "0 void, 1 risky" "$tessera" doctor env NCCL_IB_TIMEOUT=2 NCCL_DEBUG=INFO UCX_NET_DEVICES
grep -q '^fine     NCCL_DEBUG=INFO' output && grep -qF 'UCX: network devices' output && pass "each is explained" ||
    fail "$(cat output)"

# ---- A slip in one of our own names is named at the start, once for all ranks
expect "our own variable" 0 "where the model computes" "$tessera" doctor env TESSERA_DEVICE
expect "a slip in one of our names" 3 "did you mean TESSERA_DEVICE?" "$tessera" doctor env TESSERA_DEVCE=cpu
env TESSERA_DEVCE=cpu "$tessera" run -n 2 -- "$tessera" info >slip.out 2>slip.txt
env TESSERA_ALERT_TEXT=x TESSERA_SAVES=5 TESSERA_LIVES_BEFORE=1 "$tessera" info >plain.out 2>plain.txt
slip='tessera: warning: TESSERA_DEVCE is set, but nobody reads a variable of this name: did you mean TESSERA_DEVICE?'
[ "$(cat slip.txt)" = "$slip" ] && pass "it is named once" || fail "it is named once: $(cat slip.txt)"
[ -s plain.out ] && [ ! -s plain.txt ] && pass "variables that Tessera sets are none" || fail "ours: $(cat plain.txt)"
finish
