package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// Hosts that are alike are chosen together, by what the cluster file says of them, and those of aprun go where
// its letters say (which-hosts.md, aprun.md).
func TestKindsOfNodes(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(cluster, []byte(twoKindsClusterFile), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, env, args, want string }{
		{"the first set of the list", "", "--node-set ONEOF:FEATURE:b,a -n 2 -ppn 1", "n3 n4"},
		{"by a variable", "PSI_NODESET=FIRSTOF:FEATURE:b,a", "-n 2 -ppn 1", "n3 n4"},
		{"by the scheduler's word", "", "-l nodeset=ONEOF:rack:r1,nodesetisoptional=no -n 2 -ppn 1", "n1 n2"},
		{"a set of which one is down", "", "--node-set ONEOF:FEATURE:c,a -n 2 -ppn 1", "n1 n2"},
		{"the fastest", "", "--node-set ONEOF:PROCSPEED -n 2 -ppn 1", "n3 n4"},
		{"speeds that differ by half", "", "--node-set ONEOF:PROCSPEED --node-set-tolerance 50% -n 4 -ppn 1", "n1 n2 n3 n4"},
		{"a class", "", "--class slow -n 2 -ppn 1", "n1 n2"},
		{"a class by a variable, and a set of the user's", "PSI_CLASS=slow", "--node-set ONEOF:rack:r2 -n 2 -ppn 1", "n3 n4"},
		{"none, whatever the class says", "", "--class slow --no-node-set --nodes 2-3 -n 2 -ppn 1", "n2 n3"},
		{"no set at all", "", "--node-set ONEOF:PROCSPEED -n 3 -ppn 1", "no ONEOF:PROCSPEED set"},
		{"memory that all have", "", "--node-set ONEOF:MEMORY:1G-8T -n 4 -ppn 1", "n1 n2 n3 n4"},
		{"memory that none has", "", "--node-set ONEOF:MEMORY:7000T -n 1 -ppn 1", "no ONEOF:MEMORY set"},
	} {
		args := append(append([]string{"--cluster", cluster, "--sort", "none"}, strings.Fields(test.args)...), "hostname")
		env := strings.Fields(test.env)
		r := b.startMpiexec(t, mpiexecCall{args: args, env: env}).wait(t)
		if got := sortedWords(r.out); got != test.want && (r.code != 125 || !strings.Contains(strings.Join(strings.Fields(r.err), " "), test.want)) {
			t.Errorf("%s: exit %d, on %s, %q; want %s", test.name, r.code, got, r.err, test.want)
		}
		if r.code != 0 {
			continue
		}
		planned := b.startMpiexec(t, mpiexecCall{args: append([]string{"--plan"}, args...), env: env}).wait(t)
		if got := sortedWords(hostsByPlan(planned.out)); got != test.want {
			t.Errorf("%s: planned for %s, %q; want %s", test.name, got, planned.err, test.want)
		}
	}
	for line, want := range map[string]string{
		"-n 2 -N 1 hostname":                          "n1 n2",
		"-n2 -N1 -L 3,1 hostname":                     "n1 n3",
		"-L n4 hostname":                              "n4",
		"-n 1 hostname : -n 1 hostname":               "n1 n2",
		"-n 2 -N 1 --node-set ONEOF:rack:r2 hostname": "n3 n4",
	} {
		r := b.startMpiexec(t, mpiexecCall{args: append([]string{"--aprun", "--cluster", cluster}, strings.Fields(line)...)}).wait(t)
		if got := sortedWords(r.out); r.code != 0 || got != want || !strings.Contains(r.err, " resources: utime ") {
			t.Errorf("aprun %s: exit %d, on %s, %q; want %s", line, r.code, got, r.err, want)
		}
	}
}

// A line of aprun starts the same ranks as its translation: rank by rank on the same host, bound to the same CPUs, with
// the same variables for its threads (aprun.md 2).
func TestAprunStartsWhatItsTranslationStarts(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(cluster, []byte(twoKindsClusterFile), 0o600); err != nil {
		t.Fatal(err)
	}
	const rank = `echo $MPIEXEC_RANK $MPIEXEC_HOST $MPIEXEC_BINDING ${OMP_NUM_THREADS--} ${OMP_PLACES--} ${OMP_PROC_BIND--} $MPIEXEC_APPNUM`
	start := func(line string) (ranks string) {
		args := []string{"--cluster", cluster}
		for word := range strings.FieldsSeq(line) {
			if word == "RANK" {
				args = append(args, "sh", "-c", rank)
			} else {
				args = append(args, word)
			}
		}
		if args[2] == "--aprun" {
			args[0], args[1], args[2] = args[2], args[0], args[1]
		}
		r := b.startMpiexec(t, mpiexecCall{args: args}).wait(t)
		if r.code != 0 {
			t.Errorf("%s: exit %d, %q", line, r.code, r.err)
		}
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	all := fmt.Sprint(b.countCores(t, cluster))
	for _, test := range []struct {
		ranks          int
		aprun, mpiexec string
	}{
		{1, "RANK", "--omp-places cpu -membind local -n 1 RANK"},
		{4, "-n4 -N1 RANK", "--omp-places cpu -membind local -n 4 --shape 1 RANK"},
		{2, "-n 2 -d " + all + " -cc depth RANK", "--omp-places depth -membind local -n 2 --tpp " + all + " RANK"},
		{2, "-n 2 -N 1 -cc none -L 3,1 RANK", "--nodes 1,3 --bind-to none -membind local -n 2 --shape 1 RANK"},
		{2, "-n 2 -N 1 -ss -L 2-3 RANK", "--omp-places cpu --nodes 2-3 -n 2 --shape 1 --strict-mem RANK"},
		{3, "-n 2 -N 1 RANK : -n 1 RANK", "--omp-places cpu --no-share-hosts -membind local -n 2 --shape 1 RANK : -n 1 RANK"},
	} {
		got, want := start("--aprun "+test.aprun), start("--sort none "+test.mpiexec)
		if got != want || strings.Count(got, "\n")+1 != test.ranks || got == "" {
			t.Errorf("aprun %s:\n%s\nmpiexec %s:\n%s", test.aprun, got, test.mpiexec, want)
		}
	}
}

// twoKindsClusterFile has two sorts of hosts, and one that is down.
const twoKindsClusterFile = `
[[class]]
name = "slow"
nodeset = "ONEOF:rack:r1"

[[node]]
id = 1
name = "n[1-2]"
features = ["a"]
procspeed = 2000
attributes = { rack = "r1" }

[[node]]
name = "n3"
features = ["b"]
procspeed = 3000
attributes = { rack = "r2" }

[[node]]
name = "n4"
features = ["b", "c"]
procspeed = 3000
attributes = { rack = "r2" }

[[node]]
name = "n9"
address = "n9.invalid"
features = ["c"]
`

// sortedWords returns the words of text, sorted and joined by blanks.
func sortedWords(text string) string {
	words := strings.Fields(text)
	slices.Sort(words)
	return strings.Join(words, " ")
}
