#!/usr/bin/env bash
# A real SLURM on this machine, for tests: two nodes, accounting, preemption. See README.md in this folder.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
SCRIPT=$(realpath "$0")
DEFAULT=/tmp/lprime-testcluster
NODES=(n1 n2)
CORE=(munged mariadbd slurmdbd slurmctld) # in order of their dependencies
PACKAGES=(slurmctld slurmd slurm-client munge slurmdbd mariadb-server)
PATIENCE=90 # seconds for any one step of starting, on a busy machine

usage() {
    cat <<USAGE
usage: testcluster.sh start|stop|status|logs [DIR]       all files are in DIR, by default $DEFAULT
       testcluster.sh kill-node|start-node NAME [DIR]    NAME is one of: ${NODES[*]}
USAGE
}

die() { # CODE WORDS...
    echo "testcluster: ${*:2}" >&2
    exit "$1"
}

wait_for() { # WHAT COMMAND...
    local last=$((SECONDS + PATIENCE))
    until "${@:2}" >/dev/null 2>&1; do
        [ $SECONDS -lt $last ] || die 1 "gave up after $PATIENCE s of waiting for $1"
        sleep 0.2
    done
}

# ---------------------------------------------------------------------------------------------- processes of this cluster

# Our daemons keep a log in DIR open, even if DIR was deleted meanwhile. That includes slurmstepd, which detaches from its slurmd
# and overwrites its environment. Checking their names too excludes, for example, a `tail -f` of a log.
daemons() { # [NODE]
    local pid name
    { find /proc/[0-9]*/fd -lname "$DIR/log/${1:-*}.log*" 2>/dev/null || true; } | cut -d/ -f3 | sort -un | while read -r pid; do
        name=$(cat "/proc/$pid/comm" 2>/dev/null) || continue
        case $name in munged | mariadbd | slurm*) echo "$name $pid" ;; esac
    done | sort | cut -d' ' -f2 # slurmd before slurmstepd, so that nothing reports the end of a step
}

# Processes of jobs whose slurmstepd has ended: SLURM sets both variables for a task, and nothing else sets the second.
orphans() { # [NODE]
    grep -lzxF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ 2>/dev/null |
        xargs -r grep -lzx "SLURMD_NODENAME=${1:-.*}" 2>/dev/null | cut -d/ -f3 || true
}

with_children() { # PID...; parents first
    local -a wave=("$@")
    while [ ${#wave[@]} -gt 0 ]; do
        printf '%s\n' "${wave[@]}"
        mapfile -t wave < <(ps -o pid= --ppid "$(IFS=, && echo "${wave[*]}")" | tr -d ' ')
    done
}

members() { # [NODE]
    local -a found
    mapfile -t found < <(daemons "$@" && orphans "$@")
    with_children "${found[@]}"
}

kill_members() { # [NODE]; repeated until none is left, as a process may fork during the search
    local -a found
    local pass
    for pass in {1..50}; do
        mapfile -t found < <(members "$@")
        [ ${#found[@]} -gt 0 ] || return 0
        kill -KILL "${found[@]}" 2>/dev/null || true
        sleep 0.1
    done
    die 1 "could not kill after $pass attempts: ${found[*]}"
}

is_alive() { # DAEMON
    local pid
    pid=$(cat "$DIR/run/$1.pid" 2>/dev/null) && [ -n "$pid" ] && [[ " $(daemons "$1" | xargs) " == *" $pid "* ]]
}

are_alive() { # DAEMON...
    local daemon
    for daemon in "$@"; do is_alive "$daemon" || return 1; done
}

is_up() {
    are_alive "${CORE[@]}" "${NODES[@]}" && scontrol ping >/dev/null 2>&1 && ! sinfo -hN -o %T | grep -qE 'down|inval|unk|[*]'
}

# ------------------------------------------------------------------------------------------------------ files and packages

# DIR is deleted as a whole, so it must be empty or created by this script.
check_folder() {
    [[ $DIR =~ ^/[A-Za-z0-9/._+-]{1,59}$ ]] ||
        die 2 "cannot use '$DIR'; expected a path of at most 60 letters, digits and ._+- (it is written into slurm.conf and sockets)"
    [ ! -e "$DIR" ] || [ -e "$DIR/.testcluster" ] || { [ -d "$DIR" ] && [ -z "$(ls -A "$DIR")" ]; } ||
        die 2 "'$DIR' was not created by this script; expected a folder that is empty or does not exist"
    [ ! -e "$DIR" ] || [ -O "$DIR" ] || die 2 "'$DIR' belongs to somebody else"
}

install_packages() {
    local program
    for program in munged mungekey mariadbd mariadb-install-db slurmdbd slurmctld slurmd sbatch; do
        command -v "$program" >/dev/null && continue
        command -v apt-get >/dev/null || die 2 "no $program here, and no apt-get to install ${PACKAGES[*]}; expected Debian or Ubuntu"
        echo "testcluster: installing ${PACKAGES[*]}"
        # RUNLEVEL: packages must not start services. 9>&-: anything they start anyway must not inherit our lock.
        apt-get update -qq 9>&-
        DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" >/dev/null 9>&-
        return
    done
}

# shellcheck source=configuration.sh
. "$(dirname "$SCRIPT")/configuration.sh"

# ------------------------------------------------------------------------------------------------------------- daemons

launch() { # COMMAND...; in a clean environment, without our terminal and our lock
    (cd "$DIR" && exec env -i PATH="$PATH" SLURM_CONF="$SLURM_CONF" MYSQL_UNIX_PORT="$DIR/run/mysql.sock" setsid "$@") \
        </dev/null >>"$DIR/log/start.log" 2>&1 9>&-
}

start_munged() {
    mungekey --create --keyfile="$DIR/munge/key"
    launch munged --key-file="$DIR/munge/key" --socket="$DIR/munge/socket" --seed-file="$DIR/munge/seed" \
        --pid-file="$DIR/run/munged.pid" --log-file="$DIR/log/munged.log"
    wait_for "munged" munge -n -S "$DIR/munge/socket"
}

start_mariadbd() { # no network, files only in DIR, fast rather than durable: it never outlives a test run
    local -a options=(--no-defaults --user=root --datadir="$DIR/mysql" --tmpdir="$DIR/mysql"
        --innodb-log-file-size=8M --innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=0)
    # --force: it fails if it cannot resolve this host's name, which is not needed here.
    launch mariadb-install-db "${options[@]}" --force --auth-root-authentication-method=socket --skip-test-db
    launch setsid --fork mariadbd "${options[@]}" --skip-networking --socket="$DIR/run/mysql.sock" \
        --pid-file="$DIR/run/mariadbd.pid" --log-error="$DIR/log/mariadbd.log"
    wait_for "mariadbd" mariadb --no-defaults --socket="$DIR/run/mysql.sock" -e "CREATE DATABASE IF NOT EXISTS slurm"
}

start_accounting() { # before slurmctld, which needs it to start
    launch slurmdbd
    wait_for "slurmdbd" sacctmgr -n show cluster
    {
        sacctmgr -i add cluster lprime
        sacctmgr -i add account lab
        sacctmgr -i add user root account=lab
        sacctmgr -i modify user root set DefaultAccount=lab
    } >>"$DIR/log/start.log" 2>&1
}

start_slurmd() { # NODE
    launch slurmd -N "$1"
}

nodes_are_idle() {
    [ "$(sinfo -hN -p main -o %T | sort | uniq -c | xargs)" = "${#NODES[@]} idle" ]
}

# ------------------------------------------------------------------------------------------------------------ commands

export_line() {
    echo "export SLURM_CONF=$SLURM_CONF"
}

clear_away() {
    kill_members
    rm -rf "$DIR"
}

failed_start() {
    logs >&2
    clear_away
    echo "testcluster: did not start; the ends of its logs are above" >&2
}

start() {
    local node
    if are_alive "${CORE[@]}"; then
        echo "testcluster: already running in $DIR"
        for node in "${NODES[@]}"; do
            is_alive "$node" || { echo "testcluster: starting node $node again" && start_slurmd "$node"; }
        done
        wait_for "both nodes to answer" is_up
        export_line
        return
    fi
    [ -z "$(members)" ] && [ ! -e "$DIR" ] || echo "testcluster: clearing away a cluster that was killed, in $DIR"
    clear_away
    install_packages
    trap 'failed_start' EXIT # on any failure
    trap 'exit 130' INT      # otherwise bash continues if the command it waits for ignores the signal, as daemons do
    trap 'exit 143' TERM
    write_configuration
    start_munged
    start_mariadbd
    start_accounting
    launch slurmctld
    for node in "${NODES[@]}"; do start_slurmd "$node"; done
    wait_for "both nodes to be idle" nodes_are_idle
    trap - EXIT INT TERM
    echo "testcluster: running in $DIR, in $SECONDS s"
    export_line
}

stop() {
    if [ -z "$(members)" ] && [ ! -e "$DIR" ]; then
        echo "testcluster: nothing to stop in $DIR"
        return
    fi
    clear_away
    echo "testcluster: stopped, and $DIR deleted"
}

status() { # exit code 1 if it is not up
    local daemon
    for daemon in "${CORE[@]}" "${NODES[@]}"; do
        if is_alive "$daemon"; then echo "$daemon: alive"; else echo "$daemon: not running"; fi
    done
    is_up || die 1 "not running in $DIR"
    sinfo
    squeue
    export_line
}

logs() {
    tail -n 20 "$DIR"/log/*.log 2>/dev/null || die 1 "no logs in $DIR"
}

kill_node() { # NODE; its slurmd and all its jobs at once, as in a power failure
    [ -n "$(members "$1")" ] || die 1 "node $1 is not running in $DIR"
    kill_members "$1"
}

start_node() { # NODE
    is_alive slurmctld || die 1 "not running in $DIR"
    ! is_alive "$1" || die 1 "node $1 is already running"
    start_slurmd "$1"
    wait_for "node $1" is_alive "$1"
}

main() {
    local command=${1:-}
    [ $# -eq 0 ] || shift
    case $command in
    start | stop | status | logs) ;;
    kill-node | start-node)
        [[ " ${NODES[*]} " == *" ${1:-} "* && -n ${1:-} ]] || die 2 "$command: no node '${1:-}'; expected one of: ${NODES[*]}"
        local node=$1
        shift
        ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && die 2 "no command '$command'" ;;
    esac
    [ $# -le 1 ] || die 2 "$command: one DIR expected, got: $*"
    [ "$(id -u)" = 0 ] || die 2 "needs root, to install packages and manage daemons; this is $(id -un)"
    DIR=$(realpath -m "${1:-$DEFAULT}")
    export SLURM_CONF=$DIR/slurm.conf
    check_folder
    # One command at a time on this machine, since clusters look for free ports. The lock is on /tmp, so no lock file is left.
    [[ $command == status || $command == logs ]] || { exec 9</tmp && flock 9; }
    "${command//-/_}" ${node:+"$node"}
}

main "$@"; exit # on one line, because this file may change while it runs
