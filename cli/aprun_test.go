package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remshell/cli/option"
)

// twoNUMAState writes a cluster state of nodes named letter and a number, each with so many CPUs in two NUMA nodes.
// busy is the number of busy CPUs by node. It returns the file's name.
func twoNUMAState(t *testing.T, letter string, nodes, cpus int, busy map[int]int) string {
	t.Helper()
	var list []map[string]any
	for id := range nodes {
		var cores []map[string]any
		for cpu := range cpus {
			cores = append(cores, map[string]any{"cpus": []int{cpu}, "numa": cpu / (cpus / 2), "package": 0})
		}
		var taken []int
		for cpu := range busy[id] {
			taken = append(taken, cpu)
		}
		list = append(list, map[string]any{"id": id, "name": fmt.Sprint(letter, id), "up": true, "cores": cores, "procs": len(taken), "bound_procs": len(taken), "busy_cpus": taken,
			"load": []float64{0, 0, 0}, "mem_total": 8 << 30, "mem_available": 8 << 30})
	}
	data, err := json.Marshal(map[string]any{"version": 1, "nodes": list, "env": map[string]any{}, "options": map[string]any{}, "np": 1, "uid": 1000, "gid": 100})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), letter+".json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// shortPlan returns the plan for a command line in short: NODE[CPUS] for each rank, or the code of its error.
func shortPlan(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	Main(context.Background(), args, System{Out: &out, Err: &errs})
	var plan struct {
		Ranks []struct {
			Node string
			CPUs []int
		}
		Error *struct{ Code string }
	}
	if err := json.Unmarshal(out.Bytes(), &plan); err != nil {
		return strings.TrimSpace(errs.String())
	}
	if plan.Error != nil {
		return plan.Error.Code
	}
	var words []string
	for _, r := range plan.Ranks {
		words = append(words, r.Node+strings.ReplaceAll(fmt.Sprint(r.CPUs), " ", ","))
	}
	return strings.Join(words, " ")
}

// The examples of aprun.md 5 with one segment, and others, through the command line.
func TestAprunExamples(t *testing.T) {
	n, m := twoNUMAState(t, "n", 6, 8, nil), twoNUMAState(t, "m", 4, 16, nil)
	busy := twoNUMAState(t, "b", 4, 8, map[int]int{1: 5})
	full := func(node string, cpus int) string {
		var words []string
		for cpu := range cpus {
			words = append(words, fmt.Sprintf("%s[%d]", node, cpu))
		}
		return strings.Join(words, " ")
	}
	for _, test := range []struct {
		number            int
		state, line, want string
	}{
		{1, n, "-n 20 a", full("n0", 8) + " " + full("n1", 8) + " " + full("n2", 4)},
		{2, n, "-n 10 -N 4 a", full("n0", 4) + " " + full("n1", 4) + " " + full("n2", 2)},
		{3, n, "-n 6 -d 3 a", "n0[0,1,2] n0[3,4,5] n1[0,1,2] n1[3,4,5] n2[0,1,2] n2[3,4,5]"},
		{4, n, "-n 6 -d 3 -N 1 a", "n0[0,1,2] n1[0,1,2] n2[0,1,2] n3[0,1,2] n4[0,1,2] n5[0,1,2]"},
		{5, busy, "-n 10 -N 4 a", full("b0", 4) + " " + full("b2", 4) + " " + full("b3", 2)},
		{6, m, "-n 8 -S 2 a", "m0[0] m0[1] m0[8] m0[9] m1[0] m1[1] m1[8] m1[9]"},
		{7, m, "-n 8 -S 3 -sn 1 a", "m0[0] m0[1] m0[2] m1[0] m1[1] m1[2] m2[0] m2[1]"},
		{8, m, "-n 8 -d 3 -S 1 a", "m0[0,1,2] m0[8,9,10] m1[0,1,2] m1[8,9,10] m2[0,1,2] m2[8,9,10] m3[0,1,2] m3[8,9,10]"},
		{9, n, "-n 2 -d 3 -cc depth a", "n0[0,1,2] n0[3,4,5]"},
		{9, n, "-n 2 -d 3 -cc depth -ss a", "n0[0,1,2] n0[4,5,6]"},
		{10, n, "-n 4 -d 2 -S 2 -cc numa_node a", "n0[0,1,2,3] n0[0,1,2,3] n0[4,5,6,7] n0[4,5,6,7]"},
		{11, n, "-n 2 -cc 0,4 a", "n0[0] n0[4]"},
		{11, n, "-n 2 -cc 0-1:4-5 a", "n0[0,1] n0[4,5]"},
		{11, n, "-n 3 --overbook -cc 2:x a", "n0[2] n0[] n0[2]"},
		{11, n, "-n 2 -cc 0:x a", "n0[0] n0[]"},
		{13, n, "-n 8 -r 1 a", full("n0", 7) + " n1[0]"},
		{15, n, "-n 4 -m 3G a", "n0[0] n0[1] n1[0] n1[1]"},
		{16, n, "-L 5,1-2,1 -n 10 a", full("n1", 8) + " " + full("n2", 2)},
		{16, n, "-L 5,n2,1 -n 10 a", full("n1", 8) + " " + full("n2", 2)},
		{17, n, "-L 9-3 a", "bad-nodes"},
		{17, n, "-L 3,n9 a", "bad-nodes"},
		{17, n, "-L 77 a", "unknown-node"},
		{18, n, "-n 4 : b", "mpiexec: the program before \":\" is missing\n  hint: write a program before and after each \":\""},
	} {
		if got := shortPlan(t, append([]string{"--aprun", "--plan", "--cluster-state", test.state}, strings.Fields(test.line)...)...); got != test.want {
			t.Errorf("%d: %s:\n got %s\nwant %s", test.number, test.line, got, test.want)
		}
	}
}

// Example 12: four cores with threads c and c + 4 are eight CPUs with -j 2.
func TestAprunThreads(t *testing.T) {
	const state = `{"version":1,"np":1,"uid":1000,"gid":100,"env":{},"options":{},"nodes":[{"id":0,"name":"t0","up":true,"cores":[
{"cpus":[0,4]},{"cpus":[1,5]},{"cpus":[2,6]},{"cpus":[3,7]}]}]}`
	name := filepath.Join(t.TempDir(), "threads.json")
	if err := os.WriteFile(name, []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	for threads, want := range map[string]string{"2": "t0[0,4] t0[1,5]", "1": "t0[0,1,4,5] t0[2,3,6,7]"} {
		if got := shortPlan(t, "--aprun", "--plan", "--cluster-state", name, "-n", "2", "-d", "2", "-j", threads, "a"); got != want {
			t.Errorf("-j %s: %s, want %s", threads, got, want)
		}
	}
}

// Each attribute of which-hosts.md 2 forms node sets, by its name in any case. Only node b has the requested value.
func TestEveryAttributeMakesSets(t *testing.T) {
	const state = `{"version":1,"np":1,"uid":1000,"gid":100,"env":{},"options":{},
"config":{"classes":[{"name":"big"}]},"nodes":[
{"id":0,"name":"a","up":true,"cpus":2,"mem_total":1073741824,"mem_available":1073741824,"features":["x"],
 "attributes":{"PROCSPEED":1000,"NETWORK":["ethernet"],"ARCH":"x86_64","CPUMODEL":"m1","NETSPEED":100,"GPUMODEL":["g1"],"rack":"r1","weight":1.5}},
{"id":1,"name":"b","up":true,"cpus":4,"mem_total":8589934592,"mem_available":8589934592,"features":["y"],"classes":["big"],
 "gpus":[{"vendor":"nvidia","index":0,"address":"0000:01:00.0"}],
 "attributes":{"PROCSPEED":2000,"NETWORK":["via"],"ARCH":"aarch64","CPUMODEL":"m2","NETSPEED":1000,"GPUMODEL":["g2"],"rack":"r2","weight":2.5}}]}`
	name := filepath.Join(t.TempDir(), "kinds.json")
	if err := os.WriteFile(name, []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"FEATURE:y", "PROCSPEED:2GHz", "MEMORY:8G", "NETWORK:VIA", "CLASS:big", "ARCH:aarch64", "CPUMODEL:M2", "NETSPEED:1G", "CPUS:4",
		"GPUS:1", "GPUMODEL:g2", "rack:r2", "weight:2.5", "Weight:2-3", "PROCSPEED:1500-3000", "cpus:3-8"} {
		if got := shortPlan(t, "--plan", "--cluster-state", name, "--class", "big", "--node-set", "ONEOF:"+request, "--no-pin", "-n", "1", "x"); !strings.HasPrefix(got, "b") {
			t.Errorf("ONEOF:%s: %s", request, got)
		}
	}
}

// The name of the program decides whether its arguments are those of aprun.
func TestFrontEndArgs(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/aprun -n 2 a": "--aprun -n 2 a", "mpiexec -n 2 a": "-n 2 a", "aprun": "--aprun", "mpiexec": "", "": "", "/opt/aprun/mpiexec a": "a",
	} {
		if got := strings.Join(FrontEndArgs(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// Each command of aprun in the guide's table is translated to the one beside it.
func TestAprunTableOfTheGuide(t *testing.T) {
	text, err := os.ReadFile("../doc/guide/switching.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| aprun | here |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	code := regexp.MustCompile("`([^`]+)`")
	options := option.Mpiexec(signalNumber)
	seen := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		lines, translations := code.FindAllStringSubmatch(cells[1], -1), code.FindAllStringSubmatch(cells[2], -1)
		if len(lines) != len(translations) {
			t.Errorf("%s: %d commands of aprun, and %d of mpiexec", row, len(lines), len(translations))
			continue
		}
		for i := range lines {
			line, want := lines[i][1], translations[i][1]
			args := strings.Fields(line)
			var words []string
			if translate := statusFrontEnds[args[0]]; translate != nil {
				words, _, err = translate(args[1:], option.Mpijob(options))
				words = append([]string{"mpijob"}, words...)
			} else {
				words, _, err = translateAprun(append(args, "a"), options, System{FS: withAccount(t.TempDir())})
			}
			seen++
			if got := strings.Join(words, " ") + " "; err != nil || !strings.Contains(got, want+" ") {
				t.Errorf("%s: %q, %v; the guide says %s", line, got, err, want)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d commands in the table", seen)
	}
}
