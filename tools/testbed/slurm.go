//go:build linux

package testbed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

/*
A field with Slurm has, beside what every field has, a batch system of its own:

	head   munged, slurmctld; sbatch, salloc and scancel are called here
	n1..   slurmd; a job's script and its steps run here

All files of it are below the folder slurm of the state folder, which the head and the hosts
see as /etc/slurm: the configuration, the key, the socket of the one munged, spool folders and
logs. The machine's own /etc/slurm is not looked at, and none of its services is started. A
host claims four CPUs, whatever the machine has.
*/
const slurmDir = "/etc/slurm"

// SlurmCPUs is how many CPUs Slurm gives out on each host.
const SlurmCPUs = 4

// slurmPrograms are what a field with Slurm needs on the machine; Debian has them in the
// packages slurm-wlm and munge.
var slurmPrograms = []string{"munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol"}

// NoSlurm says why this machine cannot have a field with Slurm; nil: it can, as root.
func NoSlurm() error {
	for _, name := range slurmPrograms {
		if _, err := exec.LookPath(name); err != nil {
			if _, err := exec.LookPath("/usr/sbin/" + name); err != nil {
				return fmt.Errorf("%s is not installed; as root on Debian: testdata/install.sh", name)
			}
		}
	}
	return nil
}

// slurmFiles are those of the state folder's slurm.
func (f *Cluster) slurmFiles() []file {
	return []file{
		{"slurm/slurm.conf", 0o644, f.slurmConf()},
		// Named, it is not looked for, and what it does not find it does not miss.
		{"slurm/cgroup.conf", 0o644, "CgroupPlugin=cgroup/v1\n"},
		{"slurm/munge.key", 0o600, rand.Text() + rand.Text()},
		{"slurm/state/README", 0o600, "slurmctld's\n"},
		{"slurm/spool/README", 0o600, "slurmd's, one folder for each host\n"},
	}
}

// slurmConf is slurm.conf(5). Neither control groups nor affinity are asked for: a host is
// no container, and what holds the processes of a step is their parents.
func (f *Cluster) slurmConf() string {
	lines := []string{
		"ClusterName=field",
		"SlurmctldHost=" + Head + "(" + headAddr + ")",
		"SlurmUser=root",
		"AuthType=auth/munge",
		"AuthInfo=socket=" + slurmDir + "/munge.socket",
		"StateSaveLocation=" + slurmDir + "/state",
		"SlurmdSpoolDir=" + slurmDir + "/spool/%n",
		"SlurmctldPidFile=" + slurmDir + "/slurmctld.pid",
		"SlurmdPidFile=" + slurmDir + "/slurmd.%n.pid",
		"SlurmctldLogFile=" + slurmDir + "/slurmctld.log",
		"SlurmdLogFile=" + slurmDir + "/slurmd.%n.log",
		"ProctrackType=proctrack/linuxproc",
		"TaskPlugin=task/none",
		"SelectType=select/cons_tres",
		"SelectTypeParameters=CR_CPU",
		"JobAcctGatherType=jobacct_gather/linux",
		"JobAcctGatherFrequency=task=2",
		"SlurmdParameters=config_overrides",
		"MpiDefault=none",
		"MailProg=/bin/true",
		"SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1", // heterogeneous jobs wait for the last, else for 30 s
		"ReturnToService=2",
		"KillWait=120",
		fmt.Sprintf("NodeName=n[1-%d] CPUs=%d State=UNKNOWN", len(f.Hosts), SlurmCPUs),
		"PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
	}
	return strings.Join(lines, "\n") + "\n"
}

// upSlurm starts the daemons, each of which returns when it is ready to serve, and waits until
// all hosts are there for jobs.
func (f *Cluster) upSlurm(ctx context.Context) error {
	if err := runWithOutput(f.Command(ctx, nil, "munged", "--force", "--key-file="+slurmDir+"/munge.key", "--num-threads=2",
		"--socket="+slurmDir+"/munge.socket", "--pid-file="+slurmDir+"/munged.pid",
		"--seed-file="+slurmDir+"/munged.seed", "--log-file="+slurmDir+"/munged.log")); err != nil {
		return err
	}
	if err := runWithOutput(f.Command(ctx, nil, "slurmctld", "-f", slurmDir+"/slurm.conf")); err != nil {
		return err
	}
	for _, h := range f.Hosts {
		if err := f.StartSlurmd(ctx, h.Name); err != nil {
			return err
		}
	}
	return poll(ctx, func() (bool, error) {
		out, err := f.Command(ctx, nil, "sinfo", "-h", "-t", "idle", "-o", "%D").Output()
		return err == nil && strings.TrimSpace(string(out)) == fmt.Sprint(len(f.Hosts)), nil
	})
}

// StartSlurmd starts the slurmd of a host, also again after it was killed.
func (f *Cluster) StartSlurmd(ctx context.Context, host string) error {
	return runWithOutput(f.On(ctx, host, "slurmd", "-N", host, "-f", slurmDir+"/slurm.conf"))
}

// runWithOutput runs a command, whose error has what it said.
func runWithOutput(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("%q: %w", cmd.Args, err), errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}
