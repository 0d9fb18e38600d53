//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// addGPUs gives a host GPUs to show: folders where the kernel has those of the devices of a
// driver. No program could compute on them, but what is chosen and told is as real as on
// others. What the machine itself has is hidden meanwhile, from this host alone.
func (b *testCluster) addGPUs(t *testing.T, host, driver string, buses ...string) {
	t.Helper()
	script := `for folder in /sys/bus/pci/drivers /sys/class/kfd /proc/driver/nvidia; do
	test ! -d $folder || mount -t tmpfs field $folder
done
cd /sys/bus/pci/drivers
`
	for _, bus := range buses {
		script += fmt.Sprintf("mkdir -p %[1]s/0000:%[2]s:00.0 && cd %[1]s/0000:%[2]s:00.0 && echo 0x030200 >class && echo 0 >numa_node && cd ../..\n", driver, bus)
	}
	b.runOn(t, host, "sh", "-ec", script)
}

// gpuVariablesProgram prints what a rank is told of its GPUs.
const gpuVariablesProgram = `echo "$PMI_RANK $MPIEXEC_HOST cuda=$CUDA_VISIBLE_DEVICES,$CUDA_DEVICE_ORDER rocr=$ROCR_VISIBLE_DEVICES hip=$HIP_VISIBLE_DEVICES ze=$ZE_AFFINITY_MASK"`

// sortedOutput are those of an output, sorted.
func sortedOutput(out string) string {
	all := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// GPUs are bounded by hosts, belong to one rank each, and ranks are told theirs by the
// vendor's variable, whatever the environment has from elsewhere.
func TestGPUs(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	for _, host := range []string{"n1", "n2", "n3"} {
		b.addGPUs(t, host, "")
	}
	none := b.runMpiexec(t, "-host", "n[1-3]", "-n", "2", "-gpus-per-proc", "1", "true")
	if want := "mpiexec: n[1-3]: -gpus-per-proc 1: no GPU there\n  hint: use hosts with GPUs, or leave out the option\n"; none.code != 125 || none.err != want {
		t.Errorf("no GPUs: exit %d\n%s", none.code, none.err)
	}
	b.addGPUs(t, "n1", "nvidia", "1b", "43", "9d", "c3")
	b.addGPUs(t, "n2", "amdgpu", "03", "83")
	for _, test := range []struct {
		args, want string
		code       int
	}{
		{"-host n1:4,n2:4,n3:4 -n 6 -gpus-per-proc 1", `
0 n1 cuda=0,PCI_BUS_ID rocr= hip= ze=
1 n1 cuda=1,PCI_BUS_ID rocr= hip= ze=
2 n1 cuda=2,PCI_BUS_ID rocr= hip= ze=
3 n1 cuda=3,PCI_BUS_ID rocr= hip= ze=
4 n2 cuda=,FASTEST_FIRST rocr=0 hip= ze=
5 n2 cuda=,FASTEST_FIRST rocr=1 hip= ze=`, 0},
		{"-host n1:4 -g 2", `
0 n1 cuda=0,1,PCI_BUS_ID rocr= hip= ze=
1 n1 cuda=2,3,PCI_BUS_ID rocr= hip= ze=`, 0},
		{"-host n1 -n 1 -g 0", `
0 n1 cuda=-1,FASTEST_FIRST rocr=-1 hip= ze=-1`, 0},
		{"-host n1 -n 1", `
0 n1 cuda=9,FASTEST_FIRST rocr= hip=9 ze=`, 0},
		{"-host n1,n2,n3 --nodetype amd -n 1", `
0 n2 cuda=9,FASTEST_FIRST rocr= hip=9 ze=`, 0},
		{"-host n1:8 -n 5 -g 1", `
mpiexec: 5 ranks do not fit with -gpus-per-proc 1: mpiexec found 4 free GPUs on 1 node (n1), which is enough for 4 ranks
  hint: start fewer ranks, or add hosts; without this option, all ranks share the GPUs`, 125},
		{"-host n1 -n 1 -g 1 -env CUDA_VISIBLE_DEVICES 2", `
mpiexec: -g 1 contradicts -env CUDA_VISIBLE_DEVICES
  hint: use only one of them`, 125},
	} {
		r := b.startMpiexec(t, mpiexecCall{args: append(strings.Fields(test.args), "sh", "-c", gpuVariablesProgram),
			env: []string{"CUDA_VISIBLE_DEVICES=9", "HIP_VISIBLE_DEVICES=9", "CUDA_DEVICE_ORDER=FASTEST_FIRST"}}).wait(t)
		if got := sortedOutput(r.out) + strings.TrimSuffix(r.err, "\n"); r.code != test.code || got != strings.TrimPrefix(test.want, "\n") {
			t.Errorf("%s: exit %d\n%s\nwant%s", test.args, r.code, got, test.want)
		}
	}
}

// What one job has no other gets, until it is over.
func TestGPUsOfSeveralJobs(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.addGPUs(t, "n1", "nvidia", "1b", "43", "9d")
	r, w := inputPipe(t)
	first := holdingJob{b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1:8", "-n", "2", "-g", "1", "sh", "-c", gpuVariablesProgram + "; exec cat"}, stdin: r}), w}
	first.awaitOut(t, "cuda=", 2)
	other := b.runMpiexec(t, "-host", "n1:8", "-g", "1", "sh", "-c", gpuVariablesProgram)
	if want := "0 n1 cuda=2,PCI_BUS_ID rocr= hip= ze=\n"; other.code != 0 || other.out != want {
		t.Errorf("beside another job: exit %d\n%s%s", other.code, other.out, other.err)
	}
	const shortage = "mpiexec found 1 free GPU on 1 node (n1), which is enough for 1 rank; other jobs use 2\n  hint: start fewer ranks, or add hosts; or use --wait to wait for other jobs to end\n"
	many := b.runMpiexec(t, "-host", "n1:8", "-n", "2", "-g", "1", "true")
	if many.code != 125 || !strings.HasSuffix(many.err, shortage) {
		t.Errorf("too many beside another job: exit %d\n%s", many.code, many.err)
	}
	if status := b.runMpiexec(t, "--status", b.readListing(t, "n1").Jobs[0].Job, "n1"); !strings.Contains(status.out, "GPUs 0000:1b:00.0 0000:43:00.0") {
		t.Errorf("--status:\n%s%s", status.out, status.err)
	}
	waiter := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1:8", "-n", "3", "-g", "1", "--wait", "sh", "-c", gpuVariablesProgram}})
	b.awaitQueue(t, "n1", 1)
	first.end(t).checkSuccess(t)
	if r := waiter.wait(t); r.code != 0 || strings.Count(r.out, "cuda=") != 3 {
		t.Errorf("after it: exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// A launch from inside of a rank has the GPUs of that rank, and not those of its neighbours.
func TestGPUsOfALaunchInsideAJob(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.addGPUs(t, testbed.Head, "nvidia", "1b", "43", "9d", "c3")
	r := b.runMpiexec(t, "-host", "localhost:8", "-n", "2", "-g", "2", "sh", "-c", `[ $PMI_RANK = 0 ] || exec "$0" -host localhost:8 -g 1 sh -c "$1"`, binary, gpuVariablesProgram)
	want := "0 localhost cuda=2,PCI_BUS_ID rocr= hip= ze=\n1 localhost cuda=3,PCI_BUS_ID rocr= hip= ze="
	if got := sortedOutput(r.out + r.err); r.code != 0 || got != want {
		t.Errorf("exit %d\n%s\nwant\n%s", r.code, got, want)
	}
}

// Ranks that are spawned have GPUs of their own, too: others than those who spawn them.
func TestGPUsOfSpawnedRanks(t *testing.T) {
	spawn := mpiProgram(t, "spawn")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.addGPUs(t, "n1", "nvidia", "1b", "43", "9d")
	b.runOn(t, "n1", "sh", "-ec", `printf '#!/bin/sh\necho gpu $CUDA_VISIBLE_DEVICES\nexec "$SPAWN" "$@"\n' >/tmp/told; chmod +x /tmp/told`)
	r := b.runMpiexec(t, "-hosts", "n1:8", "-n", "1", "-g", "1", "-genv", "SPAWN", spawn, "-genv", "SPAWN_PROGRAM", "/tmp/told", "/tmp/told", "one", "2")
	var got []string
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(line, "gpu") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(got)
	if want := []string{"gpu 0", "gpu 1", "gpu 2"}; r.code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit %d, %q, want %q\n%s%s", r.code, got, want, r.out, r.err)
	}
}
