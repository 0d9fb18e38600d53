package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// The variables of ParaStation place ranks on real hosts as its page says, nodes that
// are down are dropped, and the plan that was asked for beforehand is what runs.
func TestParaStationVariables(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	text := "[[node]]\nname = \"n[1-3]\"\nid = 1\n[[node]]\nname = \"n9\"\naddress = \"n9.invalid\"\nid = 9\n"
	if err := os.WriteFile(cluster, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cpus := b.countCores(t, cluster)
	tests := []struct {
		name string
		env  string
		args string
		want string // hosts of the ranks
		tell string // what each rank has of OMP_NUM_THREADS, PSI_TPP, PSP_SCHED_YIELD and switches
		says string // on standard error
	}{
		{"names in their order", "PSI_HOSTS=n3,n1 PSI_NODES_SORT=none PSI_LOOP_NODES_FIRST=", "-n 3", "n3 n1 n3", "- - - -", ""},
		{"IDs, sorted", "PSI_NODES=3,1 PSI_NODES_SORT=proc PSI_LOOP_NODES_FIRST=", "-n 2", "n1 n3", "- - - -", ""},
		{"one after the other", "PSI_NODES=1-3", fmt.Sprint("-n ", cpus+1), strings.Repeat("n1 ", cpus) + "n2", "- - - -", ""},
		{"in turns", "PSI_NODES=1-3 PSI_LOOP_NODES_FIRST=", "-n 4", "n1 n2 n3 n1", "- - - -", ""},
		{"in turns though it says no", "PSI_NODES=1-2 PSI_LOOP_NODES_FIRST=no", "-n 2", "n1 n2", "- - - -", `PSI_LOOP_NODES_FIRST="no" has the same effect as any other value of this variable: it switches the setting on`},
		{"a node twice has two turns", "PSI_NODES=2,2,1 PSI_NODES_SORT=none PSI_LOOP_NODES_FIRST= PSI_OVERBOOK=", "-n 6", "n2 n2 n1 n2 n2 n1", "- - 1 -", ""},
		{"one whose name means nothing is dropped", "PSI_NODES=9,2 PSI_LOOP_NODES_FIRST=", "-n 1", "n2", "- - - -", "n9: "},
		{"as wide as a node", fmt.Sprint("PSI_NODES=1-3 PSI_TPP=", cpus), "-n 3", "n1 n2 n3", fmt.Sprint(cpus, " ", cpus, " - -"), ""},
		{"OpenMP's width", fmt.Sprint("PSI_NODES=1-2 OMP_NUM_THREADS=", cpus), "-n 2", "n1 n2", fmt.Sprint(cpus, " - - -"), ""},
		{"ParaStation's before OpenMP's", fmt.Sprint("PSI_NODES=1-2 PSI_TPP=1 OMP_NUM_THREADS=", cpus+1), "-n 1", "n1", fmt.Sprint(cpus+1, " 1 - -"), ""},
		{"no number of OpenMP's", "PSI_NODES=1-2 OMP_NUM_THREADS=many", "-n 1", "n1", "many - - -", `OMP_NUM_THREADS: "many" is not a valid number`},
		{"overbooked, but there is room", "PSI_NODES=1-2 PSI_OVERBOOK=", fmt.Sprint("-n ", cpus), repeatHost("n1", cpus), "- - 1 -", ""},
		{"overbooked evenly", "PSI_NODES=1-3 PSI_OVERBOOK=", fmt.Sprint("-n ", 3*cpus+4),
			repeatHost("n1", cpus+2) + " " + repeatHost("n2", cpus+1) + " " + repeatHost("n3", cpus+1), "- - 1 -", ""},
		{"overbooked in turns", "PSI_NODES=1-3 PSI_OVERBOOK= PSI_LOOP_NODES_FIRST=", fmt.Sprint("-n ", 3*cpus+1), repeatHost("n1 n2 n3", cpus) + " n1", "- - 1 -", ""},
		{"a flag hides them", "PSI_NODES=x PSI_NODES_SORT=x PSI_TPP=x", "--nodes 3 --sort none --tpp 1 -n 1", "n3", "1 1 - -", ""},
	}
	for _, test := range tests {
		env := append(strings.Fields(test.env), "MPIEXEC_CLUSTER="+cluster)
		r := b.startMpiexec(t, mpiexecCall{args: append(strings.Fields(test.args), "sh", "-c", placeProgram), env: env}).wait(t)
		got, told := readPlaces(r.out)
		if r.code != 0 || got != test.want || told != test.tell || !strings.Contains(r.err, test.says) || test.says == "" && r.err != "" {
			t.Errorf("%s: exit %d, on %s with %s, says %q; want %s with %s, %q", test.name, r.code, got, told, r.err, test.want, test.tell, test.says)
		}
		planned := b.startMpiexec(t, mpiexecCall{args: append([]string{"--plan"}, strings.Fields(test.args)...), env: env}).wait(t)
		if got := hostsByPlan(planned.out); got != test.want {
			t.Errorf("%s: planned for %s, %q; want %s", test.name, got, planned.err, test.want)
		}
	}
	for _, env := range []string{fmt.Sprint("PSI_TPP=", cpus), fmt.Sprint("OMP_NUM_THREADS=", cpus)} {
		source, _, _ := strings.Cut(env, "=")
		r := b.startMpiexec(t, mpiexecCall{args: []string{"-n", "4", "hostname"}, env: []string{env, "PSI_NODES=1-3", "MPIEXEC_CLUSTER=" + cluster}}).wait(t)
		if want := fmt.Sprintf("4 ranks of %d CPUs each (%s) do not fit: there are free slots for only 3 ranks", cpus, source); r.code != 125 || r.out != "" || !strings.Contains(r.err, want) {
			t.Errorf("%s, a rank too many: exit %d, %q, %q; want %q", env, r.code, r.out, r.err, want)
		}
	}
}

// countCores is the number of cores of this machine, and so of every host.
func (b *testCluster) countCores(t *testing.T, cluster string) int {
	t.Helper()
	all := b.startMpiexec(t, mpiexecCall{args: []string{"--plan", "--cluster", cluster, "--nodes", "1"}}).wait(t)
	cpus := strings.Count(all.out, `"rank":`)
	if cpus == 0 {
		t.Fatalf("no plan for n1: %s%s", all.out, all.err)
	}
	return cpus
}

// With a busy loop on one host, ranks go elsewhere if the order is that of the loads.
func TestSortByLoad(t *testing.T) {
	requireNamespaces(t)
	b := newTestCluster(t, testbed.Options{Hosts: 3, LoadEvery: 20 * time.Millisecond})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	loop := b.On(ctx, "n1", "sh", "-c", "while [ ! -e /tmp/enough ]; do :; done")
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before newTestCluster checks the hosts
		b.runOn(t, "n1", "touch", "/tmp/enough")
		if err := loop.Wait(); err != nil {
			t.Error(err)
		}
	})
	quiet := func() bool { return b.loadOf(t, "n1") > 0.9 && b.loadOf(t, "n2") < 0.3 && b.loadOf(t, "n3") < 0.3 }
	for _, test := range []struct{ env, args, want string }{
		{"PSI_HOSTS=n1,n2,n3", "", "n1"},
		{"PSI_HOSTS=n1,n2,n3", "--sort load", "not n1"},
		{"PSI_HOSTS=n1,n2,n3", "--sort proc+load", "not n1"},
		{"PSI_HOSTS=n1,n2,n3 PSI_NODES_SORT=LOAD", "", "not n1"},
		{"PSI_HOSTS=n1,n2,n3 PSI_NODES_SORT=load", "--sort none", "n1"},
		{"", "-host n1,n2,n3", "n1"},
		{"", "-host n1,n2,n3 --sort load", "not n1"},
		{"PSI_NODES_SORT=load", "-host n1,n2,n3", "n1"},
	} {
		if !poll(goneTimeout, quiet) {
			t.Fatalf("loads: n1 %.2f, n2 %.2f, n3 %.2f", b.loadOf(t, "n1"), b.loadOf(t, "n2"), b.loadOf(t, "n3"))
		}
		args := append(strings.Fields(test.args), "-n", "1", "hostname")
		r := b.startMpiexec(t, mpiexecCall{args: args, env: strings.Fields(test.env)}).wait(t)
		host := strings.TrimSpace(r.out)
		if r.checkSuccess(t); (host == "n1") != (test.want == "n1") {
			t.Errorf("%s mpiexec %s: on %s, want %s", test.env, test.args, host, test.want)
		}
	}
}

// loadOf is the load of the last minute that a host shows.
func (b *testCluster) loadOf(t *testing.T, host string) (load float64) {
	t.Helper()
	text := b.runOn(t, host, "cat", "/proc/loadavg")
	if _, err := fmt.Sscan(text, &load); err != nil {
		t.Fatalf("%s: loadavg %q: %v", host, text, err)
	}
	return load
}

// A host that is down is a candidate less where it was one of many, and an error where
// it was asked for by name. Nothing is started then.
func TestHostDown(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(cluster, []byte("[[node]]\nname = \"n[1-4]\"\nid = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cpus := b.countCores(t, cluster)
	b.runOn(t, "n2", "sh", "-c", "p=$(cat /run/field/sshd.pid); kill $p; while kill -0 $p; do :; done 2>/dev/null")
	if err := b.SetLink("n3", false); err != nil {
		t.Fatal(err)
	}
	const refused, silent = "n2: connect: connection refused", "n3: connect: "
	given := []string{"--connect-timeout", "10"} // to n3; two busy cores need a second
	for _, test := range []struct {
		env  string
		says []string
	}{
		{"MPIEXEC_CLUSTER=" + cluster, []string{refused, silent}},
		{"PSI_NODES=4,2,1 MPIEXEC_CLUSTER=" + cluster, []string{refused}},
		{"PSI_HOSTS=n1,n2,n4", []string{refused}},
	} {
		args := slices.Concat(given, []string{"-n", fmt.Sprint(2 * cpus), "sh", "-c", placeProgram})
		r := b.startMpiexec(t, mpiexecCall{args: args, env: strings.Fields(test.env)}).wait(t)
		want := repeatHost("n1", cpus) + " " + repeatHost("n4", cpus)
		if got, _ := readPlaces(r.out); r.code != 0 || got != want || strings.Count(r.err, "\n") != len(test.says) {
			t.Errorf("%s: exit %d, on %s, %q; want %s", test.env, r.code, got, r.err, want)
		}
		for _, text := range test.says {
			if !strings.Contains(r.err, text) {
				t.Errorf("%s: says %q; want %q", test.env, r.err, text)
			}
		}
	}
	planned := b.startMpiexec(t, mpiexecCall{args: append(given, "--plan", "-n", "1"), env: []string{"MPIEXEC_CLUSTER=" + cluster}}).wait(t)
	for _, host := range []string{`"n2", "id": 2`, `"n3", "id": 3`} {
		if want := fmt.Sprintf(`{"node": %s, "reason": "unreachable", "detail": "connect: `, host); planned.code != 0 || !strings.Contains(planned.out, want) {
			t.Errorf("plan: exit %d, %s%s; want %s", planned.code, planned.out, planned.err, want)
		}
	}
	none := b.startMpiexec(t, mpiexecCall{args: []string{"--plan", "-n", "1"}, env: []string{"PSI_HOSTS=n2"}}).wait(t)
	if want := `"error": {"code": "no-candidates"`; none.code != 125 || !strings.Contains(none.out, want) || !strings.Contains(none.out, `{"node": "n2", "id": 0, "reason": "unreachable"`) {
		t.Errorf("plan for n2 alone: exit %d, %s%s; want %s", none.code, none.out, none.err, want)
	}
	for _, test := range []struct{ env, args, says string }{
		{"PSI_HOSTS=n1,n2,n4", fmt.Sprint("-n ", 2*cpus+1), "use --wait to wait for other jobs to end"},
		{"PSI_HOSTS=n2", "-n 1", refused},
		{"", "-host n1,n2 -n 1", refused},
		{"MPIEXEC_CLUSTER=" + cluster, "-host n3,n4 -n 1", silent},
	} {
		args := slices.Concat(given, strings.Fields(test.args), []string{"hostname"})
		r := b.startMpiexec(t, mpiexecCall{args: args, env: strings.Fields(test.env)}).wait(t)
		if r.code != 125 || r.out != "" || !strings.Contains(r.err, test.says) {
			t.Errorf("%s mpiexec %s: exit %d, %q, %q; want 125, nothing and %q", test.env, test.args, r.code, r.out, r.err, test.says)
		}
	}
}

// placeProgram is what a rank says of itself: number, host, OMP_NUM_THREADS, PSI_TPP,
// PSP_SCHED_YIELD, and the switches it must not have (placement.md 7.6).
const placeProgram = `echo $PMI_RANK $(hostname) ${OMP_NUM_THREADS--} ${PSI_TPP--} ${PSP_SCHED_YIELD--}` +
	` ${PSI_OVERBOOK+overbook}${PSI_LOOP_NODES_FIRST+loop}${PSI_EXCLUSIVE+exclusive}${PSI_WAIT+wait}-`

// readPlaces reads what ranks say: their hosts, in rank order, and what all of them have
// been told; "different" if they do not agree.
func readPlaces(out string) (hosts, told string) {
	list := make([]string, strings.Count(out, "\n"))
	for line := range strings.Lines(out) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		rank, err := strconv.Atoi(words[0])
		if err != nil || rank >= len(list) || len(words) < 3 {
			return "unexpected " + line, ""
		}
		list[rank] = words[1]
		if told != "" && told != words[2] {
			words[2] = "different"
		}
		told = words[2]
	}
	return strings.Join(list, " "), told
}

func repeatHost(host string, n int) string { return strings.TrimSpace(strings.Repeat(host+" ", n)) }

// hostsByPlan reads the hosts of a plan, which has a rank a line.
func hostsByPlan(out string) string {
	var hosts []string
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(line, `"node": "`); ok && strings.Contains(line, `"rank"`) {
			host, _, _ := strings.Cut(rest, `"`)
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, " ")
}
