//go:build linux

package testbed

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"
)

/*
sgeDir is the path at which the head and the hosts see the directory sge of the cluster's state directory. A test
cluster with Grid Engine also runs:

	head   sge_qmaster; qsub, qstat and qdel are called here
	n1..   sge_execd; a job's script and its tasks run here

All files of Grid Engine are in sgeDir: the cell with its configuration and accounting, spool directories
and logs. The machine's own cell is not used, and none of its services is started. Each host has four
slots, regardless of the number of CPUs of the machine. In the parallel environment mpi, a job can start tasks
on its hosts. In the parallel environment loose, a job cannot.
*/
const sgeDir = "/var/lib/gridengine"

// sgePrograms is the directory of Grid Engine's programs on Debian.
const sgePrograms = "/usr/lib/gridengine/"

// SGESlots is the number of Grid Engine slots on each host.
const SGESlots = 4

//go:embed scripts/sge.sh
var sgeScript string

// NoSGE returns an error that says why root cannot run a test cluster with Grid Engine on this machine. It returns
// nil if root can.
func NoSGE() error {
	for _, name := range []string{"sge_qmaster", "sge_execd", "qsub", "spooldefaults.bin"} {
		if _, err := os.Stat(sgePrograms + name); err != nil {
			return fmt.Errorf("%s is not installed; as root on Debian: testdata/install.sh", name)
		}
	}
	return nil
}

// sgeFiles returns the files that Grid Engine needs in the state directory.
func (f *Cluster) sgeFiles() []file {
	files := []file{
		{"sge.sh", 0o600, sgeScript},
		{"sge/default/common/act_qmaster", 0o644, Head + "\n"},
		{"sge/default/common/bootstrap", 0o644, sgeText(sgeBootstrap)},
		{"sge/cell/pes/.keep", 0o644, ""},
		{"sge/cell/queue", 0o644, sgeText(sgeQueue + "\nhostlist " + strings.ReplaceAll(f.Names(), ",", " ") + fmt.Sprintf("\nslots %d", SGESlots))},
		{"sge/cell/hosts/" + Head, 0o644, "hostname " + Head + "\n"},
	}
	for _, h := range f.Hosts {
		files = append(files,
			file{"sge/cell/hosts/" + h.Name, 0o644, "hostname " + h.Name + "\n"},
			file{"sge/cell/exechosts/" + h.Name, 0o644, sgeText("hostname " + h.Name + sgeExecHost)})
	}
	return files
}

// sgeText returns text without blanks at both ends and with one newline at the end, as Grid Engine requires.
func sgeText(text string) string { return strings.TrimSpace(text) + "\n" }

const sgeBootstrap = `
admin_user none
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params ` + sgeDir + `/default/common;` + sgeDir + `/spool/qmaster
binary_path ` + sgeDir + `/bin
qmaster_spool_dir ` + sgeDir + `/spool/qmaster
security_mode none
listener_threads 1
worker_threads 1
scheduler_threads 1
jvm_threads 0`

const sgeExecHost = `
load_scaling NONE
complex_values NONE
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE`

// sgeQueue is a queue configuration (queue_conf(5)) without hosts and slots. Each host needs its own /tmp, because
// otherwise one host would remove files of another host's tasks. There is no load threshold, because all hosts
// share the load of one machine.
const sgeQueue = `
qname all.q
seq_no 0
load_thresholds NONE
suspend_thresholds NONE
nsuspend 1
suspend_interval 00:05:00
priority 0
min_cpu_interval 00:05:00
processors UNDEFINED
qtype BATCH INTERACTIVE
ckpt_list NONE
pe_list mpi loose
rerun FALSE
tmpdir /tmp
shell /bin/sh
prolog NONE
epilog NONE
shell_start_mode unix_behavior
starter_method NONE
suspend_method NONE
resume_method NONE
terminate_method NONE
notify 00:03:00
owner_list NONE
user_lists NONE
xuser_lists NONE
subordinate_list NONE
complex_values NONE
projects NONE
xprojects NONE
calendar NONE
initial_state default
s_rt INFINITY
h_rt INFINITY
s_cpu INFINITY
h_cpu INFINITY
s_fsize INFINITY
h_fsize INFINITY
s_data INFINITY
h_data INFINITY
s_stack INFINITY
h_stack INFINITY
s_core INFINITY
h_core INFINITY
s_rss INFINITY
h_rss INFINITY
s_vmem INFINITY
h_vmem INFINITY`

// upSGE starts the master on the head and a daemon on each host, and waits until all hosts accept jobs.
func (f *Cluster) upSGE(ctx context.Context) error {
	if err := runWithOutput(f.Command(ctx, nil, "/bin/sh", f.path("sge.sh"))); err != nil {
		return err
	}
	if err := poll(ctx, func() (bool, error) { return f.Command(ctx, nil, "qconf", "-sh").Run() == nil, nil }); err != nil {
		return err
	}
	started := make(chan error, len(f.Hosts))
	for _, h := range f.Hosts {
		go func() { started <- f.StartExecd(ctx, h.Name) }()
	}
	for range f.Hosts {
		if err := <-started; err != nil {
			return err
		}
	}
	for _, set := range [][]string{{"-Msconf", sgeDir + "/cell/scheduler"}, {"-Aq", sgeDir + "/cell/queue"}} {
		if err := runWithOutput(f.Command(ctx, nil, "qconf", set...)); err != nil {
			return err
		}
	}
	return poll(ctx, func() (bool, error) {
		out, _ := f.Command(ctx, nil, "qstat", "-f").Output()
		return countUsableQueues(string(out)) == len(f.Hosts), nil
	})
}

// countUsableQueues returns the number of queue instances that accept jobs. text is the output of qstat -f. A
// queue instance accepts jobs if its column "states" is empty and its host has reported a load.
func countUsableQueues(text string) (n int) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 5 && strings.HasPrefix(words[0], "all.q@") && words[3] != "-NA-" {
			n++
		}
	}
	return n
}

// StartExecd starts Grid Engine's daemon on a host, and returns when the master knows the host. It may be called
// again after the daemon was killed.
func (f *Cluster) StartExecd(ctx context.Context, host string) error {
	return runWithOutput(f.On(ctx, host, "env", "SGE_ROOT="+sgeDir, "SGE_CELL=default", sgePrograms+"sge_execd"))
}
