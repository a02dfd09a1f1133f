# shellcheck shell=bash
# Configuration files of the cluster. Sourced by testcluster.sh, which sets DIR and SLURM_CONF.

free_ports() { # prints the first of four consecutive free ports: other clusters may be running
    local first port
    for first in {16800..16990..10}; do
        for port in $(seq "$first" $((first + 3))); do
            ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue 2
        done
        echo "$first"
        return
    done
    die 1 "found no four free ports from 16800 to 16993"
}

write_configuration() {
    local host port
    port=$(free_ports)
    host=$(uname -n | cut -d. -f1)
    mkdir -p "$DIR"/{run,log,munge,state}
    install -d -m 700 "$DIR/mysql"
    touch "$DIR/.testcluster"
    # One GPU per node that can be allocated and is accounted for, without a device.
    echo "NodeName=n[1-2] Name=gpu File=/dev/null" >"$DIR/gres.conf"
    # slurmd needs a cgroup plugin even if cgroups are not used; this one starts in any container.
    echo "CgroupPlugin=cgroup/v1" >"$DIR/cgroup.conf"
    cat >"$SLURM_CONF" <<CONF
ClusterName=lprime
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# cred_expire is also how long a requeued job waits before it may start again; default two minutes.
AuthInfo=socket=$DIR/munge/socket,cred_expire=5
StateSaveLocation=$DIR/state
SlurmctldPidFile=$DIR/run/slurmctld.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdSpoolDir=$DIR/spool-%n
SlurmdPidFile=$DIR/run/%n.pid
SlurmdLogFile=$DIR/log/%n.log
# Use the CPUs and memory given below, whatever this machine has.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=30
KillWait=5
MinJobAge=300
JobRequeue=1
MaxArraySize=1001
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# Limits and names are enforced, so that sbatch refuses jobs as on a site: unknown accounts, too many jobs, too long a time.
EnforcePartLimits=ALL
AccountingStorageEnforce=associations,limits,qos
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 1))
AccountingStoragePass=$DIR/munge/socket
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
GresTypes=gpu
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 2))-$((port + 3))] CPUs=2 RealMemory=64000 Gres=gpu:1
PartitionName=DEFAULT Nodes=n[1-2] DefaultTime=10
PartitionName=main Default=YES PriorityTier=5 PreemptMode=OFF
PartitionName=short PriorityTier=5 PreemptMode=OFF MaxTime=2
PartitionName=low PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=high PriorityTier=10 PreemptMode=OFF
CONF
    install -m 600 /dev/stdin "$DIR/slurmdbd.conf" <<CONF
DbdHost=localhost
DbdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$DIR/munge/socket
PidFile=$DIR/run/slurmdbd.pid
LogFile=$DIR/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
CONF
}
