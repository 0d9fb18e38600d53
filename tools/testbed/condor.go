//go:build linux

package testbed

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

/*
CondorDir is the path at which the head and the hosts see the directory condor of the cluster's state directory. A
test cluster with HTCondor also runs:

	head   condor_master with collector, negotiator and schedd; condor_submit and condor_rm are called here
	n1..   condor_master with startd; it starts a condor_starter for each job, which runs the job's script

testdata/condor.sh has unpacked the programs into build/condor. The head and the hosts see these programs in
/usr, with the libc that the programs need. An overlay puts build/condor/usr, and the configuration as
/usr/local/etc/condor_config, over the machine's own /usr. All other files of HTCondor are in CondorDir.
HTCondor accepts no jobs from root, so CondorUser runs the daemons and all jobs. Each host offers two
CPUs to HTCondor, regardless of the number of CPUs of the machine.
*/
const CondorDir = "/usr/local/condor"

// CondorJobs is a directory for jobs that the head and all hosts share. It belongs to CondorUser.
const CondorJobs = CondorDir + "/jobs"

// CondorUser is the name of the user who runs HTCondor's daemons and jobs. CondorUID is the ID of that user.
const (
	CondorUser = "somebody"
	CondorUID  = 64123
)

var (
	//go:embed scripts/condor_config
	condorConfig string
	//go:embed scripts/condor.sh
	condorScript string
)

// condorUsr is the directory into which testdata/condor.sh unpacks HTCondor, relative to the root of the
// repository.
const condorUsr = "build/condor/usr"

// NoCondor returns an error that says why root cannot run a test cluster with HTCondor on this machine. It returns
// nil if root can.
func NoCondor() error {
	repo, err := Repo()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(repo, condorUsr, "sbin/condor_master")); err != nil {
		return fmt.Errorf("HTCondor is not unpacked; on Debian: testdata/condor.sh build/condor")
	}
	return nil
}

// condorFiles returns the files that HTCondor needs, which are in the directory condor of the state directory.
func (f *Cluster) condorFiles() []file {
	return []file{
		{"condor/start.sh", 0o644, condorScript},
		{"condor/usr/local/etc/condor_config", 0o644, condorConfig},
		{"condor/usr/local/condor/README", 0o644, "The folder condor of the cluster's state folder is mounted here.\n"},
	}
}

// condorPasswd returns the line for CondorUser in /etc/passwd.
func condorPasswd() string {
	return fmt.Sprintf("%s:x:%[2]d:%[2]d::%s/home:/bin/sh\n", CondorUser, CondorUID, CondorDir)
}

// upCondor starts HTCondor's daemons, and waits until all hosts accept jobs.
func (f *Cluster) upCondor(ctx context.Context) error {
	for _, host := range append(strings.Split(f.Names(), ","), Head) {
		if err := runWithOutput(f.On(ctx, host, "/bin/sh", CondorDir+"/start.sh")); err != nil {
			return err
		}
	}
	return poll(ctx, func() (bool, error) {
		slots, err := f.Command(ctx, nil, "condor_status", "-af", "Name").Output()
		if err != nil || strings.Count(string(slots), "\n") != len(f.Hosts) {
			return false, nil
		}
		schedd, err := f.Command(ctx, nil, "condor_status", "-schedd", "-af", "Name").Output()
		return err == nil && len(schedd) > 0, nil
	})
}

// isCondorDaemon reports whether name is the name of an HTCondor daemon that runs on a host. name is the first
// argument of a process.
func isCondorDaemon(name string) bool {
	return slices.Contains([]string{"condor_master", "condor_procd", "condor_shared_port", "condor_startd"}, name)
}
