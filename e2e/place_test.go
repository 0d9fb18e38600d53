package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/field"
)

// The variables of ParaStation place ranks on real hosts as its page says, nodes that
// are down are dropped, and the plan that was asked for beforehand is what runs.
func TestParaStationVariables(t *testing.T) {
	b := newBed(t, field.Options{Hosts: 3})
	b.needNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	text := "[[node]]\nname = \"n[1-3]\"\nid = 1\n[[node]]\nname = \"n9\"\naddress = \"n9.invalid\"\nid = 9\n"
	if err := os.WriteFile(cluster, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	every := b.start(t, job{args: []string{"--plan", "--cluster", cluster, "--nodes", "1"}}).wait(t)
	cpus := strings.Count(every.out, `"rank":`) // cores of this machine, and so of every host
	if cpus == 0 {
		t.Fatalf("no plan for n1: %s%s", every.out, every.err)
	}
	tests := []struct {
		name string
		env  string
		args string
		want string // hosts of the ranks
		says string // on standard error
	}{
		{"names in their order", "PSI_HOSTS=n3,n1 PSI_NODES_SORT=none PSI_LOOP_NODES_FIRST=", "-n 3", "n3 n1 n3", ""},
		{"IDs, sorted", "PSI_NODES=3,1 PSI_NODES_SORT=proc PSI_LOOP_NODES_FIRST=", "-n 2", "n1 n3", ""},
		{"a node twice has two turns", "PSI_NODES=2,2,1 PSI_NODES_SORT=none PSI_LOOP_NODES_FIRST= PSI_OVERBOOK=", "-n 6", "n2 n2 n1 n2 n2 n1", ""},
		{"one that is down is dropped", "PSI_NODES=9,2 PSI_LOOP_NODES_FIRST=", "-n 1", "n2", "n9: "},
		{"as wide as a node", fmt.Sprint("PSI_NODES=1-2 PSI_TPP=", cpus), "-n 2", "n1 n2", ""},
		{"OpenMP's width", fmt.Sprint("PSI_NODES=1-2 OMP_NUM_THREADS=", cpus), "-n 2", "n1 n2", ""},
		{"overbooked evenly", "PSI_NODES=1-3 PSI_OVERBOOK=", fmt.Sprint("-n ", 3*cpus+3),
			strings.Join(slices.Concat(slices.Repeat([]string{"n1"}, cpus+1), slices.Repeat([]string{"n2"}, cpus+1), slices.Repeat([]string{"n3"}, cpus+1)), " "), ""},
		{"a flag hides them", "PSI_NODES=x", "--nodes 3 -n 1", "n3", ""},
	}
	for _, test := range tests {
		env := append(strings.Fields(test.env), "MPIEXEC_CLUSTER="+cluster)
		args := append(strings.Fields(test.args), "sh", "-c", `echo "$PMI_RANK $(hostname)"`)
		r := b.start(t, job{args: args, env: env}).wait(t)
		if got := hostsByRank(r.out); r.code != 0 || got != test.want || !strings.Contains(r.err, test.says) {
			t.Errorf("%s: exit %d, on %s, says %q; want %s, %q", test.name, r.code, got, r.err, test.want, test.says)
		}
		planned := b.start(t, job{args: append([]string{"--plan"}, strings.Fields(test.args)...), env: env}).wait(t)
		if got := hostsByPlan(planned.out); got != test.want {
			t.Errorf("%s: planned for %s, %q; want %s", test.name, got, planned.err, test.want)
		}
	}
}

// hostsByRank reads lines of rank and host.
func hostsByRank(out string) string {
	hosts := make([]string, strings.Count(out, "\n"))
	for line := range strings.Lines(out) {
		var rank int
		var host string
		if _, err := fmt.Sscan(line, &rank, &host); err != nil || rank >= len(hosts) {
			return "unexpected " + line
		}
		hosts[rank] = host
	}
	return strings.Join(hosts, " ")
}

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
