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
slurmDir is the path at which the head and the hosts see the directory slurm of the cluster's state directory. A test
cluster with Slurm also runs:

	head   munged, slurmctld; sbatch, salloc and scancel are called here
	n1..   slurmd; a job's script and its steps run here

All files of Slurm are in slurmDir: the configuration, the key, the socket of the only munged, spool
directories and logs. The machine's own /etc/slurm is not used, and none of its services is started. Each
host has four CPUs for Slurm, regardless of the number of CPUs of the machine.
*/
const slurmDir = "/etc/slurm"

// SlurmCPUs is the number of CPUs that Slurm allocates on each host.
const SlurmCPUs = 4

// slurmPrograms are the programs that a test cluster with Slurm needs. The Debian packages slurm-wlm and munge
// contain them.
var slurmPrograms = []string{"munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol"}

// NoSlurm returns an error that says why root cannot run a test cluster with Slurm on this machine. It returns nil
// if root can.
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

// slurmFiles returns the files in the directory slurm of the state directory.
func (f *Cluster) slurmFiles() []file {
	return []file{
		{"slurm/slurm.conf", 0o644, f.slurmConf()},
		// With the plugin set, Slurm does not detect one, and accepts that the controllers are missing.
		{"slurm/cgroup.conf", 0o644, "CgroupPlugin=cgroup/v1\n"},
		{"slurm/munge.key", 0o600, rand.Text() + rand.Text()},
		{"slurm/state/README", 0o600, "slurmctld's\n"},
		{"slurm/spool/README", 0o600, "slurmd's, one folder for each host\n"},
	}
}

// slurmConf returns the contents of slurm.conf(5). The configuration uses neither control groups nor affinity,
// because the hosts of the cluster share the machine's control groups and CPUs. Slurm finds the processes of a
// step by their parent processes.
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
		"SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1", // without bf_interval, heterogeneous jobs wait 30 s
		"ReturnToService=2",
		"KillWait=120",
		fmt.Sprintf("NodeName=n[1-%d] CPUs=%d State=UNKNOWN", len(f.Hosts), SlurmCPUs),
		"PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
	}
	return strings.Join(lines, "\n") + "\n"
}

// upSlurm starts Slurm's daemons, and waits until all hosts accept jobs. The command that starts a daemon returns
// only when the daemon is ready.
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

// StartSlurmd starts slurmd on a host. It may be called again after slurmd was killed.
func (f *Cluster) StartSlurmd(ctx context.Context, host string) error {
	return runWithOutput(f.On(ctx, host, "slurmd", "-N", host, "-f", slurmDir+"/slurm.conf"))
}

// runWithOutput runs a command. If it fails, the error contains the command's output.
func runWithOutput(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("%q: %w", cmd.Args, err), errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}
